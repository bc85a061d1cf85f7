"""What may happen to a TLS stream on its way: new keys, ends without a notice, slow readers. The same with kTLS (tests/vm) and
without; where the kernel can't do what a peer asks for (new keys for what we send), the connection may end after the answer,
but nothing wrong is ever read."""
import itertools
import random

import pytest

from brimtest import FRESH, Gate, TlsConnection, feed, pattern, wait_until
from brimtest.look import until_hit
from brimtest.openssl import OpenSslConnection, TlsError

pytestmark = pytest.mark.ktls

BODY = pattern(1 << 20, seed=7)
VERSIONS = ["1.2", "1.3"]


@pytest.fixture
def node(origin, make_node, certs):
    """One worker; /a is stored."""
    node = make_node(origin, tls=certs.issue("a.test"), workers=1)
    origin.page("/a", BODY, FRESH)
    until_hit(node, "/a", BODY)
    return node


@pytest.fixture
def connect(node):
    """Clients that a failing test doesn't leave open."""
    opened = []

    def connect(**kw):
        opened.append(OpenSslConnection(node.tls_address, **kw))
        return opened[-1]
    yield connect
    for c in opened:
        c.close()


def ask(c, target="/a", method="GET", **kw):
    c.request(method, target, **kw)
    return c.response(method)


def ask_again(c, body=BODY):
    """On a connection that may have been closed in order: either a whole answer or none."""
    try:
        c.request(target="/a")
        r = c.response()
    except TlsError as e:
        assert "decrypt" not in str(e) and "mac" not in str(e), "records that can't be read"
        return
    except ConnectionError:
        return
    assert r.complete and r.body == body


# --- new keys


@pytest.mark.parametrize("both", [False, True], ids=["ours", "both"])
def test_new_keys_before_a_request(connect, both):
    c = connect(version="1.3")
    assert ask(c).body == BODY
    c.update_keys(both)
    if not both:  # nothing changes for what the node sends
        assert ask(c).body == BODY and ask(c).body == BODY
    else:
        ask_again(c)


@pytest.mark.parametrize("both", [False, True], ids=["ours", "both"])
@pytest.mark.parametrize("target", ["/a", "/pass"])
def test_new_keys_within_an_answer(origin, connect, target, both):
    gate = Gate()
    feed(origin, "/pass", BODY, headers={"Cache-Control": "no-store"}, gate=gate, at=len(BODY) // 2)
    c = connect(version="1.3", receive_buffer=8192)
    c.request(target=target)
    r = c.head()
    got = c.receive(100_000)  # the rest is waiting for us
    c.update_keys(both)
    gate.open()
    got += c.receive(len(BODY) - len(got))
    assert r.status == 200 and got == BODY
    if both:
        ask_again(c)
    else:
        assert ask(c).body == BODY


@pytest.mark.parametrize("both", [False, True], ids=["ours", "both"])
def test_new_keys_within_a_request(origin, connect, both):
    @origin.route("/echo")
    def _(x):
        x.reply(x.request.body, {"Cache-Control": "no-store"})
    c = connect(version="1.3")
    c.send(f"POST /echo HTTP/1.1\r\nHost: a.test\r\nContent-Length: {len(BODY)}\r\n\r\n")
    c.send(BODY[:100_000])
    c.update_keys(both)
    c.send(BODY[100_000:])
    if not both:
        r = c.response()
        assert r.complete and r.body == BODY
        return
    # With kTLS nothing can be sent any more but what the kernel sends: a whole answer, or none.
    try:
        r = c.response()
    except TlsError as e:
        assert "decrypt" not in str(e) and "mac" not in str(e)
    except ConnectionError:
        pass
    else:
        assert r.complete and r.body == BODY


def test_many_new_keys(node, connect):
    """They cost little and end somewhere: the node still serves, however many come."""
    c = connect(version="1.3")
    try:
        for _ in range(200):
            c.update_keys(False)
    except ConnectionError:
        pass
    assert ask(connect()).body == BODY


# --- ends


@pytest.mark.parametrize("version", VERSIONS)
def test_the_node_gives_notice(node, certs, version):
    with node.connect_tls(certs.root, version=version) as c:
        r = ask(c, headers={"Connection": "close"})
        assert r.body == BODY and c.until_closed() == b""


@pytest.mark.parametrize("version", VERSIONS)
def test_a_notice_within_an_answer(connect, version):
    """Like a half-closed connection: who has said that he'll send no more still gets his answer."""
    c = connect(version=version, receive_buffer=8192)
    c.request(target="/a")
    c.head()
    c.half_close()
    assert c.receive(len(BODY)) == BODY


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_cut_without_notice_is_not_whole(origin, node, connect, version):
    """A body whose end is the stream's, or the last chunk's, never reaches the origin as a whole one."""
    seen = []

    @origin.route("/upload", early=True)
    def _(x):
        seen.append(x.request)
        x.read_body()  # ends with PeerGone
        seen.append("whole")
    for framing in ("Content-Length: 100", "Transfer-Encoding: chunked"):
        c = connect(version=version)
        c.send(f"POST /upload HTTP/1.1\r\nHost: a.test\r\n{framing}\r\n\r\n" + ("5\r\nhello\r\n" if "chunked" in framing else "hello"))
        wait_until(lambda: len(seen), "the request's beginning", timeout=20)
        c.fin()
        origin.wait_idle(timeout=20)
        assert "whole" not in seen
        seen.clear()


@pytest.mark.parametrize("version", VERSIONS)
def test_a_client_that_vanishes(node, connect, version):
    """Within a request, within an answer, between two: the node lets go of it."""
    for cut in ("request", "answer", "between"):
        c = connect(version=version, receive_buffer=8192)
        if cut == "request":
            c.send("GET /a HTTP/1.1\r\nHo")
        elif cut == "answer":
            c.request(target="/a")
            c.head()
        else:
            ask(c)
        c.reset() if cut == "answer" else c.close()
    wait_until(lambda: sum(v for k, v in node.metrics().items() if k.startswith("brim_worker_connections{")) == 0,
               "the connections' end", timeout=30)
    assert ask(connect()).body == BODY


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("framing", ["length", "chunked", "close"])
def test_an_answer_that_is_cut_never_looks_whole(origin, node, certs, version, framing):
    """The origin breaks off: no framing and no notice says «whole» to the client, whatever it speaks."""
    @origin.route("/broken")
    def _(x):
        x.head(200, FRESH | ({"Content-Length": "200000"} if framing == "length" else
                             {"Transfer-Encoding": "chunked"} if framing == "chunked" else {"Connection": "close"}))
        x.chunk(BODY[:100_000]) if framing == "chunked" else x.send(BODY[:100_000])
        x.reset()
    for http in ("HTTP/1.1", "HTTP/1.0"):
        with node.connect_tls(certs.root, version=version) as c:
            c.request(target="/broken", version=http)
            try:
                r = c.response()
            except ConnectionError:
                continue
            assert r.status >= 500 or not r.complete, f"{http}: {r}"


# --- slow readers


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("target", ["/a", "/miss", "/pass"])
def test_a_slow_reader(origin, node, certs, version, target):
    """Small pieces of all sizes, through a small window: by sendfile, behind a fill, by splice."""
    origin.page("/miss", BODY, FRESH)
    origin.page("/pass", BODY, {"Cache-Control": "no-store"})
    sizes = random.Random(3)
    with node.connect_tls(certs.root, version=version, receive_buffer=4096, timeout=30) as c:
        c.request(target=target)
        r, got = c.head(), bytearray()
        while len(got) < len(BODY):
            got += c.receive(min(sizes.choice([1, 100, 5000, 16384, 40000]), len(BODY) - len(got)))
        assert r.status == 200 and got == BODY
        assert ask(c).body == BODY


def test_slow_readers_beside_a_fast_one(node, certs):
    slow = [node.connect_tls(certs.root, receive_buffer=4096, timeout=30) for _ in range(8)]
    for c in slow:
        c.request(target="/a")
        assert c.head().status == 200
    with TlsConnection(node.tls_address, certs.root) as fast:
        for _ in range(3):
            assert ask(fast).body == BODY
    for c in itertools.islice(slow, 4):
        assert c.receive(len(BODY)) == BODY
    for c in slow:
        c.close()
