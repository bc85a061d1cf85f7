"""Faults that a review found, one test each: limits that must fire, framing that must not mislead, what must not be shared."""
import os
import signal
import threading
import time

import pytest

from brimtest import Gate, SlowConnection, pattern, wait_until
from brimtest.look import gauge, until_hit, worker_of

FRESH = {"Cache-Control": "max-age=3600"}
KIB, MIB = 1 << 10, 1 << 20
POST = b"POST /up HTTP/1.1\r\nHost: a.test\r\n"


# --- limits


def test_a_body_that_stops_coming_gets_408(origin, make_node):
    node = make_node(origin, conf={"limits": {"body_timeout": "300ms"}})

    @origin.route("/up", early=True)
    def up(x):
        assert x.peer_closed()

    with node.connect() as c:
        c.send(POST + b"Content-Length: 100\r\n\r\nhello")
        assert c.response().status == 408
        assert c.closed()


def test_a_body_that_trickles_is_not_timed_out(origin, make_node):
    node = make_node(origin, conf={"limits": {"body_timeout": "2s"}})

    @origin.route("/up", early=True)
    def up(x):
        x.reply(x.read_body())

    with node.connect() as c:
        c.send(POST + b"Content-Length: 5\r\n\r\n")
        for byte in b"hello":
            time.sleep(0.5)
            c.send(bytes([byte]))
        assert c.response().body == b"hello"


def test_an_origin_that_is_slow_to_read_is_not_the_clients_fault(origin, make_node):
    node = make_node(origin, conf={"limits": {"body_timeout": "1s"}})
    body = pattern(20 * MIB)

    @origin.route("/up", early=True)
    def up(x):
        time.sleep(2.5)
        x.reply(b"%d" % len(x.read_body()))

    with node.connect() as c:
        c.send(POST + b"Content-Length: %d\r\n\r\n" % len(body))
        c.send(body[:10])
        time.sleep(0.1)
        c.send(body[10:])
        r = c.response()
    assert (r.status, r.body) == (200, b"%d" % len(body))


@pytest.mark.parametrize("way", ["hit", "small hit", "relay", "fill"])
def test_a_client_that_takes_nothing_is_cut_off(origin, make_node, way):
    node = make_node(origin, conf={"limits": {"send_timeout": "500ms"}})
    body = pattern(16 * KIB if way == "small hit" else 20 * MIB)
    origin.page("/a", body, {"Cache-Control": "no-store"} if way == "relay" else FRESH)
    if "hit" in way:
        until_hit(node, "/a", body)
    with SlowConnection(node.address) as c:
        count = 2000 if way == "small hit" else 1
        c.send(b"GET /a HTTP/1.1\r\nHost: a.test\r\n\r\n" * count)
        wait_until(lambda: gauge(node, "connections") == 1, "the connection")
        wait_until(lambda: gauge(node, "connections") == 0, "the node to give up")
        def left():  # what the kernel would still send, for a quarter of an hour
            with open("/proc/net/tcp") as f:
                return [line for line in f if f":{node.port:04X} " in line.split()[1] + " " and line.split()[3] == "04"]
        assert not left()
    wait_until(lambda: "send_timeout" in [line["error"] for line in node.access_log(1)], "the log line of a broken answer")


@pytest.mark.parametrize("way", ["hit", "relay", "fill"])
def test_a_client_that_is_slow_is_not_cut_off(origin, make_node, way):
    """It takes a little all the time, but never makes enough room for an event within send_timeout."""
    node = make_node(origin, workers=1, conf={"limits": {"send_timeout": "1s"}})
    body = pattern(20 * MIB)
    origin.page("/a", body, {"Cache-Control": "no-store"} if way == "relay" else FRESH)
    if way == "hit":
        until_hit(node, "/a", body)
    with SlowConnection(node.address) as c:
        c.request("GET", "/a")
        for _ in range(30):
            time.sleep(0.1)
            c.sock.recv(2000)
        assert gauge(node, "connections") == 1
        assert not [line for line in node.access_log(0) if line["error"]]


def test_who_waits_for_another_goes_on_alone_after_collapse_wait(origin, make_node):
    node = make_node(origin, site={"cache": {"collapse": {"wait": "300ms"}}})
    gate = Gate()

    @origin.route("/a")
    def slow(x):
        if origin.count("/a") == 1:
            gate.wait()
        x.reply(b"hello", FRESH)

    with node.connect() as first, node.connect() as second:
        first.request("GET", "/a")
        origin.wait_for(1, "/a")
        second.request("GET", "/a")
        r = second.response()
        assert r.body == b"hello" and "stored" not in r.cache and "collapsed" not in r.cache
        gate.open()
        assert first.response().body == b"hello"


# --- what a client sees of an answer


@pytest.mark.parametrize("cached", [True, False])
def test_small_chunks_leave_at_once(origin, node, cached):
    """Nothing waits in the kernel for more to come (MSG_MORE holds back for 200 ms)."""
    gates = [Gate() for _ in range(8)]

    @origin.route("/a")
    def slow(x):
        x.head(200, {"Transfer-Encoding": "chunked", **(FRESH if cached else {"Cache-Control": "no-store"})})
        for gate in gates:
            gate.wait()
            x.chunk(b"tick")
        x.last_chunk()

    took = []
    with node.connect() as c:
        c.request("GET", "/a")
        c.head()
        for gate in gates:
            began = time.monotonic()
            gate.open()
            wanted = b"4\r\ntick" if gate is gates[0] else b"\r\n4\r\ntick"  # a chunk's CRLF comes with the next
            assert c.receive(len(wanted)) == wanted
            took.append(time.monotonic() - began)
    assert min(took) < 0.15, took  # held back, each would take longer; on a busy machine some do anyway


def test_an_early_answer_larger_than_what_is_drained_arrives(origin, node):
    """The origin answers 3 MiB before it has read the body; the client goes on sending for a while before it reads."""
    answer = pattern(3 * MIB)

    @origin.route("/up", early=True)
    def up(x):
        x.reply(answer)
        x.peer_closed()

    with node.connect() as c:
        c.send(POST + b"Content-Length: 100000000\r\n\r\n" + bytes(1000))
        stop = threading.Event()

        def push():
            try:
                while not stop.wait(0.002):
                    c.sock.send(bytes(100))
            except OSError:
                pass

        pusher = threading.Thread(target=push)
        pusher.start()
        try:
            r = c.head()
            assert r.get("Connection") == "close"
            time.sleep(0.3)
            c.read_body(r)
        finally:
            stop.set()
            pusher.join()
        assert r.complete and r.body == answer, r


@pytest.mark.parametrize("headers", [FRESH, {"Cache-Control": "no-store"}, {**FRESH, "Content-Length": "0"},
                                     {"Cache-Control": "no-store", "Content-Length": "0"},
                                     {"Cache-Control": "no-store", "Content-Length": "7"}])
def test_204_says_nothing_of_a_length(origin, node, headers):
    origin.page("/a", b"", headers, status=204)
    for _ in range(2):
        with node.connect() as c:
            c.request("GET", "/a")
            r = c.response()
            assert r.status == 204
            assert r.get("Content-Length") is None and r.get("Transfer-Encoding") is None, r
            c.request("GET", "/none")
            assert c.response().status == 404


def test_a_worker_that_is_killed_leaves_no_short_body_that_looks_whole(origin, node):
    gate = Gate()

    @origin.route("/a")
    def slow(x):
        x.head(200, {"Transfer-Encoding": "chunked", "Cache-Control": "no-store"})
        x.chunk(b"hello")
        gate.wait()
        x.chunk(b"world")
        x.last_chunk()

    with node.connect() as c:
        c.send(b"GET /a HTTP/1.0\r\nHost: a.test\r\n\r\n")
        r = c.head()
        assert c.receive(5) == b"hello"
        node.may_crash = True
        os.kill(worker_of(node, c), signal.SIGKILL)
        with pytest.raises(ConnectionResetError):
            c.until_closed()
        assert r.get("Content-Length") is None
        gate.open()


def test_errors_that_are_ours_name_themselves(origin, make_node):
    node = make_node(origin, site={"purge_from": None})
    for method in ("TRACE", "PURGE"):
        r = node.request(method, "/a")
        assert r.status == 405 and "GET" in r.get("Allow")
        assert r.get("Proxy-Status", "").startswith("brim")
        assert r.get("Date") is not None


# --- what an origin learns, and what is shared


def test_nothing_a_client_invents_reaches_the_origin_as_forwarded(origin, node):
    origin.page("/a", b"hello", FRESH)
    with node.connect() as c:
        c.send(b"GET /a HTTP/1.1\r\nHost: A.test:80\r\nX-Forwarded-Port: 8443\r\nX-Forwarded-Server: evil\r\n"
               b"x-forwarded-prefix: /evil\r\nX-Forwarded-Ssl: on\r\n\r\n")
        assert c.response().status == 200
    seen = origin.last("/a")
    assert [k for k, _ in seen.headers if k.lower().startswith("x-forwarded-")
            and k.lower() not in ("x-forwarded-for", "x-forwarded-host", "x-forwarded-proto")] == []
    assert seen.get("X-Forwarded-Host") == "a.test"


def test_a_background_revalidation_says_what_the_request_said(origin, make_node, clock):
    node = make_node(origin, conf={"trusted_proxies": ["127.0.0.0/8"], "log": {"request_id": "X-Request-ID"}})
    origin.page("/a", b"hello", {"Cache-Control": "max-age=60, stale-while-revalidate=60"})
    headers = {"X-Forwarded-Proto": "https", "X-Forwarded-Host": "shop.test", "X-Forwarded-For": "9.9.9.9"}
    until_hit(node, "/a", headers=headers)
    clock.advance(70)
    assert node.get("/a", headers).hit
    seen = origin.wait_for(2, "/a")
    assert (seen.get("X-Forwarded-Proto"), seen.get("X-Forwarded-Host")) == ("https", "shop.test")
    assert seen.get("X-Forwarded-For") == "9.9.9.9, 127.0.0.1"
    assert seen.get("X-Request-ID")


def test_a_background_revalidation_is_never_only_if_cached(origin, node, clock):
    origin.page("/a", b"hello", {"Cache-Control": "max-age=60, stale-while-revalidate=60"})
    until_hit(node, "/a")
    clock.advance(70)
    assert node.get("/a", {"Cache-Control": "only-if-cached"}).hit
    origin.wait_for(2, "/a")


def test_a_background_revalidation_waits_for_a_commit_under_way(origin, make_node, clock):
    """The keeper is stopped while a new answer waits for its commit. What the index says is stale, what comes is stale, too:
    the hit in between has to have it revalidated, once it is there."""
    node = make_node(origin, workers=1)
    replied = Gate()

    @origin.route("/a")
    def a(x):
        x.reply(b"hello", {"Cache-Control": "max-age=60, stale-while-revalidate=600"})
        if origin.count("/a") > 1:
            replied.open()

    origin.page("/b", b"", {"Cache-Control": "no-store"})
    keeper = node.pids("keeper")[0]
    def is_fresh():
        cache = node.get("/a").cache
        return cache.startswith("hit") and "ttl=-" not in cache

    for _ in range(20):
        wait_until(is_fresh, "a fresh hit")
        wait_until(lambda: node.status()["claims"] == 0, "no claim to be left")
        replied.close()
        clock.advance(70)
        begin, asked = time.monotonic(), origin.count("/a")
        os.kill(keeper, signal.SIGSTOP)
        try:
            assert node.get("/a").hit
            replied.wait()
            replied.close()
            node.get("/b")  # the worker has seen what came before it
            clock.advance(70)
            hit = node.get("/a").hit
            in_time = time.monotonic() - begin < 1  # later, it counts as away: then nothing can be stored
        finally:
            os.kill(keeper, signal.SIGCONT)
        if in_time:
            break
    assert in_time and hit
    origin.wait_for(asked + 2, "/a")


def test_vary_names_what_the_origin_saw(origin, node):
    """X-Forwarded-Proto is ours: what a client says in it selects no variant."""
    @origin.route("/a")
    def a(x):
        x.reply(x.request.get("X-Forwarded-Proto").encode(), {**FRESH, "Vary": "X-Forwarded-Proto"})

    assert node.get("/a", {"X-Forwarded-Proto": "https"}).body == b"http"
    r = node.get("/a")
    assert r.hit and r.body == b"http"
    assert origin.count("/a") == 1


def test_variants_by_forwarded_fields_of_trusted_proxies(origin, make_node):
    node = make_node(origin, conf={"trusted_proxies": ["127.0.0.0/8"]})

    @origin.route("/a")
    def a(x):
        x.reply(x.request.get("X-Forwarded-Proto").encode(), {**FRESH, "Vary": "X-Forwarded-Proto"})

    for _ in range(2):
        for proto in ("https", "http"):
            assert node.get("/a", {"X-Forwarded-Proto": proto}).body == proto.encode()
    assert node.get("/a").body == b"http"
    assert origin.count("/a") == 2


def test_what_varies_by_the_clients_address_is_not_shared(origin, make_node):
    node = make_node(origin, conf={"trusted_proxies": ["127.0.0.0/8"]})

    @origin.route("/a")
    def a(x):
        x.reply(x.request.get("X-Forwarded-For").encode(), {**FRESH, "Vary": "X-Forwarded-For"})

    for _ in range(2):
        assert node.get("/a", {"X-Forwarded-For": "9.9.9.9"}).body == b"9.9.9.9, 127.0.0.1"
        assert node.get("/a", {"X-Forwarded-For": "8.8.8.8"}).body == b"8.8.8.8, 127.0.0.1"


def test_a_provoked_error_does_not_make_the_url_uncacheable(origin, node):
    @origin.route("/a")
    def a(x):
        if x.request.get("X-Odd"):
            x.reply(b"bad", status=400)
        else:
            x.reply(b"hello", FRESH)

    assert node.get("/a", {"X-Odd": "1"}).status == 400
    wait_until(lambda: "stored" in node.get("/a").cache, "the error to be forgotten")


def test_a_clients_no_store_is_its_own_affair(origin, make_node):
    node = make_node(origin, site={"cache": {"request_directives": "honour"}})
    origin.page("/a", b"hello", FRESH)
    assert "stored" not in node.get("/a", {"Cache-Control": "no-store"}).cache.split(";")[1:2]
    assert "stored" in node.get("/a").cache


# --- stale, purged


def test_a_purge_while_the_origin_is_asked_is_final(origin, node, clock):
    """The stale object that stands by for stale-if-error was purged before the origin failed."""
    gate = Gate()

    @origin.route("/a")
    def a(x):
        if origin.count("/a") == 1:
            x.reply(b"secret", {"Cache-Control": "max-age=60, stale-if-error=600", "ETag": '"1"'})
        else:
            gate.wait()
            x.reply(b"error", status=500)

    until_hit(node, "/a")
    clock.advance(70)
    with node.connect() as c:
        c.request("GET", "/a")
        origin.wait_for(2, "/a")
        node.purge("/a")
        gate.open()
        r = c.response()
    assert r.status == 500 and r.body == b"error"


def test_soft_purged_is_told_as_stale(origin, node):
    origin.page("/a", b"hello", {"Cache-Control": "max-age=60, stale-while-revalidate=600"})
    until_hit(node, "/a")
    node.purge("/a", soft=True)
    assert node.get("/a").cache == "hit; ttl=-1"


def test_a_revalidation_keeps_the_origins_connection(origin, make_node, clock):
    node = make_node(origin, workers=1)

    @origin.route("/a")
    def a(x):
        if x.request.get("If-None-Match"):
            x.reply(status=304, headers={**FRESH, "ETag": '"1"', "Cache-Control": "max-age=60"})
        else:
            x.reply(b"hello", {"Cache-Control": "max-age=60", "ETag": '"1"'})

    until_hit(node, "/a")
    for n in range(3):
        clock.advance(70)
        assert node.get("/a").cache == "fwd=stale; fwd-status=304"
        until_hit(node, "/a")
    assert origin.connections == 1


def test_bytes_behind_a_304_are_not_taken_for_the_next_answer(origin, make_node, clock):
    node = make_node(origin, workers=1)

    @origin.route("/a")
    def a(x):
        if x.request.get("If-None-Match"):
            x.send(b"HTTP/1.1 304 Not Modified\r\nETag: \"1\"\r\nCache-Control: max-age=60\r\n\r\n"
                   b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nCache-Control: max-age=60\r\n\r\nevil")
        else:
            x.reply(b"hello", {"Cache-Control": "max-age=60", "ETag": '"1"'})

    origin.page("/b", b"good", FRESH)
    until_hit(node, "/a")
    clock.advance(70)
    node.get("/a")
    assert node.get("/b").body == b"good"


# --- counted and logged


def test_a_client_that_leaves_while_it_waits_is_counted_and_logged(origin, make_node):
    node = make_node(origin, workers=1)
    gate = Gate()

    @origin.route("/up", early=True)
    def up(x):
        gate.wait()

    c = node.connect()
    c.send(POST + b"Content-Length: 100\r\n\r\nhello")
    origin.wait_for(1, "/up")
    c.reset()
    line = node.access_log(1)[-1]
    assert line["error"] == "client_gone" and line["status"] == 0 and line["cache"] == "pass"
    gate.open()


def test_bytes_of_request_bodies_are_counted(origin, node):
    @origin.route("/up", early=True)
    def up(x):
        x.reply(x.read_body())

    assert node.request("POST", "/up", body=pattern(100_000)).body == pattern(100_000)

    def counted():
        return node.metrics().get('brim_request_body_bytes_total{site="a"}') == 100_000
    wait_until(counted, "the body to be counted")


def test_limits_of_heads_follow_a_reload(origin, make_node):
    node = make_node(origin, workers=1, conf={"limits": {"headers": 50, "header_bytes": "8KiB"}})
    origin.page("/a", b"hello", FRESH)

    def status(fields, value=1):
        return node.get("/a", [(f"X-{i}", "x" * value) for i in range(fields)]).status

    assert [status(40), status(60), status(1, 7000), status(1, 9000)] == [200, 431, 200, 431]
    node.reload({"limits": {"headers": 80, "header_bytes": "32KiB"}})
    assert [status(60), status(90), status(1, 20000)] == [200, 431, 200]
    with node.connect() as c:  # its block is from before
        c.request("GET", "/a")
        assert c.response().status == 200
        c.send(b"GET /a HTTP/1.1\r\n")
        node.reload({"limits": {"headers": 20, "header_bytes": "8KiB"}})
        c.send(b"Host: a.test\r\n" + b"X: y\r\n" * 60 + b"\r\n")
        assert c.response().status == 200
    assert [status(10), status(40), status(1, 9000)] == [200, 431, 431]


# --- bodies that are gone


def chunk_files(node):
    """Paths of all chunk files, in the order of their names."""
    return sorted(os.path.join(at, name) for at, _, names in os.walk(node.store) for name in names
                  if os.path.getsize(os.path.join(at, name)) == MIB and "chunk" in at)


@pytest.mark.parametrize("lost", [0, 2])
def test_an_object_that_lost_a_chunk_is_fetched_anew(origin, make_node, lost):
    node = make_node(origin, workers=1)
    body = pattern(3 * MIB)
    origin.page("/a", body, FRESH)
    until_hit(node, "/a", body)
    node.stop()
    files = chunk_files(node)
    assert len(files) == 3
    os.unlink(files[lost])
    node.start()
    r = node.get("/a")
    assert body.startswith(r.body) and r.complete == (lost == 0)
    origin.wait_for(2, "/a")

    def whole():
        r = node.get("/a")
        return r.complete and r.hit and r.body == body
    wait_until(whole, "a whole object again")
    assert origin.count("/a") == 2


def test_a_head_that_validates_keeps_the_origins_connection(origin, make_node, clock):
    node = make_node(origin, workers=1)
    origin.page("/a", b"hello", {"Cache-Control": "max-age=60", "ETag": '"1"'})
    until_hit(node, "/a")
    for n in range(3):
        clock.advance(70)
        r = node.request("HEAD", "/a")
        assert r.status == 200 and not r.hit
        until_hit(node, "/a")
    assert origin.connections == 1 and origin.count("/a", "GET") == 1


def test_a_purge_while_a_revalidation_is_under_way_is_final(origin, node, clock):
    gate = Gate()

    @origin.route("/a")
    def a(x):
        if x.request.get("If-None-Match"):
            gate.wait()
            x.reply(status=304, headers={"Cache-Control": "max-age=60", "ETag": '"1"'})
        else:
            x.reply(b"%d" % origin.count("/a"), {"Cache-Control": "max-age=60", "ETag": '"1"'})

    until_hit(node, "/a")
    clock.advance(70)
    with node.connect() as c:
        c.request("GET", "/a")
        origin.wait_for(2, "/a")
        node.purge("/a")
        gate.open()
        assert c.response().body == b"3"
    assert until_hit(node, "/a").body == b"3"
