"""Connections that change the protocol (WebSocket): HTTP until the origin agrees, then bytes both ways."""
import select
import signal
import ssl
import time

import pytest

from brimtest import FRESH, Gate, pattern, wait_until
from brimtest.look import gauge
from brimtest.origin import server_context

KIB, MIB = 1 << 10, 1 << 20
ASK = {"Connection": "upgrade", "Upgrade": "websocket", "Sec-WebSocket-Key": "x"}


def agree(x, protocol="websocket", more=b""):
    """The origin's 101; then what came behind the request's head."""
    x.send(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\nSec-WebSocket-Accept: y\r\n\r\n%s"
           % (protocol.encode(), more))
    early, x._reader.buffer = bytes(x._reader.buffer), bytearray()
    return early


def echo(x):
    data = agree(x)
    while True:
        if data:
            x.send(data)
        try:
            data = x.sock.recv(1 << 16)
        except OSError:
            data = b""
        if not data:
            return x.close()


def ask(c, target="/ws", headers=ASK, **kw):
    c.request("GET", target, headers, **kw)
    return c.head()


def talk(c, data):
    """Sends data while it receives as much."""
    got, sent, deadline = bytearray(c._take(len(c.buffer))), 0, time.monotonic() + 60
    c.sock.settimeout(0)
    while len(got) < len(data):
        assert time.monotonic() < deadline, f"{sent} bytes sent, {len(got)} received"
        moved = False
        try:
            if sent < len(data):
                sent += c.sock.send(data[sent:sent + (64 << 10)])
                moved = True
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            pass
        try:
            piece = c.sock.recv(1 << 18)
            assert piece, f"ended after {len(got)} bytes"
            got += piece
            moved = True
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            pass
        if not moved:
            select.select([c.sock], [c.sock] if sent < len(data) else [], [], 5)
    c.sock.settimeout(60)
    return bytes(got)


@pytest.fixture
def node(origin, make_node):
    origin.route("/ws")(echo)
    return make_node(origin, workers=1)


# --- the change


def test_both_sides_change(origin, node):
    with node.connect() as c:
        r = ask(c)
        assert r.status == 101 and r.get("Upgrade") == "websocket" and r.get("Connection") == "upgrade"
        assert r.get("Sec-WebSocket-Accept") == "y" and "1.1 brim" in r.get("Via")
        assert r.get("Content-Length") is None and r.get("Transfer-Encoding") is None
        for word in (b"hello", b"again"):
            c.send(word)
            assert c.receive(len(word)) == word
        wait_until(lambda: gauge(node, "tunnels") == 1, "the tunnel to be counted")
    asked = origin.last("/ws")
    assert asked.get("Connection") == "upgrade" and asked.get("Upgrade") == "websocket"
    assert asked.get("Sec-WebSocket-Key") == "x" and asked.get("Host") == "a.test"
    wait_until(lambda: gauge(node, "tunnels") == 0, "its end to be counted")
    line = node.access_log(1)[0]
    assert line["status"] == 101 and line["bytes"] == 10 and line["cache"] == "pass" and not line.get("error")
    origin.wait_idle()


def test_what_came_behind_the_heads_goes_first(origin, node):
    @origin.route("/early")
    def _(x):
        early = agree(x, more=b"from the origin, ")
        while len(early) < len(b"from the client"):
            early += x.sock.recv(100)
        x.send(early)
        x.close()
    with node.connect() as c:
        c.send("GET /early HTTP/1.1\r\nHost: a.test\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\nfrom the client")
        assert c.head().status == 101
        assert c.until_closed() == b"from the origin, from the client"


@pytest.mark.parametrize("client", ["plain", "1.2", "1.3"])
@pytest.mark.parametrize("server", ["plain", "1.2", "1.3"])
def test_large_both_ways(make_origin, make_node, certs, client, server):
    pair = certs.issue(["a.test", "127.0.0.1"])
    origin = make_origin(tls=None if server == "plain" else server_context(pair, server))
    origin.route("/ws")(echo)
    node = make_node(origin, workers=1, origin_conf={"tls": {"ca": certs.root}}, tls=None if client == "plain" else pair)
    body = pattern(6 * MIB + 1)
    c = node.connect() if client == "plain" else node.connect_tls(certs.root, version=client)
    with c:
        assert ask(c).status == 101
        assert talk(c, body) == body
        c.send(b"still there")
        assert c.receive(11) == b"still there"
    assert node.access_log(1)[0]["bytes"] == len(body) + 11
    origin.wait_idle()


def test_many_at_once(origin, node):
    connections = [node.connect() for _ in range(40)]  # more than a worker has pipes
    for c in connections:
        assert ask(c).status == 101
    for n, c in enumerate(connections):
        c.send(pattern(20_000, n))
    for n, c in enumerate(connections):
        assert c.receive(20_000) == pattern(20_000, n)
        c.close()
    wait_until(lambda: gauge(node, "tunnels") == 0, "the tunnels' end")


def test_a_connection_of_its_own(origin, node):
    origin.page("/", b"hello")
    assert node.get("/").body == b"hello"
    with node.connect() as c:
        assert ask(c).status == 101
    assert origin.last("/ws").connection != origin.last("/").connection


# --- no change


@pytest.mark.parametrize("headers,upgrade", [
    ({"Connection": "upgrade", "Upgrade": "foo"}, None),
    ({"Connection": "upgrade, HTTP2-Settings", "Upgrade": "h2c", "HTTP2-Settings": "AAMAAABkAAQAAP__"}, None),
    ({"Connection": "upgrade", "Upgrade": "h2c, WebSocket, foo"}, "WebSocket"),
    ({"Upgrade": "websocket"}, None),  # not said to be for this hop: it isn't for any
])
def test_what_may_not_be_asked_for_is_not(origin, node, headers, upgrade):
    origin.page("/a", b"plain", FRESH)
    with node.connect() as c:
        c.request("GET", "/a", headers)
        r = c.response()
        assert r.status == 200 and r.body == b"plain"
        c.request("GET", "/a")  # the connection goes on
        assert c.response().body == b"plain"
    asked = origin.requests[0]
    assert asked.get("Upgrade") == upgrade and asked.get("HTTP2-Settings") is None
    assert asked.get("Connection") == (upgrade and "upgrade")


def test_only_a_get_without_body_of_http_1_1(origin, node):
    origin.page("/a", b"plain")
    assert node.request("POST", "/a", ASK, b"body").body == b"plain"
    assert node.request("GET", "/a", ASK, b"body").body == b"plain"
    assert node.request("HEAD", "/a", ASK).status == 200
    with node.connect() as c:
        c.request("GET", "/a", ASK, version="HTTP/1.0")
        assert c.response().body == b"plain"
    assert origin.count("/a") == 4 and not any(r.get("Upgrade") for r in origin.requests)


def test_a_site_may_forbid_it(origin, make_node):
    node = make_node(origin, workers=1, site={"upgrade": []})
    origin.page("/a", b"plain")
    assert node.get("/a", ASK).body == b"plain"
    assert origin.last("/a").get("Upgrade") is None


def test_another_answer_is_one_like_others(origin, node):
    origin.page("/200", b"no", FRESH)
    origin.page("/426", b"newer", {"Upgrade": "foo", "Connection": "upgrade"}, status=426)
    with node.connect() as c:
        for target, body in (("/200", b"no"), ("/426", b"newer"), ("/200", b"no")):
            r = ask(c, target)
            assert r.status == int(target[1:]) and r.get("Upgrade") is None
            c.read_body(r)
            assert r.complete and r.body == body and "stored" not in r.get("Cache-Status")
    assert origin.count("/200") == 2


def test_a_stored_answer_is_not_used(origin, node):
    origin.page("/a", b"stored", FRESH)
    assert node.get("/a").body == b"stored"
    origin.route("/a")(echo)
    with node.connect() as c:
        assert ask(c, "/a").status == 101


@pytest.mark.parametrize("asked,given", [(None, "websocket"), ("websocket", "h2c"), ("websocket", "websocket, tls"),
                                         ("websocket", "")])
def test_a_101_that_does_not_fit_is_an_error(origin, node, asked, given):
    @origin.route("/a")
    def _(x):
        agree(x, given)
        x.peer_closed()
        x.close()
    r = node.get("/a", {"Connection": "upgrade", "Upgrade": asked} if asked else {})
    assert r.status == 502 and "error=http_protocol_error" in r.get("Proxy-Status")


# --- the end


def test_each_way_ends_by_itself(origin, node):
    heard = Gate()

    @origin.route("/half")
    def _(x):
        data = agree(x)
        while piece := x.sock.recv(100):
            data += piece
        heard.open()
        x.send(b"you said " + data)
        x.close()
    with node.connect() as c:
        assert ask(c, "/half").status == 101
        c.send(b"all")
        c.half_close()
        heard.wait()
        assert c.until_closed() == b"you said all"

    @origin.route("/other")
    def _(x):
        agree(x, more=b"all")
        x.sock.shutdown(1)
        data = b""
        while piece := x.sock.recv(100):
            data += piece
        origin.said = data
        heard.open()
        x.close()
    heard = Gate()
    with node.connect() as c:
        assert ask(c, "/other").status == 101
        assert c.until_closed() == b"all"
        c.send(b"and you")
        c.half_close()
        heard.wait()
    assert origin.said == b"and you"


def test_a_reset_is_passed_on(origin, node):
    @origin.route("/reset")
    def _(x):
        agree(x)
        x.sock.recv(1)
        x.reset()
    with node.connect() as c:
        assert ask(c, "/reset").status == 101
        c.send(b"x")
        with pytest.raises(ConnectionResetError):
            c.until_closed()
    c = node.connect()
    assert ask(c).status == 101
    c.reset()
    origin.wait_idle()
    assert {line["error"] for line in node.access_log(2)} <= {"tunnel_broken", "client_gone"}


def test_a_cut_tls_stream_is_no_end(make_origin, make_node, certs):
    origin = make_origin(tls=server_context(certs.issue("127.0.0.1")))
    node = make_node(origin, workers=1, origin_conf={"tls": {"ca": certs.root}})

    @origin.route("/cut")
    def _(x):
        agree(x, more=b"some")
        x.cut()
    with node.connect() as c:
        assert ask(c, "/cut").status == 101
        with pytest.raises(ConnectionResetError):
            c.until_closed()


def test_silence_ends_it(origin, make_node):
    origin.route("/ws")(echo)
    node = make_node(origin, workers=1, conf={"limits": {"tunnel_timeout": "300ms"}})
    with node.connect() as c:
        assert ask(c).status == 101
        assert c.closed()
    origin.wait_idle()
    assert node.access_log(1)[0]["error"] == "tunnel_timeout"


def test_a_node_that_stops_waits_no_longer_than_it_must(origin, make_node):
    origin.route("/ws")(echo)
    node = make_node(origin, workers=1, conf={"shutdown_timeout": "500ms"})
    with node.connect() as c:
        assert ask(c).status == 101
        node.process.send_signal(signal.SIGTERM)
        c.send(b"still")
        assert c.receive(5) == b"still"
        assert c.closed()
        node.wait_end()


def test_a_client_that_reads_nothing_is_waited_for(origin, node):
    """And nothing is piled up for it: the origin is slowed down."""
    stuck, body = Gate(), pattern(64 * MIB)

    @origin.route("/flood")
    def _(x):
        agree(x)
        x.sock.settimeout(1)
        try:
            x.sock.sendall(body)
        except TimeoutError:
            stuck.open()
        x.close()
    with node.connect() as c:
        assert ask(c, "/flood").status == 101
        stuck.wait()
        c.receive(100_000)
