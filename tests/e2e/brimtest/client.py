"""A raw HTTP/1.1 client. It sends what it is told, reads answers strictly, and says whether a body
came whole: the difference between «short» and «looks whole» is what many tests are about."""
import json
import socket
import struct

from .wait import PATIENCE


class Response:
    def __init__(self, version, status, reason, headers):
        self.version, self.status, self.reason, self.headers = version, status, reason, headers
        self.body = b""
        self.length = 0  # of the body; also where it went to a sink
        self.complete = False
        self.framing = None  # none, length, chunked, close
        self.trailers = []
        self.informational = []  # 1xx responses before it
        self.error = None  # why it is not complete

    def all(self, name):
        return [v for k, v in self.headers if k.lower() == name.lower()]

    def get(self, name, default=None):
        """The value of a field; several lines are joined as one list."""
        values = self.all(name)
        return ", ".join(values) if values else default

    @property
    def cache(self):
        """The last member of Cache-Status without its name: «hit; ttl=37»."""
        value = self.get("Cache-Status")
        return None if value is None else value.rpartition(",")[2].strip().partition(";")[2].strip()

    @property
    def hit(self):
        """It took no fetch of its own: a hit, or from another request's fill that is whole but not committed yet."""
        return self.committed or "collapsed" in self._cache_words

    @property
    def committed(self):
        """A hit on what is in the index."""
        return "hit" in self._cache_words[:1]

    @property
    def _cache_words(self):
        return [] if self.cache is None else [word.strip() for word in self.cache.split(";")]

    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        body = self.body if len(self.body) <= 200 else self.body[:200] + b"..."
        return f"<{self.status} {self.headers} {self.length} bytes {'whole' if self.complete else self.error} {body!r}>"


class Connection:
    """A connection to HOST:PORT, (host, port) or unix:PATH."""

    def __init__(self, address, timeout=30):
        self.name = address
        timeout *= PATIENCE
        if isinstance(address, str) and address.startswith("unix:"):
            self.sock = socket.socket(socket.AF_UNIX)
            self.sock.settimeout(timeout)
            self.sock.connect(address[5:])
        else:
            if isinstance(address, str):
                host, _, port = address.rpartition(":")
                address = (host.strip("[]"), int(port))
            self.sock = socket.create_connection(address, timeout)
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = bytearray()
        self.ended = False
        self.closing = False  # the last answer said that no other will follow

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # --- sending

    def send(self, data):
        self.sock.sendall(data.encode("latin-1") if isinstance(data, str) else data)

    def request(self, method="GET", target="/", headers=None, body=None, host="a.test", version="HTTP/1.1"):
        """Sends a request. headers: a dict or a list of pairs; a Host and, with a body, a
        Content-Length are added unless they are there."""
        pairs = list(headers.items() if isinstance(headers, dict) else headers or [])
        names = {k.lower() for k, _ in pairs}
        if "host" not in names and host is not None:
            pairs.insert(0, ("Host", host))
        if body is not None and not names & {"content-length", "transfer-encoding"}:
            pairs.append(("Content-Length", str(len(body))))
        head = f"{method} {target} {version}\r\n" + "".join(f"{k}: {v}\r\n" for k, v in pairs) + "\r\n"
        self.send(head.encode("latin-1") + (body or b""))

    # --- receiving

    def _fill(self):
        """More bytes into the buffer; False at the end."""
        if self.ended:
            return False
        data = self.sock.recv(1 << 18)
        if not data:
            self.ended = True
            return False
        self.buffer += data
        return True

    def _take(self, n):
        out = bytes(self.buffer[:n])
        del self.buffer[:n]
        return out

    def _line(self):
        while (end := self.buffer.find(b"\r\n")) < 0:
            if not self._fill():
                raise ConnectionError(f"ended in a line: {bytes(self.buffer)!r}")
        return self._take(end + 2)[:-2].decode("latin-1")

    def _fields(self):
        out = []
        while line := self._line():
            name, colon, value = line.partition(":")
            assert colon and name and name == name.strip(), f"bad field line {line!r}"
            out.append((name, value.strip()))
        return out

    def head(self):
        """The next response's head, with 1xx before it collected; the body stays unread."""
        informational = []
        while True:
            line = self._line()
            version, _, rest = line.partition(" ")
            code, _, reason = rest.partition(" ")
            assert version in ("HTTP/1.1", "HTTP/1.0") and len(code) == 3 and code.isdigit(), f"bad status line {line!r}"
            r = Response(version, int(code), reason, self._fields())
            if r.status >= 200 or r.status == 101:
                r.informational = informational
                self.closing = "close" in (r.get("Connection") or "").lower()
                return r
            informational.append(r)

    def response(self, method="GET", into=None):
        """The next response, whole if it comes whole. into(bytes) takes the body instead of r.body."""
        r = self.head()
        self.read_body(r, method, into)
        return r

    def read_body(self, r, method="GET", into=None):
        pieces = []

        def keep(data):
            r.length += len(data)
            (into or pieces.append)(data)

        try:
            self._body(r, method, keep)
            r.complete = True
        except (ConnectionError, socket.timeout, AssertionError) as e:
            r.error = repr(e)
        r.body = b"".join(pieces)

    def _body(self, r, method, keep):
        lengths = r.all("Content-Length")
        coding = r.get("Transfer-Encoding")
        assert len(lengths) <= 1 and not (lengths and coding), f"ambiguous framing {r.headers}"
        if method == "HEAD" or r.status in (204, 304) or r.status < 200:
            r.framing = "none"
        elif coding is not None:
            assert coding.lower() == "chunked", f"unknown coding {coding}"
            r.framing = "chunked"
            while size := int(self._line().partition(";")[0], 16):
                self._copy(size, keep)
                assert self._line() == "", "no CRLF after a chunk"
            r.trailers = self._fields()
        elif lengths:
            r.framing = "length"
            self._copy(int(lengths[0]), keep)
        else:
            r.framing = "close"
            while True:
                keep(self._take(len(self.buffer)))
                if not self._fill():
                    return

    def _copy(self, n, keep):
        while n:
            if not self.buffer and not self._fill():
                raise ConnectionError(f"ended with {n} bytes to come")
            data = self._take(min(n, len(self.buffer)))
            n -= len(data)
            keep(data)

    def receive(self, n):
        """Exactly n raw bytes."""
        while len(self.buffer) < n:
            if not self._fill():
                raise ConnectionError(f"ended after {len(self.buffer)} of {n} bytes")
        return self._take(n)

    def until_closed(self, timeout=None):
        """All that comes until the peer closes; raises ConnectionResetError where it resets."""
        if timeout is not None:
            self.sock.settimeout(timeout * PATIENCE)
        while self._fill():
            pass
        return self._take(len(self.buffer))

    def closed(self, timeout=30):
        """Does the peer close (or reset) within the time, without a byte more?"""
        try:
            return self.until_closed(timeout) == b""
        except ConnectionError:
            return True
        except socket.timeout:
            return False

    # --- ending

    def half_close(self):
        self.sock.shutdown(socket.SHUT_WR)

    def reset(self):
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    def close(self):
        self.sock.close()


class SlowConnection(Connection):
    """A client with next to no buffers: small segments and a small window, so that the node can't get
    rid of more than some ten KiB that this client hasn't read."""

    def __init__(self, address, timeout=30):
        host, _, port = address.rpartition(":")
        self.name = address
        self.sock = socket.socket()
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 536)
        self.sock.settimeout(timeout * PATIENCE)
        self.sock.connect((host, int(port)))
        self.buffer = bytearray()
        self.ended = False
        self.closing = False


def fetch(address, target="/", method="GET", headers=None, body=None, host="a.test", timeout=30, into=None):
    """One request on a connection of its own."""
    pairs = list(headers.items() if isinstance(headers, dict) else headers or [])
    if not any(k.lower() == "connection" for k, _ in pairs):
        pairs.append(("Connection", "close"))
    with Connection(address, timeout) as c:
        c.request(method, target, pairs, body, host)
        return c.response(method, into)
