"""A scripted origin server over raw sockets, a thread per connection.

    origin.page("/a", b"hello", {"Cache-Control": "max-age=60"})        a well-behaved page
    origin.raw("/b", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort")   bytes, then close

    @origin.route("/c")                                                  anything
    def _(x):
        x.head(200, {"Content-Length": "10"})
        x.send(b"first")
        gate.wait()
        x.reset()

A handler that returns leaves the connection open for the next request, unless it closed it or the
request said «close». An exception in a handler fails the test (the peer's going away does not).

Over TLS: Origin(tls=server_context(pair)); origin.handshakes tells what each connection agreed upon, and
origin.refusals why others came to nothing. x.close() says so first (close_notify), x.cut() doesn't.
"""
import collections
import email.utils
import socket
import ssl
import struct
import threading
import time
import traceback

from .wait import PATIENCE


class Gate:
    """Closed until opened; whoever waits in vain fails."""

    def __init__(self):
        self._event = threading.Event()

    def open(self):
        self._event.set()

    def close(self):
        self._event.clear()

    def wait(self, timeout=30):
        if not self._event.wait(timeout * PATIENCE):
            raise AssertionError(f"the gate was not opened within {timeout} s")


class Request:
    """What the origin was asked. number counts requests from 0, connection counts connections."""

    def __init__(self, number, connection, raw_head):
        self.number, self.connection, self.raw_head = number, connection, raw_head
        lines = raw_head.decode("latin-1").split("\r\n")
        self.method, self.target, self.version = lines[0].split(" ")
        self.headers = [(k, v.strip()) for k, _, v in (line.partition(":") for line in lines[1:] if line)]
        self.body = b""
        self.trailers = []

    def all(self, name):
        return [v for k, v in self.headers if k.lower() == name.lower()]

    def get(self, name, default=None):
        values = self.all(name)
        return ", ".join(values) if values else default

    def __repr__(self):
        return f"<{self.number}: {self.method} {self.target} on connection {self.connection}>"


class PeerGone(Exception):
    pass


# name: of SNI; certificate: the peer's, as getpeercert() has it.
Handshake = collections.namedtuple("Handshake", "version resumed name alpn certificate")


def server_context(pair, version=None, ciphers=None, clients=None):
    """pair: of Certs. version: "1.2" or "1.3" alone. ciphers: of 1.2. clients: path of what must have signed theirs."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)
    context.set_alpn_protocols(["http/1.1"])
    if version:
        context.minimum_version = context.maximum_version = ssl.TLSVersion[f"TLSv{version.replace('.', '_')}"]
    if ciphers:
        context.set_ciphers(ciphers)
    if clients:
        context.load_verify_locations(clients)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


class Exchange:
    """One request being answered: what a handler works with."""

    def __init__(self, origin, sock, request, reader):
        self.origin, self.sock, self.request, self._reader = origin, sock, request, reader
        self.closed = False

    def send(self, data):
        try:
            self.sock.sendall(data.encode("latin-1") if isinstance(data, str) else data)
        except OSError as e:
            raise PeerGone from e

    def head(self, status=200, headers=None):
        """Status line and fields, with a Date unless there is one (or it is None)."""
        pairs = list(headers.items() if isinstance(headers, dict) else headers or [])
        if not any(k.lower() == "date" for k, _ in pairs):
            pairs.append(("Date", self.origin.date()))
        self.send(f"HTTP/1.1 {status} Scripted\r\n"
                  + "".join(f"{k}: {v}\r\n" for k, v in pairs if v is not None) + "\r\n")

    def reply(self, body=b"", headers=None, status=200):
        """A whole response with Content-Length (none for HEAD's body, 204 and 304)."""
        pairs = list(headers.items() if isinstance(headers, dict) else headers or [])
        if status not in (204, 304) and not any(k.lower() == "content-length" for k, _ in pairs):
            pairs.append(("Content-Length", str(len(body))))
        self.head(status, pairs)
        if self.request.method != "HEAD" and status not in (204, 304):
            self.send(body)

    def chunk(self, data):
        self.send(b"%x\r\n%s\r\n" % (len(data), data))

    def last_chunk(self, trailers=()):
        self.send("0\r\n" + "".join(f"{k}: {v}\r\n" for k, v in trailers) + "\r\n")

    def read_body(self):
        """For routes that were made with early=True: the body that is still to come."""
        self._reader.body(self.request)
        return self.request.body

    def peer_closed(self, timeout=30):
        """Waits for the node to close or reset this connection."""
        self.sock.settimeout(timeout * PATIENCE)
        try:
            return self.sock.recv(1) == b""
        except ConnectionError:
            return True
        except socket.timeout:
            return False

    def close(self):
        if isinstance(self.sock, ssl.SSLSocket):
            try:
                self.sock.settimeout(10)
                self.sock.unwrap()  # waits for the peer's, or for it to hang up
            except (OSError, ValueError):
                pass
        self.cut()

    def cut(self):
        """With TLS, a stream that doesn't say that it ends."""
        self.closed = True
        try:
            self.sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.sock.close()

    def reset(self):
        self.closed = True
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()


class Reader:
    """Requests out of a socket."""

    def __init__(self, sock):
        self.sock, self.buffer = sock, bytearray()

    def _fill(self):
        try:
            data = self.sock.recv(1 << 18)
        except OSError:
            data = b""
        if not data:
            raise PeerGone
        self.buffer += data

    def _until(self, mark):
        while (end := self.buffer.find(mark)) < 0:
            self._fill()
        return self._take(end + len(mark))

    def _take(self, n):
        while len(self.buffer) < n:
            self._fill()
        out = bytes(self.buffer[:n])
        del self.buffer[:n]
        return out

    def head(self):
        return self._until(b"\r\n\r\n")[:-2]

    def body(self, request):
        if "chunked" in request.get("Transfer-Encoding", "").lower():
            while size := int(self._until(b"\r\n").split(b";")[0], 16):
                request.body += self._take(size)
                assert self._take(2) == b"\r\n"
            while line := self._until(b"\r\n")[:-2]:
                name, _, value = line.decode("latin-1").partition(":")
                request.trailers.append((name, value.strip()))
        else:
            request.body += self._take(int(request.get("Content-Length", "0")))


class Origin:
    def __init__(self, clock=None, address="127.0.0.1", tls=None):
        self.clock, self.tls = clock, tls
        self.requests = []
        self.handshakes, self.refusals, self._names = [], [], {}
        self.faults = []  # tracebacks of handlers
        self.connections = 0
        self.open_sockets = set()
        self._routes = {}
        self._changed = threading.Condition()
        self._listener = socket.create_server((address, 0), backlog=1024)
        self.port = self._listener.getsockname()[1]
        self.address = f"{address}:{self.port}"
        self.url = f"http{'s' if tls else ''}://{self.address}"
        if tls:
            tls.sni_callback = lambda sock, name, context: self._names.__setitem__(sock, name)
        threading.Thread(target=self._accept, daemon=True).start()

    # --- scripting

    def route(self, target, early=False):
        """Decorator: a handler for a target with or without its query; "*": for all others.
        early: the handler runs before the request's body is read."""
        def add(handler):
            self._routes[target] = (handler, early)
            return handler
        return add

    def page(self, target, body=b"", headers=None, status=200):
        self.route(target)(lambda x: x.reply(body, headers, status))

    def raw(self, target, data):
        def handler(x):
            x.send(data)
            x.close()
        self.route(target)(handler)

    def date(self, seconds_from_now=0):
        now = self.clock.now() if self.clock else time.time()
        return email.utils.formatdate(now + seconds_from_now, usegmt=True)

    # --- what was seen

    def count(self, target=None, method=None):
        with self._changed:
            return sum((target is None or r.target == target) and (method is None or r.method == method)
                       for r in self.requests)

    def last(self, target=None):
        with self._changed:
            return next(r for r in reversed(self.requests) if target is None or r.target == target)

    def wait_for(self, n, target=None, timeout=30):
        """Waits until n requests (for target) have come; returns the n-th."""
        def seen():
            return [r for r in self.requests if target is None or r.target == target]
        with self._changed:
            if not self._changed.wait_for(lambda: len(seen()) >= n, timeout * PATIENCE):
                raise AssertionError(f"the origin saw {len(seen())} of {n} requests for {target or 'anything'}")
            return seen()[n - 1]

    def wait_idle(self, open_connections=0, timeout=30):
        """Waits until at most so many connections are open."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self.open_sockets) <= open_connections, timeout * PATIENCE):
                raise AssertionError(f"{len(self.open_sockets)} connections to the origin are still open")

    # --- life

    def stop(self):
        """No more connections: the port refuses. Open ones are cut."""
        try:
            self._listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._listener.close()
        with self._changed:
            sockets = list(self.open_sockets)
        for sock in sockets:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def start_again(self):
        """On the same port, after stop()."""
        self._listener = socket.create_server((self.address.rpartition(":")[0], self.port), backlog=1024)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        listener = self._listener
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            with self._changed:
                number = self.connections
                self.connections += 1
                self.open_sockets.add(sock)
                self._changed.notify_all()
            threading.Thread(target=self._serve, args=(sock, number), daemon=True).start()

    def _serve(self, sock, number):
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self.tls:
                sock = self._shake_hands(sock)
            reader = Reader(sock)
            while self._exchange(sock, reader, number):
                pass
        except PeerGone:
            pass
        except Exception:
            self.faults.append(traceback.format_exc())
        finally:
            sock.close()
            with self._changed:
                self.open_sockets.discard(sock)
                self._changed.notify_all()

    def _shake_hands(self, plain):
        sock = self.tls.wrap_socket(plain, server_side=True, do_handshake_on_connect=False, suppress_ragged_eofs=True)
        with self._changed:
            self.open_sockets.discard(plain)
            self.open_sockets.add(sock)
        try:
            sock.do_handshake()
        except OSError as e:
            with self._changed:
                self.refusals.append(str(e))
                self.open_sockets.discard(sock)
                self._changed.notify_all()
            sock.close()
            raise PeerGone from e
        with self._changed:
            self.handshakes.append(Handshake(sock.version(), sock.session_reused, self._names.pop(sock, None),
                                             sock.selected_alpn_protocol(), sock.getpeercert()))
        return sock

    def _exchange(self, sock, reader, number):
        request = Request(None, number, reader.head())
        handler, early = (self._routes.get(request.target) or self._routes.get(request.target.partition("?")[0])
                          or self._routes.get("*") or (lambda x: x.reply(b"no such page\n", status=404), False))
        if not early:
            reader.body(request)
        with self._changed:
            request.number = len(self.requests)
            self.requests.append(request)
            self._changed.notify_all()
        x = Exchange(self, sock, request, reader)
        handler(x)
        if not x.closed and "close" in request.get("Connection", "").lower():
            x.close()
        return not x.closed
