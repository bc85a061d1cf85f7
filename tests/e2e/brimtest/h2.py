"""A raw HTTP/2 client: it sends the frames that it is told, valid or not, and keeps what comes by stream. Only HPACK is
a library's. Windows are kept open unless a test says otherwise."""
import socket
import ssl
import struct

import hpack

from .client import Response
from .tls import client_context
from .wait import PATIENCE

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
PRIORITY_UPDATE = 0x10
END_STREAM = ACK = 1
END_HEADERS = 4
NO_ERROR, PROTOCOL_ERROR, INTERNAL_ERROR, FLOW_CONTROL_ERROR = 0, 1, 2, 3
REFUSED_STREAM, CANCEL, ENHANCE_YOUR_CALM = 7, 8, 11
MAX_CONCURRENT_STREAMS, INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE, MAX_HEADER_LIST_SIZE = 3, 4, 5, 6


class Stream(Response):
    """An answer as it comes. ended: END_STREAM was seen; reset: the code of RST_STREAM; order: when its DATA frames came."""

    def __init__(self, id):
        super().__init__("HTTP/2", None, "", [])
        self.id, self.ended, self.reset, self.frames = id, False, None, []
        self.pieces = []
        self.granted = 0  # by WINDOW_UPDATE, for what we send
        self.sent = 0

    @property
    def over(self):
        return self.ended or self.reset is not None

    def __repr__(self):
        return f"<{self.id}: {self.status} {self.headers} {self.length} bytes ended={self.ended} reset={self.reset}>"


class H2:
    """A connection; address: HOST:PORT. settings: ours, by number. windows: None keeps them open; else the test does.
    tls: a context of client_context (ALPN must say h2)."""

    def __init__(self, address, settings=None, windows=None, timeout=30, tls=False, ca=None, name="a.test", receive_buffer=None):
        host, _, port = address.rpartition(":")
        self.sock = socket.socket()
        if receive_buffer:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.sock.settimeout(timeout * PATIENCE)
        self.sock.connect((host, int(port)))
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls:
            self.sock = client_context(ca, alpn=("h2",)).wrap_socket(self.sock, server_hostname=name, suppress_ragged_eofs=False)
            assert self.sock.selected_alpn_protocol() == "h2"
        self.encoder, self.decoder = hpack.Encoder(), hpack.Decoder()
        self.buffer = bytearray()
        self.scheme = "https" if tls else "http"
        self.windows = windows
        self.streams, self.next_id = {}, 1
        self.goaway, self.goaways, self.ended, self.pongs, self.frames = None, [], False, [], []
        self.settings = {}
        self.granted = self.sent = 0  # as of streams
        self._block = None
        self.send(PREFACE + self.settings_frame(settings or {}))
        if windows is None:
            self.frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1 << 30))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.sock.close()

    def reset_connection(self):
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    # --- sending

    def send(self, data):
        self.sock.sendall(data)

    @staticmethod
    def bytes_of(type, flags, stream, payload=b""):
        return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", type, flags, stream) + payload

    def frame(self, type, flags, stream, payload=b""):
        self.send(self.bytes_of(type, flags, stream, payload))

    def settings_frame(self, settings):
        return self.bytes_of(SETTINGS, 0, 0, b"".join(struct.pack(">HI", k, v) for k, v in settings.items()))

    def open_window(self, n, stream=0):
        self.frame(WINDOW_UPDATE, 0, stream, struct.pack(">I", n))

    def rst(self, stream, code=CANCEL):
        self.frame(RST_STREAM, 0, getattr(stream, "id", stream), struct.pack(">I", code))

    def fields(self, method="GET", target="/", headers=(), host="a.test"):
        pairs = [(":method", method), (":scheme", self.scheme), (":authority", host), (":path", target)]
        return [(k, v) for k, v in pairs if v is not None] + list(headers.items() if isinstance(headers, dict) else headers)

    def new_stream(self):
        id, self.next_id = self.next_id, self.next_id + 2
        s = self.streams[id] = Stream(id)
        return s

    def head_frames(self, id, block, end=True, piece=16384):
        """A head's block in HEADERS and, where it is long, CONTINUATION frames."""
        pieces = [block[at:at + piece] for at in range(0, len(block), piece)]
        return b"".join(self.bytes_of(CONTINUATION if i else HEADERS,
                                      (END_HEADERS if p is pieces[-1] else 0) | (END_STREAM if end and i == 0 else 0), id, p)
                        for i, p in enumerate(pieces))

    def head(self, pairs, end=True):
        """A request with exactly these fields. The new stream."""
        s = self.new_stream()
        self.send(self.head_frames(s.id, self.encoder.encode(pairs, huffman=False), end))
        return s

    def request(self, method="GET", target="/", headers=(), body=None, host="a.test", end=True):
        """A request; body None: none follows. end False: more DATA is to come. The new stream."""
        s = self.head(self.fields(method, target, headers, host), end=body is None and end)
        if self.windows is None:
            self.open_window(1 << 30, s.id)
        if body is not None:
            self.data(s, body, end)
        return s

    def room(self, s):
        """What may be sent on a stream now."""
        return min(self.settings.get(INITIAL_WINDOW_SIZE, 65535) + s.granted - s.sent, 65535 + self.granted - self.sent)

    def data(self, s, data, end=True):
        """DATA, as windows allow; stops where the stream is over before that."""
        while True:
            n = min(len(data), 16384, max(self.room(s), 0))
            if n or not data:
                self.frame(DATA, END_STREAM if end and n == len(data) else 0, s.id, data[:n])
                s.sent, self.sent, data = s.sent + n, self.sent + n, data[n:]
            if not data:
                return
            self.wait(lambda: s.over or self.room(s) > 0)
            if s.over:
                return

    def trailers(self, s, pairs):
        self.frame(HEADERS, END_HEADERS | END_STREAM, s.id, self.encoder.encode(pairs))

    # --- receiving

    def _fill(self):
        try:
            data = self.sock.recv(1 << 16)
        except (ConnectionError, ssl.SSLError):
            data = b""
        self.ended |= not data
        self.buffer += data
        return bool(data)

    def step(self):
        """Takes one frame in; False at the connection's end."""
        while len(self.buffer) < 9 or len(self.buffer) < 9 + int.from_bytes(self.buffer[:3], "big"):
            if self.ended or not self._fill():
                return False
        n = int.from_bytes(self.buffer[:3], "big")
        type, flags, stream = struct.unpack(">BBI", self.buffer[3:9])
        payload = bytes(self.buffer[9:9 + n])
        del self.buffer[:9 + n]
        self.frames.append((type, flags, stream, n))
        self._take(type, flags, stream, payload)
        return True

    def _take(self, type, flags, stream, payload):
        s = self.streams.get(stream)
        if type == DATA:
            s.frames.append(len(self.frames))
            s.pieces.append(payload)
            s.length += len(payload)
            s.ended |= bool(flags & END_STREAM)
        elif type in (HEADERS, CONTINUATION):
            block, end = (payload, flags & END_STREAM) if type == HEADERS else (self._block[0] + payload, self._block[1])
            self._block = (block, end)
            if flags & END_HEADERS:
                self._head(s, self.decoder.decode(block), end)
        elif type == RST_STREAM:
            s.reset = int.from_bytes(payload, "big")
        elif type == SETTINGS and not flags & ACK:
            for at in range(0, len(payload), 6):
                k, v = struct.unpack(">HI", payload[at:at + 6])
                self.settings[k] = v
            self.frame(SETTINGS, ACK, 0)
        elif type == WINDOW_UPDATE:
            (s or self).granted += int.from_bytes(payload, "big")
        elif type == PING:
            if flags & ACK:
                self.pongs.append(payload)
            else:
                self.frame(PING, ACK, 0, payload)
        elif type == GOAWAY:
            self.goaway = struct.unpack(">II", payload[:8])
            self.goaways.append(self.goaway)

    @staticmethod
    def _head(s, pairs, end):
        for name, value in pairs:
            assert name == name.lower(), f"an upper-case name: {name}"
        if pairs and pairs[0][0] == ":status" and s.status is None:
            status = int(pairs[0][1])
            if status < 200:
                s.informational.append((status, pairs[1:]))
            else:
                s.status, s.headers = status, pairs[1:]
        else:
            s.trailers = pairs
        s.ended |= bool(end)

    def wait(self, condition, what="it"):
        """Takes frames until the condition holds; fails at the connection's end."""
        while not condition():
            assert self.step(), f"the connection ended before {what}: goaway {self.goaway}"

    def finish(self, *streams):
        """Waits for streams to end; the (first) answer."""
        for s in streams:
            self.wait(lambda: s.over, f"{s} was over")
            s.body = b"".join(s.pieces)
            s.complete = s.ended and s.reset is None
        return streams[0]

    def get(self, target, **kw):
        return self.finish(self.request("GET", target, **kw))

    def ping(self, payload=b"12345678"):
        """What was sent before has been read when this returns."""
        n = len(self.pongs)
        self.frame(PING, 0, 0, payload)
        self.wait(lambda: len(self.pongs) > n, "a PING's answer")

    def until_closed(self):
        """Takes frames until the peer closes."""
        while self.step():
            pass
