"""What origins send: bad framing is 502, a broken answer never looks whole, and desync closes the connection."""
import pytest

from brimtest import Gate, pattern

FRESH = {"Cache-Control": "max-age=3600"}
OK = b"HTTP/1.1 200 OK\r\nCache-Control: max-age=3600\r\n"

BAD = {
    "two lengths": OK + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc",
    "length and chunked": OK + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "not a length": OK + b"Content-Length: 3x\r\n\r\nabc",
    "unknown coding": OK + b"Transfer-Encoding: gzip\r\n\r\nabc",
    "not HTTP": b"SSH-2.0-OpenSSH\r\n\r\n",
    "NUL in a field": OK + b"X: a\0b\r\nContent-Length: 0\r\n\r\n",
    "a head without end": OK + b"X: " + b"a" * 200_000,
    "status 42": b"HTTP/1.1 42 What\r\nContent-Length: 0\r\n\r\n",
    "101 that nobody asked for": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    "nothing at all": b"",
}


@pytest.mark.parametrize("name", BAD)
def test_bad_answers_are_502(origin, node, name):
    origin.raw("/a", BAD[name])
    r = node.get("/a")
    assert r.status == 502 and r.complete and "error=" in r.get("Proxy-Status")
    assert r.get("Cache-Status") is None
    origin.page("/a", b"good", FRESH)
    assert node.get("/a").body == b"good"


BROKEN = {
    "length": OK + b"Content-Length: 1000\r\n\r\n" + b"x" * 999,
    "chunked, no last chunk": OK + b"Transfer-Encoding: chunked\r\n\r\n3e7\r\n" + b"x" * 999 + b"\r\n",
    "chunked, in a chunk": OK + b"Transfer-Encoding: chunked\r\n\r\n3e8\r\n" + b"x" * 999,
    "chunked, bad size": OK + b"Transfer-Encoding: chunked\r\n\r\n3e7\r\n" + b"x" * 999 + b"\r\nzz\r\n",
    "large, length": OK + b"Content-Length: 3000000\r\n\r\n" + b"x" * 2_999_999,
    "large, chunked": OK + b"Transfer-Encoding: chunked\r\n\r\n2dc6c0\r\n" + b"x" * 2_999_999,
}


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize("version", ["HTTP/1.1", "HTTP/1.0"])
def test_a_broken_body_never_looks_whole_and_is_not_kept(origin, node, name, version):
    origin.raw("/a", BROKEN[name])
    with node.connect() as c:
        c.request("GET", "/a", version=version)
        r = c.response()
    assert r.status == 502 or not r.complete, r
    origin.page("/a", b"good", FRESH)
    assert node.get("/a").body == b"good"
    assert node.get("/a").hit


def test_a_reset_on_a_close_delimited_body_is_seen(origin, node):
    @origin.route("/a")
    def cut(x):
        x.send(OK + b"\r\n" + b"x" * 300_000)
        x.reset()

    with node.connect() as c:
        c.request("GET", "/a")
        r = c.response()
    assert r.status == 502 or not r.complete
    origin.page("/a", b"good", FRESH)
    assert node.get("/a").body == b"good"


@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 65_537, 3_000_000])
def test_close_delimited_and_chunked_bodies_are_stored(origin, node, size):
    body = pattern(size)
    origin.raw("/close", OK + b"\r\n" + body)

    @origin.route("/chunked")
    def chunked(x):
        x.head(200, {"Transfer-Encoding": "chunked", **FRESH})
        for at in range(0, size, 70_000):
            x.chunk(body[at:at + 70_000])
        x.last_chunk([("X-Trailer", "1")])

    for target in ("/close", "/chunked"):
        first, second = node.get(target), node.get(target)
        assert first.body == body and first.complete, target
        assert second.hit and second.body == body and second.complete, target
        assert second.get("Content-Length") == str(size)
        assert origin.count(target) == 1


def test_small_chunks(origin, node):
    @origin.route("/a")
    def chunked(x):
        x.head(200, {"Transfer-Encoding": "chunked", **FRESH})
        x.send(b"".join(b"1;ext=1\r\n%c\r\n" % (97 + i % 26) for i in range(5000)))
        x.last_chunk()

    body = bytes(97 + i % 26 for i in range(5000))
    assert node.get("/a").body == body
    assert node.get("/a").body == body and node.get("/a").hit


@pytest.mark.parametrize("fresh", [True, False])
def test_bytes_behind_the_end_close_the_connection(origin, node, fresh):
    origin.raw("/a", (OK if fresh else b"HTTP/1.1 200 OK\r\n") + b"Content-Length: 3\r\n\r\nabcHTTP/1.1 200 OK\r\n"
               b"Content-Length: 4\r\n\r\nevil")
    origin.page("/b", b"good", FRESH)
    node.get("/a")
    assert node.get("/b").body == b"good"
    origin.page("/a", b"good", FRESH)
    assert node.get("/a").body == b"good"  # nothing was stored


def test_an_answer_on_an_idle_connection_is_not_believed(make_origin, make_node):
    origin = make_origin()
    node = make_node(origin, workers=1)
    sent = Gate()

    @origin.route("/a")
    def a(x):
        x.reply(b"good", FRESH)
        x.send(b"HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 4\r\n\r\nevil")
        x.peer_closed()
        sent.open()

    origin.page("/b", b"good", FRESH)
    node.get("/a")
    assert node.get("/b").body == b"good"
    sent.wait()


@pytest.mark.parametrize("status,method", [(204, "GET"), (304, "GET"), (200, "HEAD")])
def test_a_body_where_none_may_be_closes_the_connection(origin, node, status, method):
    origin.raw("/a", b"HTTP/1.1 %d X\r\nContent-Length: 4\r\n\r\nevil" % status)
    origin.page("/b", b"good", FRESH)
    with node.connect() as c:
        c.request(method, "/a")
        r = c.response(method)
        assert r.status in (status, 502) and r.body != b"evil"
    assert node.get("/b").body == b"good"


def test_an_answer_before_the_upload_ended(origin, node):
    @origin.route("/up", early=True)
    def early(x):
        x.reply(b"no", status=403)
        x.peer_closed()

    origin.page("/b", b"good", FRESH)
    with node.connect() as c:
        c.send(b"POST /up HTTP/1.1\r\nHost: a.test\r\nContent-Length: 100000\r\n\r\nstart")
        r = c.response()
        assert (r.status, r.body) == (403, b"no")
        assert c.closed()
    assert node.get("/b").body == b"good"


def test_interim_answers_reach_the_client(origin, node):
    @origin.route("/a")
    def hints(x):
        x.send(b"HTTP/1.1 103 Early Hints\r\nLink: </x.css>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n")
        x.reply(b"hello", FRESH)

    with node.connect() as c:
        c.request("GET", "/a")
        r = c.response()
    assert r.body == b"hello"
    assert [i.status for i in r.informational][0] == 103
    assert r.informational[0].get("Link") == "</x.css>"
    with node.connect() as c:
        c.send(b"GET /a?2 HTTP/1.0\r\nHost: a.test\r\n\r\n")
        assert c.response().informational == []


def test_obs_fold_and_space_before_the_colon_are_repaired(origin, node):
    origin.raw("/a", OK + b"X-Folded: a\r\n  b\r\nX-Space : c\r\nContent-Length: 2\r\n\r\nok")
    for r in (node.get("/a"), node.get("/a")):
        assert r.body == b"ok"
        assert r.get("X-Folded").split() == ["a", "b"] and r.get("X-Space") == "c"


def test_kept_connections_are_used_again_and_a_dead_one_is_retried(make_origin, make_node):
    origin = make_origin()
    node = make_node(origin, workers=1)
    for i in range(3):
        origin.page(f"/{i}", b"%d" % i, FRESH)
    assert [node.get(f"/{i}").body for i in range(3)] == [b"0", b"1", b"2"]
    assert origin.connections == 1

    died = []

    @origin.route("/dies")
    def dies(x):
        if not died:
            died.append(1)
            x.close()
        else:
            x.reply(b"second try", FRESH)

    assert node.get("/dies").body == b"second try"


def test_an_upload_is_never_sent_twice(make_origin, make_node):
    origin = make_origin()
    node = make_node(origin, workers=1)
    origin.page("/0", b"0", FRESH)
    node.get("/0")

    @origin.route("/up")
    def dies(x):
        x.close()

    assert node.request("POST", "/up", body=b"hello").status == 502
    assert origin.count("/up") == 1


def test_no_server_and_slow_servers(make_origin, make_node):
    origin = make_origin()
    node = make_node(origin, workers=1, origin_conf={"timeouts": {"first_byte": "1500ms", "between_bytes": "500ms"}})
    gate = Gate()

    @origin.route("/mute")
    def mute(x):
        gate.wait()

    @origin.route("/stops")
    def stops(x):
        x.send(OK + b"Content-Length: 10\r\n\r\nhello")
        gate.wait()

    r = node.get("/mute")
    assert r.status == 504 and "http_response_timeout" in r.get("Proxy-Status")
    assert not node.get("/stops").complete
    gate.open()
    origin.stop()
    r = node.get("/away")
    assert r.status in (502, 503) and "error=" in r.get("Proxy-Status")


def test_trailers_of_a_relayed_answer(origin, node):
    @origin.route("/a")
    def chunked(x):
        x.head(200, {"Transfer-Encoding": "chunked", "Cache-Control": "no-store"})
        x.chunk(b"hello")
        x.last_chunk([("X-Sum", "42")])

    r = node.get("/a")
    assert r.body == b"hello" and ("X-Sum", "42") in [tuple(t) for t in r.trailers]


def test_the_connection_limit_of_a_server_holds_over_workers(origin, make_node):
    node = make_node(origin, workers=2, origin_conf={"servers": [{"url": origin.url, "max_connections": 2}]})
    gate = Gate()

    @origin.route("*")
    def slow(x):
        gate.wait()
        x.reply(b"ok", {"Cache-Control": "no-store"})

    clients = [node.connect() for _ in range(8)]
    for i, c in enumerate(clients):
        c.request("GET", f"/{i}")
    origin.wait_for(2)
    assert len(origin.open_sockets) <= 2
    gate.open()
    for c in clients:
        assert c.response().body == b"ok"
        c.close()


def test_names_are_resolved(origin, make_node):
    node = make_node(f"http://localhost:{origin.port}")
    origin.page("/a", b"hello", FRESH)
    assert node.get("/a").body == b"hello"
