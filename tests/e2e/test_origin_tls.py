"""TLS to origins: who is believed, what is reused, and that a cut stream is never a whole answer."""
import datetime
import socket
import threading

import pytest

from brimtest import FRAMINGS, FRESH, Gate, feed, pattern, wait_until
from brimtest.look import gauge, until_hit
from brimtest.origin import server_context

KIB, MIB = 1 << 10, 1 << 20
SIZES = [0, 1, 16 * KIB - 1, 16 * KIB, 16 * KIB + 1, 100_000, MIB]


@pytest.fixture(scope="module")
def pair(certs):
    """Of the origin, by name and by address."""
    return certs.issue(["o.test", "127.0.0.1"])


@pytest.fixture
def behind(certs, make_node):
    """A function that puts a node before an origin over TLS."""
    def behind(origin, origin_conf=None, **kw):
        tls = {"ca": certs.root} | (origin_conf or {}).pop("tls", {})
        return make_node(origin, origin_conf={"tls": tls} | (origin_conf or {}), workers=kw.pop("workers", 1), **kw)
    return behind


def refused(r, error):
    return r.status == 502 and f"error={error}" in r.get("Proxy-Status")


# --- bodies


@pytest.mark.parametrize("framing", FRAMINGS)
@pytest.mark.parametrize("version", ["1.2", "1.3"])
def test_every_size_comes_back_byte_for_byte(make_origin, behind, pair, version, framing):
    origin = make_origin(tls=server_context(pair, version))
    node = behind(origin)
    bodies = {f"/{n}": pattern(n, n) for n in SIZES}
    for target, body in bodies.items():
        feed(origin, target, body, framing, piece=50_000)
        feed(origin, "/pass" + target, body, framing, {"Cache-Control": "no-store"})
    for target, body in bodies.items():
        r = node.get(target)
        assert r.complete and r.body == body and r.cache == "fwd=uri-miss; stored", target
        r = node.get("/pass" + target)
        assert r.complete and r.body == body, target
    for target, body in bodies.items():
        until_hit(node, target, body)
        assert origin.count(target) == 1
    assert {h.version for h in origin.handshakes} == {f"TLSv{version}"}
    assert {h.alpn for h in origin.handshakes} == {"http/1.1"}


@pytest.mark.parametrize("cached", [True, False])
def test_bytes_of_a_slow_origin_reach_the_client_as_they_come(make_origin, behind, pair, cached):
    origin, gate, body, got = make_origin(tls=server_context(pair)), Gate(), pattern(300_000), bytearray()
    node = behind(origin)
    feed(origin, "/a", body, "chunked", FRESH if cached else {"Cache-Control": "no-store"}, gate=gate, at=70_000)

    def take(data):
        got.extend(data)
        if len(got) == 70_000:
            gate.open()

    with node.connect() as c:
        c.request("GET", "/a")
        r = c.response(into=take)
    assert r.complete and bytes(got) == body


def test_an_answer_that_comes_before_the_body_is_read(make_origin, behind, pair):
    origin = make_origin(tls=server_context(pair))
    node = behind(origin)

    @origin.route("/a", early=True)
    def _(x):
        x.reply(b"too much", {"Connection": "close"}, status=413)
        x.cut()  # what was sent and not read makes this a reset
    for _ in range(5):
        r = node.request("POST", "/a", body=pattern(700_000))
        assert r.status == 413 and r.body == b"too much"


def test_a_body_goes_up(make_origin, behind, pair):
    origin = make_origin(tls=server_context(pair))
    node, body = behind(origin), pattern(3 * MIB)
    origin.page("/a", b"thanks")
    assert node.request("POST", "/a", body=body).body == b"thanks"
    assert origin.last("/a").body == body


# --- cut


@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("framing", FRAMINGS)
def test_a_stream_that_does_not_say_that_it_ends_is_no_whole_body(make_origin, behind, pair, framing, cached):
    origin, body = make_origin(tls=server_context(pair)), pattern(200_000)
    node = behind(origin)

    def cuts(x):
        fields = {"length": {"Content-Length": "300000"}, "chunked": {"Transfer-Encoding": "chunked"}, "close": {}}[framing]
        x.head(200, fields | (FRESH if cached else {"Cache-Control": "no-store"}))
        x.chunk(body) if framing == "chunked" else x.send(body)
        x.cut()
    origin.route("/a")(cuts)
    r = node.get("/a")
    assert not r.complete and body.startswith(r.body)
    origin.page("/a", b"good", FRESH)
    r = node.get("/a")
    assert r.complete and r.body == b"good" and not r.hit


@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_a_body_that_says_its_end_needs_no_notice(make_origin, behind, pair, framing):
    """Origins that just close are many; the framing has said that it is whole."""
    origin, body = make_origin(tls=server_context(pair)), pattern(200_000)
    node = behind(origin)

    def leaves(x):
        x.head(200, FRESH | ({"Content-Length": "200000"} if framing == "length" else {"Transfer-Encoding": "chunked"}))
        x.chunk(body) if framing == "chunked" else x.send(body)
        if framing == "chunked":
            x.last_chunk()
        x.cut()
    origin.route("/a")(leaves)
    r = node.get("/a")
    assert r.complete and r.body == body
    until_hit(node, "/a", body)
    assert origin.count("/a") == 1


def test_a_close_that_is_announced_ends_a_body(make_origin, behind, pair):
    origin = make_origin(tls=server_context(pair))
    node = behind(origin)
    feed(origin, "/a", b"to the end", "close")
    r = node.get("/a")
    assert r.complete and r.body == b"to the end"
    until_hit(node, "/a", b"to the end")


def test_bytes_behind_the_answer_spoil_it(make_origin, behind, pair):
    origin = make_origin(tls=server_context(pair))
    node = behind(origin)

    def says_too_much(x):
        x.send(f"HTTP/1.1 200 OK\r\nDate: {origin.date()}\r\nCache-Control: max-age=60\r\nContent-Length: 4\r\n\r\ngoodmore")
        x.peer_closed()
        x.cut()
    origin.route("/a")(says_too_much)
    node.get("/a")
    origin.page("/a", b"good", FRESH)
    assert not node.get("/a").hit


# --- who is believed


def test_only_a_certificate_of_the_ca_is_believed(make_origin, make_node, pair):
    origin = make_origin(tls=server_context(pair))
    origin.page("/", b"hello")
    node = make_node(origin, workers=1)  # the system's store doesn't know ours
    assert refused(node.get("/"), "tls_certificate_error")
    wait_until(lambda: origin.refusals, "the origin to be told")
    assert origin.count() == 0
    line = node.wait_log("origin_tls_failed")
    assert line["origin"] == "o" and line["error"] == "tls_certificate_error" and "certificate" in line["fault"]
    wait_until(lambda: gauge(node, "origin_tls_failures_total") >= 1, "the failure to be counted")


@pytest.mark.parametrize("tls,names", [
    ({}, ["o.test"]),                            # the address isn't in it
    ({"server_name": "other.test"}, ["o.test"]),
    ({"server_name": "a.b.o.test"}, ["*.o.test"]),
])
def test_the_certificate_must_have_the_name(make_origin, behind, certs, tls, names):
    origin = make_origin(tls=server_context(certs.issue(names)))
    assert refused(behind(origin, {"tls": tls}).get("/"), "tls_certificate_error")
    assert origin.count() == 0


def test_a_wildcard_is_for_one_label(make_origin, behind, certs):
    origin = make_origin(tls=server_context(certs.issue("*.o.test")))
    origin.page("/", b"hello")
    assert behind(origin, {"tls": {"server_name": "x.o.test"}}).get("/").body == b"hello"


def test_the_server_itself_may_be_the_ca(make_origin, behind, certs):
    """A certificate of nobody's, pinned; and no other one of its issuer."""
    pinned, other = certs.issue("127.0.0.1"), certs.issue("127.0.0.1")
    for pair, good in ((pinned, True), (other, False)):
        origin = make_origin(tls=server_context(pair))
        origin.page("/", b"hello")
        r = behind(origin, {"tls": {"ca": pinned.leaf}}).get("/")
        assert r.body == b"hello" if good else refused(r, "tls_certificate_error")


@pytest.mark.parametrize("days", [-2, 2])
def test_the_certificate_must_be_of_today(make_origin, behind, certs, days):
    begin = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=days)
    expired = certs.issue("127.0.0.1", not_before=begin, not_after=begin + datetime.timedelta(days=1))
    origin = make_origin(tls=server_context(expired))
    assert refused(behind(origin).get("/"), "tls_certificate_error")
    assert origin.count() == 0


def test_verification_can_be_switched_off(make_origin, make_node, certs):
    origin = make_origin(tls=server_context(certs.issue("other.test")))
    origin.page("/", b"hello")
    node = make_node(origin, workers=1, origin_conf={"tls": {"verify": False}})
    assert node.get("/").body == b"hello"


def test_the_server_name_is_asked_for_and_an_address_is_not(make_origin, behind, pair):
    for tls, name in (({"server_name": "o.test"}, "o.test"), ({}, None)):
        origin = make_origin(tls=server_context(pair))
        origin.page("/", b"hello")
        assert behind(origin, {"tls": tls}).get("/").body == b"hello"
        assert [h.name for h in origin.handshakes] == [name]


@pytest.mark.parametrize("version", ["1.2", "1.3"])
def test_our_own_certificate(make_origin, behind, certs, pair, version):
    ours = certs.issue("edge.test")
    origin = make_origin(tls=server_context(pair, version, clients=certs.root))
    origin.page("/", b"hello")
    assert behind(origin, {"tls": ours.conf}).get("/").body == b"hello"
    assert ("DNS", "edge.test") in origin.handshakes[0].certificate["subjectAltName"]
    r = behind(origin).get("/")  # and without it; an alert that follows on our request may be lost in a reset
    assert refused(r, "tls_alert_received") or refused(r, "connection_terminated"), r
    assert origin.count() == 1


def test_what_is_no_tls(make_node):
    with socket.create_server(("127.0.0.1", 0)) as plain:
        node = make_node(f"https://127.0.0.1:{plain.getsockname()[1]}", workers=1, origin_conf={"retries": 0})

        def says_so():
            sock, _ = plain.accept()
            with sock:
                sock.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
                sock.recv(1 << 16)
        thread = threading.Thread(target=says_so)
        thread.start()
        assert refused(node.get("/"), "tls_protocol_error")
        thread.join(20)


def test_a_handshake_has_the_connect_timeout(make_node):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        node = make_node(f"https://127.0.0.1:{silent.getsockname()[1]}", workers=1,
                         origin_conf={"timeouts": {"connect": "200ms"}, "retries": 0})
        r = node.get("/")
        assert r.status == 504 and "error=connection_timeout" in r.get("Proxy-Status")


def test_the_next_server_is_asked_when_a_handshake_fails(make_origin, behind, certs, pair):
    bad, good = make_origin(tls=server_context(certs.issue("other.test"))), make_origin(tls=server_context(pair))
    good.page("/", b"hello")
    node = behind(bad, {"servers": [{"url": bad.url}, {"url": good.url, "backup": True}]})
    assert node.get("/").body == b"hello"
    assert bad.count() == 0


# --- what is reused


@pytest.mark.parametrize("version", ["1.2", "1.3"])
def test_a_connection_is_kept_and_a_session_outlives_it(make_origin, behind, pair, version):
    origin = make_origin(tls=server_context(pair, version))
    origin.page("/", b"hello")

    def leaves(x):
        x.reply(b"bye", {"Connection": "close"})
        x.close()
    origin.route("/bye")(leaves)
    node = behind(origin)
    for _ in range(3):
        assert node.get("/").body == b"hello"
    assert len(origin.handshakes) == 1
    for n in range(2, 4):
        assert node.get("/bye").body == b"bye"
        assert node.get("/").body == b"hello"
        assert len(origin.handshakes) == n
    assert [h.resumed for h in origin.handshakes] == [False, True, True]
    wait_until(lambda: gauge(node, "origin_tls_handshakes_total") == 3, "the handshakes to be counted")
    assert gauge(node, "origin_tls_resumed_total") == 2 and gauge(node, "origin_tls_failures_total") == 0


def test_another_tls_makes_another_connection_and_session(make_origin, behind, certs, pair):
    origin = make_origin(tls=server_context(pair))
    origin.page("/", b"hello")
    node = behind(origin)
    assert node.get("/").body == b"hello"
    node.reload({"origins": {"o": {"tls": {"server_name": "o.test"}}}})
    assert node.get("/").body == b"hello"
    assert [(h.name, h.resumed) for h in origin.handshakes] == [(None, False), ("o.test", False)]
    node.reload({"origins": {"o": {"tls": {"server_name": "other.test"}}}})
    assert refused(node.get("/"), "tls_certificate_error")
    assert origin.count() == 2


@pytest.mark.parametrize("how", ["close", "cut", "reset"])
def test_a_kept_connection_that_dies_is_replaced(make_origin, behind, pair, how):
    origin, die, dead = make_origin(tls=server_context(pair)), Gate(), Gate()

    def dies(x):
        x.reply(b"first")
        if x.request.number == 0:
            die.wait()
            getattr(x, how)()
            dead.open()
    origin.route("/a")(dies)
    node = behind(origin)
    assert node.get("/a").body == b"first"
    die.open()
    dead.wait()
    assert node.get("/a").body == b"first"
    assert len(origin.handshakes) == 2
    assert origin.count("/a") == 2


def test_a_request_on_a_connection_that_dies_unanswered_is_sent_again(make_origin, behind, pair):
    origin = make_origin(tls=server_context(pair))
    origin.page("/", b"hello")
    origin.route("/a")(lambda x: x.cut() if x.request.connection == 0 else x.reply(b"good"))
    node = behind(origin)
    assert node.get("/").body == b"hello"
    assert node.get("/a").body == b"good"
    assert [r.connection for r in origin.requests] == [0, 0, 1]
    origin.route("/b")(lambda x: x.cut())  # but not one on a new connection, and never a POST
    assert refused(node.request("POST", "/b", body=b"x"), "connection_terminated")
    assert origin.count("/b") == 1


def test_a_thousand_small_ones(make_origin, behind, pair):
    """Many answers on a few connections: nothing is read beyond what belongs to an answer."""
    origin = make_origin(tls=server_context(pair))
    origin.route("*")(lambda x: x.reply(pattern(int(x.request.target[1:]) * 37 % 5000), {"Cache-Control": "no-store"}))
    node, wrong = behind(origin, workers=2), []

    def run(start):
        with node.connect() as c:
            for n in range(start, start + 250):
                c.request("GET", f"/{n}")
                r = c.response()
                if r.body != pattern(n * 37 % 5000):
                    wrong.append(n)
    threads = [threading.Thread(target=run, args=(n * 250,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert not wrong and origin.count() == 1000
    assert len(origin.handshakes) <= 8
