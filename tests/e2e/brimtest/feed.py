"""A body that an origin gives piece by piece, under each of the three framings of HTTP/1.1."""

FRAMINGS = ("length", "chunked", "close")
FRESH = {"Cache-Control": "max-age=3600"}


class Feed:
    """The head is out when it is made. Its user sends all n bytes and then calls end()."""

    def __init__(self, exchange, n, framing="length", headers=FRESH, status=200):
        self.x, self.framing = exchange, framing
        fields = dict(headers)
        if framing == "length":
            fields["Content-Length"] = str(n)
        elif framing == "chunked":
            fields["Transfer-Encoding"] = "chunked"
        else:
            fields["Connection"] = "close"
        self.x.head(status, fields)

    def send(self, data):
        if self.framing != "chunked":
            self.x.send(data)
        elif data:
            self.x.chunk(data)

    def end(self):
        if self.framing == "chunked":
            self.x.last_chunk()
        elif self.framing == "close":
            self.x.close()

    def break_off(self):
        """The end of what came can't be taken for the body's end."""
        if self.framing == "close":
            self.x.reset()
        else:
            self.x.close()


def feed(origin, target, body, framing="length", headers=FRESH, piece=None, gate=None, at=0, sent=None):
    """A page: its body in pieces of so many bytes; after «at» bytes waits for the gate; opens «sent» at the end."""
    def handler(x):
        f = Feed(x, len(body), framing, headers)
        halves = [body[:at], body[at:]] if gate else [body]
        for i, half in enumerate(halves):
            if i == 1:
                gate.wait()
            for begin in range(0, len(half), piece or max(len(half), 1)):
                f.send(half[begin:begin + (piece or len(half))])
        f.end()
        if sent:
            sent.open()
    origin.route(target)(handler)
