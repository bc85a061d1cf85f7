"""HTTP/2 to clients: the same answers as on HTTP/1, stream by stream; what is cut never looks whole."""
import queue
import re
import signal
import socket
import struct
import subprocess
import threading

import pytest

from brimtest import FRAMINGS, FRESH, Feed, Gate, pattern
from brimtest.h2 import (CANCEL, CONTINUATION, DATA, END_HEADERS, END_STREAM, ENHANCE_YOUR_CALM, H2, HEADERS, INITIAL_WINDOW_SIZE,
                         INTERNAL_ERROR, MAX_HEADER_LIST_SIZE, NO_ERROR, PING, PRIORITY, PRIORITY_UPDATE, PROTOCOL_ERROR, REFUSED_STREAM,
                         RST_STREAM, SETTINGS, WINDOW_UPDATE)
from brimtest.look import gauge, until_hit, worker_of
from brimtest.trace import Trace, Ways
from brimtest.wait import PATIENCE, wait_until

KIB, MIB = 1 << 10, 1 << 20
PASS = {"Cache-Control": "no-store"}


@pytest.fixture
def make_h2(origin, make_node):
    """Starts a node whose listener speaks both."""
    def make(**kw):
        node = make_node(origin, start=False, **kw)
        node.conf["listeners"][0]["protocols"] = ["h2", "http/1.1"]
        return node.start()
    return make


@pytest.fixture
def node(make_h2):
    return make_h2(workers=1)


@pytest.fixture(params=["plain", "tls"])
def either(request, make_h2, certs):
    """Over TLS, too."""
    return make_h2(workers=1, tls=certs.issue(["a.test"]) if request.param == "tls" else None)


def connect(node, **kw):
    if node.tls_port:
        return H2(node.tls_address, tls=True, **kw)
    return H2(node.address, **kw)


class Stepped:
    """A page that an origin gives as the test goes on."""

    def __init__(self, origin, target, n, framing="length", headers=PASS):
        self.todo = queue.Queue()

        def handler(x):
            f = Feed(x, n, framing, headers)
            while step := self.todo.get(timeout=60 * PATIENCE):
                step(f)
        origin.route(target, early=True)(handler)

    def send(self, data):
        self.todo.put(lambda f: f.send(data))

    def end(self):
        self.todo.put(lambda f: f.end())
        self.todo.put(None)

    def cut(self):
        self.todo.put(lambda f: f.break_off())
        self.todo.put(None)


# --- answers


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_large_head(origin, make_h2, method):
    node = make_h2(workers=1, conf={"limits": {"header_bytes": "64KiB"}})
    origin.page("/a", b"a", {**PASS, **{f"x-{i}": "y" * 1000 for i in range(100)}})
    with connect(node) as c:
        c.decoder.max_header_list_size = MIB
        s = c.finish(c.request(method, "/a"))
        assert s.status == 200 and s.get("x-99") == "y" * 1000 and s.ended


def test_misses_and_hits(origin, either):
    with connect(either) as c:
        for size in (0, 1, 1 * KIB, 16 * KIB, 16 * KIB + 1, 100 * KIB, 3 * MIB):
            target, body = f"/{size}", pattern(size)
            origin.page(target, body, {**FRESH, "Connection": "x-hop", "X-Hop": "1", "X-Name": "Value"})
            r = c.get(target)
            assert (r.status, r.body, r.complete) == (200, body, True)
            assert r.get("x-name") == "Value" and r.get("x-hop") is None and r.get("connection") is None
            assert r.get("content-length") == str(size)
            until_hit(either, target, body)
            r = c.get(target)
            assert r.hit and r.body == body and r.complete
            asked = origin.last(target)
            assert asked.get("Via") == "2 brim" and asked.get("Host") == "a.test"
    assert {e["protocol"] for e in either.access_log(3)} == {"HTTP/2.0", "HTTP/1.1"}


def test_http_1_on_the_same_listener(origin, node):
    origin.page("/a", b"hello", FRESH)
    assert node.get("/a").body == b"hello"


def test_parts_heads_and_conditions(origin, node):
    body = pattern(300 * KIB)
    origin.page("/a", body, {**FRESH, "ETag": '"1"'})
    node.get("/a")
    until_hit(node, "/a", body)
    with connect(node) as c:
        r = c.get("/a", headers={"range": "bytes=1000-250000"})
        assert (r.status, r.body) == (206, body[1000:250001]) and r.get("content-range") == f"bytes 1000-250000/{300 * KIB}"
        r = c.get("/a", headers={"range": "bytes=0-9,100000-100009"})
        assert r.status == 206 and body[:10] in r.body and body[100000:100010] in r.body and len(r.body) < 1000
        r = c.get("/a", headers={"range": "bytes=999999-"})
        assert r.status == 416 and r.complete
        r = c.get("/a", headers={"if-none-match": '"1"'})
        assert r.status == 304 and r.complete and r.length == 0
        r = c.finish(c.request("HEAD", "/a"))
        assert r.status == 200 and r.length == 0 and r.complete and r.get("content-length") == str(300 * KIB)


@pytest.mark.parametrize("framing", FRAMINGS)
@pytest.mark.parametrize("fresh", [FRESH, PASS], ids=["stored", "relayed"])
def test_bytes_go_on_before_the_end_is_there(origin, node, framing, fresh):
    page = Stepped(origin, "/a", 210 * KIB, framing, fresh)
    with connect(node) as c:
        s = c.request("GET", "/a")
        page.send(pattern(10 * KIB))
        c.wait(lambda: s.length == 10 * KIB)
        assert not s.ended
        page.send(pattern(200 * KIB, 1))
        c.wait(lambda: s.length == 210 * KIB)
        page.end()
        r = c.finish(s)
        assert r.complete and r.body == pattern(10 * KIB) + pattern(200 * KIB, 1)


def test_trailers_of_an_answer(origin, node):
    @origin.route("/a")
    def _(x):
        x.head(200, {**PASS, "Transfer-Encoding": "chunked", "Trailer": "X-Sum"})
        x.chunk(b"body")
        x.last_chunk([("X-Sum", "42")])

    with connect(node) as c:
        r = c.get("/a")
        assert r.complete and r.body == b"body" and ("x-sum", "42") in r.trailers


def test_interim_answers(origin, node):
    @origin.route("/a")
    def _(x):
        x.send("HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n")
        x.reply(b"late", PASS)

    with connect(node) as c:
        r = c.get("/a")
        assert r.body == b"late" and [i[0] for i in r.informational] == [103]
        assert ("link", "</style.css>; rel=preload") in r.informational[0][1]


def test_an_error_of_our_own(origin, node):
    origin.stop()
    with connect(node) as c:
        r = c.get("/a")
        assert r.status == 502 and r.complete and "error=" in r.get("proxy-status")
        assert c.get("/a", host="b.test").status == 421
        assert c.finish(c.request("OPTIONS", "*")).status == 204
        assert c.finish(c.request("TRACE", "/")).status == 405


# --- requests


def test_bodies_go_up(origin, either):
    origin.route("/up")(lambda x: x.reply(x.request.body, PASS))
    with connect(either) as c:
        for size in (0, 5, 300 * KIB):
            for length in (str(size), None):
                body = pattern(size)
                r = c.finish(c.request("POST", "/up", {"content-length": length} if length else {}, body))
                assert r.status == 200 and r.body == body and r.complete
                assert origin.last("/up").get("Content-Length") == length


def test_a_body_with_trailers_and_an_expectation(origin, node):
    origin.route("/up")(lambda x: x.reply(x.request.body, PASS))
    with connect(node) as c:
        s = c.request("POST", "/up", {"expect": "100-continue", "te": "trailers"}, end=False)
        c.wait(lambda: s.informational)
        assert s.informational[0][0] == 100
        c.frame(DATA, 0, s.id, b"hello")
        c.trailers(s, [("x-sum", "1")])
        r = c.finish(s)
        assert r.body == b"hello" and r.complete
    assert origin.last("/up").get("TE") is None and origin.last("/up").get("Expect") is None


def test_an_answer_before_the_body_is_there(origin, make_h2):
    node = make_h2(site={"max_request_body": "1KiB"})
    with connect(node) as c:
        s = c.request("POST", "/up", body=bytes(10 * KIB), end=False)
        c.wait(lambda: s.reset is not None)
        assert s.status == 413 and s.ended and s.reset == NO_ERROR
        assert c.finish(c.request("OPTIONS", "*")).status == 204


def test_a_slow_upload_takes_no_more_than_its_window(origin, node):
    """Windows open as the origin takes bytes, not before: what is between is in sockets."""
    gate = Gate()

    @origin.route("/up", early=True)
    def _(x):
        gate.wait()
        x.reply(b"%d" % len(x.read_body()), PASS)

    size = 12 * MIB
    origin._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 * KIB)
    with connect(node) as c:
        s = c.request("POST", "/up", {"content-length": str(size)}, end=False)
        c.ping()
        assert c.settings[INITIAL_WINDOW_SIZE] <= 64 * KIB
        while c.room(s) > 0:
            c.data(s, bytes(c.room(s)), end=False)
            c.ping()
        assert s.sent < size // 4 * 3, "the body was taken in"
        gate.open()
        c.data(s, bytes(size - s.sent))
        assert c.finish(s).body == b"%d" % size


def test_cookies_are_joined_and_hosts_agree(origin, node):
    origin.page("/a", b"a", PASS)
    with connect(node) as c:
        assert c.get("/a", headers=[("cookie", "a=1"), ("x", "y"), ("cookie", "b=2"), ("host", "A.test:80")]).status == 200
        assert origin.last().get("Cookie") == "a=1; b=2" and len(origin.last().all("Host")) == 1
        assert c.get("/a", headers={"host": "b.test"}).status == 400
        assert c.finish(c.head([*c.fields(target="/a", host=None), ("host", "a.test")])).status == 200
        assert c.finish(c.head(c.fields(host=None))).reset == PROTOCOL_ERROR
        assert c.finish(c.head(c.fields(target="/%zz"))).status == 400


def test_a_malformed_head_is_over(origin, make_h2):
    """The library refuses it: the deadline of heads is not about it any more."""
    node = make_h2(workers=1, conf={"limits": {"header_timeout": "1s"}})
    done = threading.Event()

    @origin.route("/a")
    def _(x):
        done.wait(2)
        x.reply(b"a", PASS)

    with connect(node) as c:
        s = c.request("GET", "/a")
        assert c.finish(c.head(c.fields(host=None))).reset == PROTOCOL_ERROR
        assert c.finish(s).body == b"a"


MALFORMED = {
    "connection": [("connection", "close")],
    "keep-alive": [("keep-alive", "1")],
    "proxy-connection": [("proxy-connection", "close")],
    "transfer-encoding": [("transfer-encoding", "chunked")],
    "upgrade": [("upgrade", "websocket")],
    "te": [("te", "gzip")],
    "upper case": [("X-Upper", "1")],
    "colon in a name": [("x:y", "1")],
    "space in a name": [("x y", "1")],
    "empty name": [("", "1")],
    "LF in a value": [("x", "a\nb")],
    "CR in a value": [("x", "a\rb")],
    "NUL in a value": [("x", "a\0b")],
    "leading blank": [("x", " a")],
    "trailing blank": [("x", "a ")],
    "late pseudo field": [("x", "a"), (":path", "/b")],
    "unknown pseudo field": [(":protocol", "websocket")],
    "method twice": [(":method", "GET")],
    "status": [(":status", "200")],
    "length without body": [("content-length", "5")],
    "two lengths": [("content-length", "5"), ("content-length", "6")],
}


def test_malformed_heads_end_their_stream_alone(origin, node):
    origin.page("/ok", b"ok", PASS)
    with connect(node) as c:
        for name, fields in MALFORMED.items():
            s = c.finish(c.head(c.fields(headers=fields)))
            assert s.reset == PROTOCOL_ERROR and s.status is None, (name, s)
        assert c.get("/ok").body == b"ok"
    assert origin.count() == 1


def test_pseudo_fields_that_are_missing_or_too_many(origin, node):
    with connect(node) as c:
        whole = c.fields()
        for i, (name, _) in enumerate(whole):
            if name != ":authority":
                assert c.finish(c.head(whole[:i] + whole[i + 1:])).reset == PROTOCOL_ERROR, name
        assert c.finish(c.head([(":method", "CONNECT"), (":authority", "a.test:443")])).status == 405
        s = c.head(c.fields("POST", "/", {"content-length": "3"}), end=False)
        c.frame(DATA, END_STREAM, s.id, b"four")
        assert c.finish(s).reset == PROTOCOL_ERROR
    assert origin.count() == 0 or origin.last().method == "POST"


def test_heads_over_the_limit(origin, node):
    origin.page("/a", b"a", PASS)
    with connect(node) as c:
        c.ping()
        most = c.settings[MAX_HEADER_LIST_SIZE]
        assert most == 32 * KIB
        r = c.get("/a", headers=[(f"x-{i}", "y" * 300) for i in range(60)])
        assert r.status == 200
        assert c.get("/a", headers=[(f"x-{i}", "y") for i in range(200)]).status == 431
        r = c.get("/a", headers={"x": "y" * 40000})
        assert r.status == 431 and r.complete and "proxy-status" in dict(r.headers)


# --- answers that break off


@pytest.mark.parametrize("framing", ["length", "chunked"])
@pytest.mark.parametrize("fresh", [FRESH, PASS], ids=["stored", "relayed"])
def test_a_cut_answer_is_reset(origin, node, framing, fresh):
    page = Stepped(origin, "/a", 210 * KIB, framing, fresh)
    with connect(node) as c:
        s = c.request("GET", "/a")
        page.send(pattern(100 * KIB))
        c.wait(lambda: s.length == 100 * KIB)
        page.cut()
        c.finish(s)
        assert s.reset == INTERNAL_ERROR and not s.ended
        origin.page("/b", b"b", PASS)
        assert c.get("/b").body == b"b"


def test_a_client_resets_its_stream(origin, node):
    page = Stepped(origin, "/a", 200 * KIB)
    with connect(node) as c:
        s = c.request("GET", "/a")
        page.send(pattern(100 * KIB))
        c.wait(lambda: s.length == 100 * KIB)
        c.rst(s)
        page.cut()
        origin.wait_idle()
        origin.page("/b", b"b", PASS)
        assert c.get("/b").body == b"b"
    assert [e["error"] for e in node.access_log(2) if e["path"] == "/a"] == ["client_gone"]


def test_a_client_resets_large_hits_in_the_middle(origin, either):
    """Whatever of a frame has left is finished: the other streams go on."""
    body = pattern(8 * MIB)
    origin.page("/a", body, FRESH)
    either.get("/a")
    until_hit(either, "/a", body)
    with connect(either, receive_buffer=64 * KIB) as c:
        for _ in range(5):
            s, t = c.request("GET", "/a"), c.request("GET", "/a", headers={"range": "bytes=0-99999"})
            c.wait(lambda: s.length > 300 * KIB)
            c.rst(s)
            r = c.finish(t)
            assert r.complete and r.body == body[:100000]


# --- many streams


def test_many_streams_at_once(origin, either):
    sizes = [0, 1, 100, 1 * KIB, 10 * KIB, 70 * KIB, 200 * KIB, 1 * MIB]
    for i, n in enumerate(sizes):
        origin.page(f"/{i}", pattern(n, i), FRESH)
        either.get(f"/{i}")
        until_hit(either, f"/{i}", pattern(n, i))
    with connect(either) as c:
        asked = [(i % len(sizes), c.request("GET", f"/{i % len(sizes)}")) for i in range(100)]
        for i, s in asked:
            r = c.finish(s)
            assert r.complete and r.body == pattern(sizes[i], i), (i, r)


def test_a_shut_window_stalls_its_stream_alone(origin, node):
    body = pattern(1 * MIB)
    origin.page("/a", body, FRESH)
    node.get("/a")
    until_hit(node, "/a", body)
    with connect(node, settings={INITIAL_WINDOW_SIZE: 0}, windows=True) as c:
        c.open_window(1 << 30)
        slow, fast = c.request("GET", "/a"), c.request("GET", "/a")
        c.open_window(10, slow.id)
        c.open_window(1 << 30, fast.id)
        assert c.finish(fast).body == body
        c.wait(lambda: slow.length == 10)
        c.open_window(100 * KIB, slow.id)
        c.wait(lambda: slow.length == 10 + 100 * KIB)
        c.send(c.settings_frame({INITIAL_WINDOW_SIZE: 1 << 20}))
        assert c.finish(slow).body == body and slow.complete


def test_windows_of_one_byte(origin, node):
    body = pattern(50)
    origin.page("/a", body, FRESH)
    with connect(node, settings={INITIAL_WINDOW_SIZE: 1}, windows=True) as c:
        s = c.request("GET", "/a")
        while not s.over:
            n = s.length
            c.wait(lambda: s.over or s.length > n)
            if not s.over:
                c.open_window(1, s.id)
        assert c.finish(s).body == body and s.complete


def queued(c, node, origin, wishes, size=12 * KIB):
    """Requests for hits that wait for the connection's window, in this order; the window opens then."""
    for target, n in (("/first", 100 * KIB), ("/a", size)):
        origin.page(target, pattern(n), FRESH)
        node.get(target)
        until_hit(node, target, pattern(n))
    first = c.request("GET", "/first")  # takes the whole window
    c.wait(lambda: first.length == 65535)
    streams = [c.request("GET", "/a", headers={"priority": w} if w else {}) for w in wishes]
    c.ping()
    return first, streams


def open_all(c, first, *streams):
    c.open_window(1 << 30)
    for s in (first, *streams):
        assert c.finish(s).complete
    assert len({s.body for s in streams}) == 1


def spans(*streams):
    return [(s.frames[0], s.frames[-1]) for s in streams]


def test_urgent_streams_come_first(origin, node):
    with connect(node, settings={INITIAL_WINDOW_SIZE: 1 << 20}, windows=True) as c:
        first, streams = queued(c, node, origin, ["u=5", "u=1", "", "u=0", "u=7"])
        open_all(c, first, *streams)
        order = sorted(range(5), key=lambda i: streams[i].frames[0])
        assert order == [3, 1, 2, 0, 4], spans(*streams)
        ends = [spans(streams[i])[0] for i in order]
        assert all(a[1] < b[0] for a, b in zip(ends, ends[1:])), "they came mixed"


def test_incremental_streams_share(origin, node):
    with connect(node, settings={INITIAL_WINDOW_SIZE: 1 << 20}, windows=True) as c:
        first, streams = queued(c, node, origin, ["i", "i"], 300 * KIB)
        open_all(c, first, *streams)
        a, b = spans(*streams)
        assert a[0] < b[1] and b[0] < a[1], "one came after the other"


def test_a_priority_update(origin, node):
    with connect(node, settings={INITIAL_WINDOW_SIZE: 1 << 20}, windows=True) as c:
        first, streams = queued(c, node, origin, ["u=4", "u=5"])
        c.frame(PRIORITY_UPDATE, 0, 0, struct.pack(">I", streams[1].id) + b"u=0")
        open_all(c, first, *streams)
        a, b = spans(*streams)
        assert b[1] < a[0]


def test_a_priority_update_before_its_stream(origin, node):
    """It counts, and not what the request's field says."""
    with connect(node, settings={INITIAL_WINDOW_SIZE: 1 << 20}, windows=True) as c:
        for id, value in ((5, b"u=6"), (7, b"u=0")):
            c.frame(PRIORITY_UPDATE, 0, 0, struct.pack(">I", id) + value)
        first, streams = queued(c, node, origin, ["", "u=1", "u=7"])
        assert [s.id for s in streams] == [3, 5, 7]
        open_all(c, first, *streams)
        assert sorted(range(3), key=lambda i: streams[i].frames[0]) == [2, 0, 1]


def test_an_urgent_answer_overtakes_a_large_one(origin, node):
    """Where a client has priorities, the kernel has taken little ahead."""
    large, small = pattern(16 * MIB), pattern(5 * KIB)
    for target, body in (("/large", large), ("/small", small)):
        origin.page(target, body, FRESH)
        node.get(target)
        until_hit(node, target, body)
    with connect(node, receive_buffer=64 * KIB) as c:
        s = c.request("GET", "/large", headers={"priority": "u=6"})
        c.wait(lambda: s.length > 1 * MIB)
        t = c.request("GET", "/small", headers={"priority": "u=1"})
        assert c.finish(t).body == small
        assert s.length < 8 * MIB
        assert c.finish(s).body == large


@pytest.mark.strace
def test_bodies_leave_by_sendfile_and_small_ones_together(origin, node, tmp_path):
    body, times = pattern(3 * MIB), 10
    origin.page("/a", body, FRESH)
    origin.page("/b", pattern(1 * KIB), FRESH)
    for target in ("/a", "/b"):
        node.get(target)
        until_hit(node, target)
    with connect(node) as c:
        c.get("/a")
        with Trace(worker_of(node, c), str(tmp_path)) as trace:
            for _ in range(times):
                assert c.get("/a").body == body
        ways = Ways(trace.calls, node, node.port, origin.port)
        # What the socket took only in part is finished by a copy of less than a frame.
        assert ways.moved("sendfile", "client", "body") > times * len(body) * 9 // 10
        with Trace(worker_of(node, c), str(tmp_path)) as trace:
            ids = [c.new_stream().id for _ in range(16)]
            c.send(b"".join(c.head_frames(i, c.encoder.encode(c.fields(target="/b"))) for i in ids))
            c.finish(*(c.streams[i] for i in ids))
        ways = Ways(trace.calls, node, node.port, origin.port)
        assert len(ways.of("sendmsg", "client")) <= 3


# --- leaving


def test_a_drain(origin, either):
    page = Stepped(origin, "/a", 1500)
    with connect(either) as c, connect(either) as idle:
        idle.ping()
        s = c.request("GET", "/a")
        page.send(b"x" * 1000)
        c.wait(lambda: s.length == 1000)
        either.process.send_signal(signal.SIGTERM)
        c.wait(lambda: c.goaways)
        assert c.goaways[0] == ((1 << 31) - 1, NO_ERROR)
        c.wait(lambda: len(c.goaways) == 2)
        assert c.goaways[1] == (s.id, NO_ERROR)
        idle.until_closed()
        page.send(b"y" * 500)
        page.end()
        assert c.finish(s).complete
        c.until_closed()
    either.wait_end()


def test_a_client_that_does_not_answer_is_drained(origin, node):
    with connect(node) as c:
        c.ping()
        c._take = lambda *_: None
        node.process.send_signal(signal.SIGTERM)
        c.until_closed()
    node.wait_end()


def test_a_client_says_goodbye(origin, node):
    origin.page("/a", pattern(1 * MIB), FRESH)
    with connect(node) as c:
        s = c.request("GET", "/a")
        c.frame(7, 0, 0, struct.pack(">II", 0, 0))
        assert c.finish(s).complete
        c.until_closed()


def test_a_reload_under_open_streams(origin, node):
    page = Stepped(origin, "/a", 1500)
    with connect(node) as c:
        s = c.request("GET", "/a")
        page.send(b"x" * 1000)
        c.wait(lambda: s.length == 1000)
        node.reload(site={"cache": {"default_ttl": "1m"}})
        page.send(b"y" * 500)
        page.end()
        assert c.finish(s).body == b"x" * 1000 + b"y" * 500
        origin.page("/b", b"b", PASS)
        assert c.get("/b").complete


def test_clients_that_vanish(origin, node):
    page = Stepped(origin, "/a", 1500)
    c = connect(node)
    s = c.request("GET", "/a")
    page.send(b"x" * 1000)
    c.wait(lambda: s.length == 1000)
    c.reset_connection()
    page.cut()
    origin.wait_idle()
    wait_until(lambda: gauge(node, "connections") == 0, "no connection to be left")


def test_timeouts(origin, make_h2):
    node = make_h2(conf={"limits": {"idle_timeout": "1s", "header_timeout": "1s", "send_timeout": "1s"}})
    body = pattern(300 * KIB)
    origin.page("/a", body, FRESH)
    node.get("/a")
    until_hit(node, "/a", body)
    with connect(node) as c:  # idle
        assert c.get("/a").complete
        c.until_closed()
        assert c.goaway[1] == NO_ERROR
    with connect(node) as c:  # half a head, while a stream is open
        page = Stepped(origin, "/b", 1500)
        s = c.request("GET", "/b")
        page.send(b"x")
        c.wait(lambda: s.length == 1)
        c.frame(HEADERS, END_STREAM, s.id + 2, b"\x82")
        c.until_closed()
    with connect(node, settings={INITIAL_WINDOW_SIZE: 100}, windows=True) as c:  # a window that stays shut
        s = c.request("GET", "/a")
        c.finish(s)
        assert s.reset == INTERNAL_ERROR and s.length == 100
    with connect(node) as c:  # no preface
        pass
    silent = node.connect()
    silent.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
    silent.until_closed()
    silent.close()


# --- floods


def flood(node, c, limit, frames):
    """Sends until the connection is ended for this limit."""
    try:
        for data in frames:
            c.send(data)
    except OSError:
        pass
    try:
        c.until_closed()
    except OSError:
        pass
    wait_until(lambda: node.log("h2_limit"), "the limit in the log")
    assert [e["limit"] for e in node.log("h2_limit")] == [limit]
    assert sum(v for k, v in node.metrics().items()
               if k.startswith("brim_worker_h2_limited_connections_total{") and f'limit="{limit}"' in k) == 1


@pytest.fixture
def strict(make_h2):
    return make_h2(workers=1, conf={"limits": {"h2": {"resets_per_minute": 20, "controls_per_minute": 50}}})


def test_flood_of_resets(origin, strict):
    origin.page("/a", b"a", FRESH)
    with connect(strict) as c:
        def frames():
            for _ in range(200):
                id = c.new_stream().id
                yield c.head_frames(id, c.encoder.encode(c.fields(target="/a")))
                yield c.bytes_of(RST_STREAM, 0, id, struct.pack(">I", CANCEL))
        flood(strict, c, "resets", frames())
        assert c.goaway[1] == ENHANCE_YOUR_CALM
    assert strict.get("/a").body == b"a"


def test_flood_of_resets_that_we_are_made_to_send(origin, strict):
    with connect(strict) as c:
        def frames():
            for _ in range(200):
                yield c.head_frames(c.new_stream().id, c.encoder.encode(c.fields(headers={"connection": "close"})))
        flood(strict, c, "resets", frames())
        assert c.goaway[1] == ENHANCE_YOUR_CALM


def test_bodies_that_are_given_up_are_no_flood(origin, make_h2):
    """A client that has seen an early answer ends its body, shorter than it had said: that is reset, but not held against it."""
    node = make_h2(workers=1, conf={"limits": {"h2": {"resets_per_minute": 20}}}, site={"max_request_body": "1KiB"})
    with connect(node) as c:
        for _ in range(40):
            s = c.request("POST", "/up", {"content-length": "10000"}, end=False)
            c.wait(lambda s=s: s.ended)
            c.frame(DATA, END_STREAM, s.id)
            assert s.status == 413
        assert c.finish(c.request("OPTIONS", "*")).status == 204


FLOODS = {
    "SETTINGS": H2.bytes_of(SETTINGS, 0, 0),
    "PING": H2.bytes_of(PING, 0, 0, b"12345678"),
    "PRIORITY": H2.bytes_of(PRIORITY, 0, 1, struct.pack(">IB", 3, 7)),
    "PRIORITY_UPDATE": H2.bytes_of(PRIORITY_UPDATE, 0, 0, struct.pack(">I", 1) + b"u=1"),
    "WINDOW_UPDATE": H2.bytes_of(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1)),
    "empty DATA": H2.bytes_of(DATA, 0, 1),
    "padded DATA": H2.bytes_of(DATA, 8, 1, b"\x01\x00"),
}


@pytest.mark.parametrize("name", FLOODS)
def test_flood_of_controls(origin, strict, name):
    with connect(strict, windows=True) as c:
        s = c.request("POST", "/a", end=False)
        c.ping()
        flood(strict, c, "controls", (FLOODS[name] for _ in range(1000)))
        assert c.goaway[1] == ENHANCE_YOUR_CALM
        assert s.status is None


def test_flood_of_continuations(origin, strict):
    with connect(strict) as c:
        block = c.encoder.encode(c.fields())
        frames = [c.bytes_of(HEADERS, END_STREAM, 1, block)] + [c.bytes_of(CONTINUATION, 0, 1, b"")] * 1000
        flood(strict, c, "continuations", frames)


def test_hpack_bomb(origin, strict):
    """A field of 4000 bytes goes into the table once and is named by one byte a thousand times."""
    with connect(strict) as c:
        block = c.encoder.encode([*c.fields(), ("x", "y" * 4000)], huffman=False) + b"\xbe" * 10000
        flood(strict, c, "header_list", [c.bytes_of(HEADERS, END_STREAM | END_HEADERS, 1, block)])
        assert c.goaway[1] == ENHANCE_YOUR_CALM


def test_acknowledgements_that_nobody_reads(origin, make_h2):
    node = make_h2(workers=1, conf={"limits": {"h2": {"controls_per_minute": 1000000}}})
    body = pattern(16 * MIB)
    origin.page("/a", body, FRESH)
    node.get("/a")
    until_hit(node, "/a", body)
    with connect(node, receive_buffer=4096) as c:
        c.request("GET", "/a")  # fills the sockets
        ping = c.bytes_of(PING, 0, 0, b"12345678") * 100
        flood(node, c, "acks", (ping for _ in range(10000)))


def full_socket(origin, node):
    """A connection whose client reads nothing, with an answer on its way that fills the sockets."""
    body = pattern(16 * MIB)
    origin.page("/a", body, FRESH)
    node.get("/a")
    until_hit(node, "/a", body)
    c = connect(node, receive_buffer=4096)
    c.request("GET", "/a")
    return c


def test_resets_that_nobody_reads(origin, node):
    """They can't be sent, so they aren't counted: but what waits is bounded."""
    with full_socket(origin, node) as c:
        block = c.encoder.encode(c.fields(headers={"connection": "close"}))
        c.send(b"".join(c.head_frames(c.new_stream().id, block) for _ in range(5000)))
        wait_until(lambda: [e["limit"] for e in node.log("h2_limit")] == ["resets"], "the limit in the log")


def test_answers_that_nobody_reads(origin, make_h2, certs):
    """All requests are given up in the end, and the connection with them, though their resets don't fit into its buffer."""
    node = make_h2(workers=1, tls=certs.issue(["a.test"]), conf={"limits": {"send_timeout": "1s"}})
    with full_socket(origin, node) as c:
        c.send(b"".join(c.head_frames(c.new_stream().id, c.encoder.encode(c.fields(target="/a"))) for _ in range(90)))
        wait_until(lambda: gauge(node, "h2_streams_total") >= 91, "all streams")
        wait_until(lambda: gauge(node, "connections") == 0, "the connection's end")


def held(origin):
    """/a is answered once the gate is open."""
    gate = Gate()

    @origin.route("/a")
    def _(x):
        gate.wait()
        x.reply(b"a", PASS)
    return gate


def ask_with_large_heads(c):
    large = [(f"x-{i}", "y" * 1000) for i in range(25)]
    return [c.request("GET", f"/a?{i}", headers=[*large, ("x-n", str(i))]) for i in range(60)]


def test_streams_beyond_the_limit(origin, make_h2):
    node = make_h2(workers=1, conf={"limits": {"h2": {"streams": 10}}})
    gate = held(origin)
    with connect(node) as c:
        # Sent in one piece, before SETTINGS are known: what is too much is refused, and may be asked again.
        streams = [c.new_stream() for _ in range(20)]
        c.send(b"".join(c.head_frames(s.id, c.encoder.encode(c.fields(target=f"/a?{s.id}"))) for s in streams))
        c.wait(lambda: sum(s.reset == REFUSED_STREAM for s in streams) == 10)
        gate.open()
        for s in streams:
            c.finish(s)
        assert sum(s.status == 200 for s in streams) == 10


def test_heads_that_fill_the_memory(origin, node):
    gate = held(origin)
    with connect(node) as c:
        streams = ask_with_large_heads(c)
        c.wait(lambda: any(s.reset == REFUSED_STREAM for s in streams))
        gate.open()
        for s in streams:
            c.finish(s)
        assert all(s.status == 200 for s in streams if s.reset is None)
        assert 5 < sum(s.status == 200 for s in streams) < 60


def test_a_browsers_heads_fill_all_streams(origin, node):
    """As many as the node allows at once, each with what a browser says: none is refused."""
    gate = held(origin)
    said = [(f"sec-ch-{i}", "y" * 60) for i in range(18)]
    with connect(node) as c:
        streams = [c.request("GET", f"/a?{i}", headers=[*said, ("cookie", "c" * 200)]) for i in range(100)]
        c.ping()
        assert not [s for s in streams if s.reset is not None]
        gate.open()
        for s in streams:
            c.finish(s)
        assert {s.status for s in streams} == {200}


def test_refusals_that_a_client_cannot_foresee_are_not_its_fault(origin, make_h2):
    node = make_h2(workers=1, conf={"limits": {"h2": {"resets_per_minute": 3}}})
    gate = held(origin)
    with connect(node) as c:
        streams = ask_with_large_heads(c)
        c.wait(lambda: sum(s.reset == REFUSED_STREAM for s in streams) > 10)
        gate.open()
        for s in streams:
            c.finish(s)
        assert c.goaway is None


# --- other people's clients


def run(*command):
    return subprocess.run(command, capture_output=True, timeout=60 * PATIENCE)


def test_curl(origin, node, tmp_path):
    body = pattern(2 * MIB)
    origin.page("/a", body, FRESH)
    origin.route("/up")(lambda x: x.reply(x.request.body, PASS))
    (tmp_path / "body").write_bytes(body)
    common = ["curl", "-sS", "--http2-prior-knowledge", "--connect-to", f"a.test:80:{node.address}"]
    for _ in range(2):
        done = run(*common, "http://a.test/a")
        assert done.stdout == body, done.stderr
    done = run(*common, "--data-binary", f"@{tmp_path}/body", "http://a.test/up")
    assert done.stdout == body, done.stderr


def test_nghttp_and_h2load(origin, node):
    origin.page("/1k", pattern(1 * KIB), FRESH)
    origin.page("/100k", pattern(100 * KIB), FRESH)
    for target in ("/1k", "/100k"):
        node.get(target)
        until_hit(node, target)
    done = run("nghttp", "-H:authority: a.test", f"{node.url}/100k")
    assert done.stdout == pattern(100 * KIB), done.stderr
    done = run("nghttp", "-n", "-s", "-m", "20", "-H:authority: a.test", f"{node.url}/100k", f"{node.url}/1k")
    assert done.returncode == 0, done.stderr
    for target in ("/1k", "/100k"):
        done = run("h2load", "-n", "400", "-c", "4", "-m", "16", "-H:authority: a.test", f"{node.url}{target}")
        assert re.search(rb"400 succeeded, 0 failed", done.stdout), done.stdout
