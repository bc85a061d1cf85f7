"""What may happen to a TLS stream on its way: new keys, ends without a notice, slow readers. The same with kTLS (tests/vm) and
without; where the kernel can't do what a peer asks for (new keys for what we send), the connection may end after the answer,
but nothing wrong is ever read."""
import itertools
import random
import subprocess

import pytest

from brimtest import FRAMINGS, FRESH, Feed, Gate, TlsConnection, feed, pattern, wait_until
from brimtest.look import until_hit
from brimtest.openssl import OpenSslConnection, TlsError
from brimtest.wait import PATIENCE

pytestmark = pytest.mark.ktls

BODY = pattern(300_000, seed=7)
VERSIONS = ["1.2", "1.3"]


@pytest.fixture
def node(tls_node):
    """/a is stored."""
    tls_node.origin.page("/a", BODY, FRESH)
    until_hit(tls_node, "/a", BODY)
    return tls_node


@pytest.fixture
def origin(node):
    return node.origin


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


def whole_or_nothing(c):
    """A whole answer, or a connection that was closed before it; no record that can't be read."""
    try:
        r = c.response()
    except TlsError as e:
        assert "decrypt" not in str(e) and "mac" not in str(e), e
    except ConnectionError:
        pass
    else:
        assert r.complete and r.body == BODY


def ask_again(c):
    """On a connection that may have been closed in order."""
    try:
        c.request(target="/a")
    except ConnectionError:
        return
    whole_or_nothing(c)


# --- new keys


def test_new_keys_before_a_request(connect):
    for both in (False, True):
        c = connect(version="1.3")
        assert ask(c).body == BODY
        c.update_keys(both)
        if not both:  # nothing changes for what the node sends
            assert ask(c).body == BODY and ask(c).body == BODY
        else:
            ask_again(c)


@pytest.mark.parametrize("target", ["/a", "/pass"])
def test_new_keys_within_an_answer(origin, connect, target):
    for both in (False, True):
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


def test_new_keys_within_a_request(origin, connect):
    @origin.route("/echo")
    def _(x):
        x.reply(x.request.body, {"Cache-Control": "no-store"})
    for both in (False, True):
        c = connect(version="1.3")
        c.send(f"POST /echo HTTP/1.1\r\nHost: a.test\r\nContent-Length: {len(BODY)}\r\n\r\n")
        c.send(BODY[:100_000])
        c.update_keys(both)
        c.send(BODY[100_000:])
        if both:
            whole_or_nothing(c)
        else:
            r = c.response()
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


def test_the_node_gives_notice(node, certs):
    for version in VERSIONS:
        with node.connect_tls(certs.root, version=version) as c:
            r = ask(c, headers={"Connection": "close"})
            assert r.body == BODY and c.until_closed() == b""


def test_a_notice_within_an_answer(connect):
    """Like a half-closed connection: who has said that he'll send no more still gets his answer."""
    for version in VERSIONS:
        c = connect(version=version, receive_buffer=8192)
        c.request(target="/a")
        c.head()
        c.half_close()
        assert c.receive(len(BODY)) == BODY


def test_a_request_cut_without_notice_is_not_whole(origin, node, connect):
    """A body whose end is the stream's, or the last chunk's, never reaches the origin as a whole one."""
    seen = []

    @origin.route("/upload", early=True)
    def _(x):
        seen.append(x.request)
        x.read_body()  # ends with PeerGone
        seen.append("whole")
    for framing, version in itertools.product(("Content-Length: 100", "Transfer-Encoding: chunked"), VERSIONS):
        c = connect(version=version)
        c.send(f"POST /upload HTTP/1.1\r\nHost: a.test\r\n{framing}\r\n\r\n" + ("5\r\nhello\r\n" if "chunked" in framing else "hello"))
        wait_until(lambda: len(seen), "the request's beginning", timeout=20)
        c.fin()
        origin.wait_idle(timeout=20)
        assert "whole" not in seen
        seen.clear()


def test_a_client_that_vanishes(node, connect):
    """Within a request, within an answer, between two: the node lets go of it."""
    for cut, version in itertools.product(("request", "answer", "between"), VERSIONS):
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


def test_an_answer_that_is_cut_never_looks_whole(origin, node, certs):
    """The origin breaks off: no framing and no notice says «whole» to the client, whatever it speaks."""
    def cuts(x):
        f = Feed(x, 200_000, x.request.target[1:])
        f.send(BODY[:100_000])
        x.reset()
    for framing in FRAMINGS:
        origin.route(f"/{framing}")(cuts)
    for framing, version, http in itertools.product(FRAMINGS, VERSIONS, ("HTTP/1.1", "HTTP/1.0")):
        with node.connect_tls(certs.root, version=version) as c:
            c.request(target=f"/{framing}", version=http)
            try:
                r = c.response()
            except ConnectionError:
                continue
            assert r.status >= 500 or not r.complete, f"{framing} {http}: {r}"


# --- slow readers


@pytest.mark.parametrize("target", ["/a", "/miss", "/pass"])
def test_a_slow_reader(origin, node, certs, target):
    """Small pieces of all sizes, through a small window: by sendfile, behind a fill, by splice."""
    origin.page("/miss", BODY, FRESH)
    origin.page("/pass", BODY, {"Cache-Control": "no-store"})
    sizes = random.Random(3)
    for version in VERSIONS:
        with node.connect_tls(certs.root, version=version, receive_buffer=8192, timeout=30) as c:
            c.request(target=target)
            r, got = c.head(), bytearray()
            while len(got) < len(BODY):
                got += c.receive(min(sizes.choice([1, 100, 5000, 16384, 40000]), len(BODY) - len(got)))
            assert r.status == 200 and got == BODY
            assert ask(c).body == BODY
        node.purge("/miss")


def test_slow_readers_beside_a_fast_one(node, certs):
    slow = [node.connect_tls(certs.root, receive_buffer=8192, timeout=30) for _ in range(4)]
    for c in slow:
        c.request(target="/a")
        assert c.head().status == 200
    with TlsConnection(node.tls_address, certs.root) as fast:
        for _ in range(3):
            assert ask(fast).body == BODY
    assert slow[0].receive(len(BODY)) == BODY
    for c in slow:
        c.close()


@pytest.mark.parametrize("version", ["tls1_2", "tls1_3"])
def test_a_client_of_small_records(node, version):
    """What has no memory for 16 KiB says so (RFC 6066 §4), and refuses longer ones."""
    node.origin.page("/small", BODY, {"Cache-Control": "no-store"})
    for target in ("/a", "/small"):
        done = subprocess.run(["openssl", "s_client", "-connect", node.tls_address, "-servername", "a.test", f"-{version}", "-quiet",
                               "-maxfraglen", "512"], capture_output=True, timeout=60 * PATIENCE,
                              input=f"GET {target} HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n".encode())
        assert done.stdout.endswith(BODY), (target, len(done.stdout), done.stderr[-500:])
