"""What clients send: framing that could be read in two ways is refused, all else is served."""
import pytest

from brimtest import pattern, wait_until

FRESH = {"Cache-Control": "max-age=3600"}
GET = b"GET /a HTTP/1.1\r\nHost: a.test\r\n"
POST = b"POST /up HTTP/1.1\r\nHost: a.test\r\n"

REFUSED = {
    "two lengths": (POST + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc", 400),
    "a list of lengths": (POST + b"Content-Length: 3, 4\r\n\r\nabc", 400),
    "length and chunked": (POST + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    "signed length": (POST + b"Content-Length: +3\r\n\r\nabc", 400),
    "chunked twice": (POST + b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n", 400),
    "chunked not last": (POST + b"Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n", 400),
    "unknown coding": (POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501),
    "chunked on 1.0": (b"POST /up HTTP/1.0\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    "bare LF": (b"GET /a HTTP/1.1\nHost: a.test\n\n", 400),
    "bare CR in a value": (GET + b"X: a\rb\r\n\r\n", 400),
    "NUL in a value": (GET + b"X: a\0b\r\n\r\n", 400),
    "obs-fold": (GET + b"X: a\r\n b\r\n\r\n", 400),
    "space before the colon": (GET + b"X : a\r\n\r\n", 400),
    "empty name": (GET + b": a\r\n\r\n", 400),
    "no host": (b"GET /a HTTP/1.1\r\n\r\n", 400),
    "two hosts": (GET + b"Host: a.test\r\n\r\n", 400),
    "bad host": (b"GET /a HTTP/1.1\r\nHost: a test\r\n\r\n", 400),
    "absolute form of another host": (b"GET http://b.test/a HTTP/1.1\r\nHost: a.test\r\n\r\n", 400),
    "Connection names Host": (GET + b"Connection: host\r\n\r\n", 400),
    "Connection names Cookie": (GET + b"Cookie: a=1\r\nConnection: keep-alive, cookie\r\n\r\n", 400),
    "Connection names Cache-Control": (GET + b"Connection: cache-control\r\n\r\n", 400),
    "Connection names Content-Length": (POST + b"Content-Length: 3\r\nConnection: content-length\r\n\r\nabc", 400),
    "unknown expectation": (GET + b"Expect: tea\r\n\r\n", 417),
    "HTTP/2.0 by name": (b"GET /a HTTP/2.0\r\nHost: a.test\r\n\r\n", 505),
    "no version": (b"GET /a\r\n\r\n", 400),
    "two spaces": (b"GET  /a HTTP/1.1\r\nHost: a.test\r\n\r\n", 400),
    "too many fields": (GET + b"X: a\r\n" * 200 + b"\r\n", 431),
    "too large a head": (GET + b"X: " + b"a" * 40000 + b"\r\n\r\n", 431),
    "too long a target": (b"GET /" + b"a" * 40000 + b" HTTP/1.1\r\nHost: a.test\r\n\r\n", 414),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_and_closed(origin, node, name):
    data, status = REFUSED[name]
    with node.connect() as c:
        c.send(data)
        r = c.response()
        assert r.status == status, r
        assert r.complete and r.get("Cache-Status") is None
        assert c.closed()
    assert origin.count() == 0


def test_bad_chunk_size_breaks_the_upload(origin, node):
    @origin.route("/up", early=True)
    def up(x):
        x.peer_closed()

    with node.connect() as c:
        c.send(POST + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nxyz\r\n")
        assert c.response().status == 400
        assert c.closed()


def test_pipelined_requests_are_answered_in_order(origin, node):
    for i in range(10):
        origin.page(f"/{i}", b"%d" % i, FRESH)
    node.get("/3")
    with node.connect() as c:
        c.send(b"".join(b"GET /%d HTTP/1.1\r\nHost: a.test\r\n\r\n" % i for i in range(10)))
        assert [c.response().body for _ in range(10)] == [b"%d" % i for i in range(10)]


def test_a_head_may_come_byte_by_byte(origin, node):
    origin.page("/a", b"hello", FRESH)
    with node.connect() as c:
        for byte in GET + b"\r\n":
            c.send(bytes([byte]))
        assert c.response().body == b"hello"


def test_http_1_0_closes_and_can_be_kept(origin, node):
    origin.page("/a", b"hello", FRESH)
    with node.connect() as c:
        c.send(b"GET /a HTTP/1.0\r\nHost: a.test\r\nConnection: keep-alive\r\n\r\n")
        r = c.response()
        assert r.body == b"hello" and r.get("Connection") == "keep-alive"
        c.send(b"GET /a HTTP/1.0\r\nHost: a.test\r\n\r\n")
        r = c.response()
        assert r.body == b"hello" and r.get("Connection") == "close"
        assert c.closed()


def test_http_1_0_gets_no_chunks(origin, node):
    @origin.route("/c")
    def chunked(x):
        x.head(200, {"Transfer-Encoding": "chunked", **FRESH})
        x.chunk(b"hello ")
        x.chunk(b"world")
        x.last_chunk()

    with node.connect() as c:
        c.send(b"GET /c HTTP/1.0\r\nHost: a.test\r\n\r\n")
        assert c.until_closed().split(b"\r\n\r\n", 1)[1] == b"hello world"


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("size", [0, 1, 100_000, 5_000_000])
def test_uploads_reach_the_origin_whole(origin, node, size, chunked):
    body = pattern(size)

    @origin.route("/up", early=True)
    def up(x):
        x.reply(b"%d" % len(x.read_body()))

    with node.connect() as c:
        if chunked:
            c.send(POST + b"Transfer-Encoding: chunked\r\n\r\n")
            for at in range(0, size, 60_001):
                piece = body[at:at + 60_001]
                c.send(b"%x\r\n%s\r\n" % (len(piece), piece))
            c.send(b"0\r\n\r\n")
        else:
            c.send(POST + b"Content-Length: %d\r\n\r\n" % size + body)
        assert c.response().body == b"%d" % size
        c.request("GET", "/none")
        assert c.response().status == 404  # the connection goes on
    seen = origin.last("/up")
    assert ("chunked" in (seen.get("Transfer-Encoding") or "")) == chunked


def test_expect_continue_is_answered_before_the_body(origin, node):
    @origin.route("/up", early=True)
    def up(x):
        x.reply(x.read_body())

    with node.connect() as c:
        c.send(POST + b"Content-Length: 5\r\nExpect: 100-continue\r\n\r\n")
        assert c.receive(25) == b"HTTP/1.1 100 Continue\r\n\r\n"
        c.send(b"hello")
        assert c.response().body == b"hello"
    assert origin.last("/up").get("Expect") is None


def test_too_large_an_upload_is_refused(origin, make_node):
    node = make_node(origin, site={"max_request_body": "1KiB"})
    with node.connect() as c:
        c.send(POST + b"Content-Length: 2000\r\n\r\n")
        assert c.response().status == 413
        assert c.closed()
    assert origin.count() == 0


def test_an_idle_connection_closes_silently_and_a_slow_head_gets_408(origin, make_node):
    node = make_node(origin, conf={"limits": {"idle_timeout": "1500ms", "header_timeout": "1500ms"}})
    origin.page("/a", b"hello", FRESH)
    with node.connect() as c:
        c.send(GET + b"\r\n")
        assert c.response().body == b"hello"
        assert c.until_closed() == b""
    with node.connect() as c:
        c.send(b"GET /a HT")
        assert c.response().status == 408
        assert c.closed()
    with node.connect() as c:
        assert c.until_closed() == b""


def test_http_1_0_without_host_is_a_catch_all_sites(origin, make_node):
    origin.page("/a", b"hello", {"Cache-Control": "max-age=60, stale-while-revalidate=60"})
    node = make_node(origin, site={"hosts": ["*"]})
    with node.connect() as c:
        c.send(b"GET /a HTTP/1.0\r\n\r\n")
        assert c.response().body == b"hello"
    assert origin.last("/a").get("Host") == origin.last("/a").get("X-Forwarded-Host") == node.address
    # The address is its name: for a purge, too.
    wait_until(lambda: node.get("/a", host=node.address).committed, "a hit")
    assert node.admin("POST", "/v1/purge", {"urls": [f"{node.url}/a"]}).status == 200
    assert not node.get("/a", host=node.address).hit
    with node.connect() as c:
        c.send(b"GET /a HTTP/1.1\r\n\r\n")
        assert c.response().status == 400
    with make_node(origin).connect() as c:
        c.send(b"GET /a HTTP/1.0\r\n\r\n")
        assert c.response().status == 400


def test_half_closed_clients_are_served(origin, node):
    origin.page("/a", b"hello", FRESH)
    with node.connect() as c:
        c.send(GET + b"\r\n")
        c.half_close()
        assert c.response().body == b"hello"
        assert c.closed()


def test_fields_that_connection_names_go_no_further(origin, node):
    origin.page("/a", b"hello", FRESH)
    with node.connect() as c:
        c.send(GET + b"X-Hop: 1\r\nX-End: 2\r\nConnection: x-hop\r\nTE: trailers\r\nUpgrade: h2c\r\n"
                     b"HTTP2-Settings: AAMAAABk\r\nKeep-Alive: 5\r\n\r\n")
        assert c.response().status == 200
    seen = origin.last("/a")
    for name in ("X-Hop", "Connection", "TE", "Upgrade", "HTTP2-Settings", "Keep-Alive"):
        assert (seen.get(name) or "").lower() in ("", "keep-alive"), name
    assert seen.get("X-End") == "2"


def test_what_the_origin_learns_of_the_client(origin, make_node):
    node = make_node(origin, conf={"log": {"request_id": "X-Request-ID"}})
    origin.page("/a", b"hello", FRESH)
    node.get("/a", {"X-Forwarded-For": "9.9.9.9", "X-Forwarded-Host": "evil.test", "X-Forwarded-Proto": "https",
                    "X-Real-IP": "9.9.9.9", "Forwarded": "for=9.9.9.9"})
    seen = origin.last("/a")
    assert seen.get("Via") == "1.1 brim" and seen.get("CDN-Loop") == "brim"
    assert seen.get("X-Forwarded-For") == "127.0.0.1"
    assert seen.get("X-Forwarded-Proto") == "http" and seen.get("X-Forwarded-Host") == "a.test"
    assert seen.get("X-Real-IP") is None and seen.get("Forwarded") is None
    assert len(seen.get("X-Request-ID")) > 8


def test_a_trusted_proxy_is_believed(origin, make_node):
    node = make_node(origin, conf={"trusted_proxies": ["127.0.0.0/8", "10.0.0.0/8"]})
    origin.page("/a", b"hello", FRESH)
    node.get("/a", {"X-Forwarded-For": "9.9.9.9, 8.8.8.8, 10.1.1.1", "X-Forwarded-Proto": "https"})
    seen = origin.last("/a")
    assert seen.get("X-Forwarded-For") == "9.9.9.9, 8.8.8.8, 10.1.1.1, 127.0.0.1"
    assert seen.get("X-Forwarded-Proto") == "https"
    assert node.access_log(1)[-1]["client"] == "8.8.8.8"


def test_a_request_that_was_here_before_is_a_loop(origin, node):
    r = node.get("/a", {"CDN-Loop": "other; v=1, brim"})
    assert r.status == 502 and "proxy_loop_detected" in r.get("Proxy-Status")
    assert origin.count() == 0


@pytest.mark.parametrize("method", ["CONNECT", "TRACE"])
def test_methods_that_are_not_served(origin, node, method):
    with node.connect() as c:
        c.send(b"%s %s HTTP/1.1\r\nHost: a.test\r\n\r\n" % (method.encode(),
                                                            b"a.test:443" if method == "CONNECT" else b"/a"))
        r = c.response()
    assert r.status == 405 and "GET" in r.get("Allow")


def test_unknown_methods_are_relayed(origin, node):
    origin.page("/a", b"hello")
    r = node.request("BREW", "/a")
    assert (r.status, r.body) == (200, b"hello") and r.cache.startswith("fwd=method")
