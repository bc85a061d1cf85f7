"""What the kernel decrypts from an origin (TLS 1.2 alone, so far) is spliced. For a kernel that has kTLS, as test_ktls.py."""
import pytest

from brimtest import feed, pattern
from brimtest.origin import server_context
from brimtest.tls import kernel_counts
from brimtest.trace import Trace, Ways

pytestmark = pytest.mark.ktls

KIB = 1 << 10
BODY = pattern(512 * KIB + 1)
READ_ALONG = 66 * KIB  # with the head, or what of a record is left when it ends between pieces


@pytest.fixture(scope="module")
def pair(certs):
    return certs.issue("127.0.0.1")


@pytest.fixture
def behind(certs, make_node):
    def behind(origin):
        return make_node(origin, workers=1, origin_conf={"tls": {"ca": certs.root}, "timeouts": {"connect": "60s"}})
    return behind


def traced(origin, node, tmp_path, target):
    with node.connect(timeout=60) as c, Trace(node.pids("worker")[0], str(tmp_path)) as trace:
        c.request("GET", target)
        r = c.response()
    assert r.complete and r.body == BODY
    return Ways(trace.calls, node, node.port, origin.port)


@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_what_the_kernel_decrypts_is_spliced(make_origin, behind, pair, tmp_path, framing):
    origin = make_origin(tls=server_context(pair, "1.2"))
    node, before = behind(origin), kernel_counts()
    feed(origin, "/pass", BODY, framing, {"Cache-Control": "no-store"})
    feed(origin, "/miss", BODY, framing)
    ways = traced(origin, node, tmp_path, "/pass")
    assert ways.moved("splice", "origin", "pipe") == ways.moved("splice", "pipe", "client") >= len(BODY) - READ_ALONG
    ways = traced(origin, node, tmp_path, "/miss")
    assert ways.moved("splice", "origin", "pipe") >= len(BODY) - READ_ALONG
    assert ways.moved("splice", "pipe", "body") >= len(BODY) - 2 * READ_ALONG  # the rest is staged, or in the first pieces
    after = kernel_counts()
    assert after["TlsRxSw"] - before["TlsRxSw"] == after["TlsTxSw"] - before["TlsTxSw"] == len(origin.handshakes)


@pytest.mark.parametrize("framing", ["length", "close"])
def test_a_cut_stream_is_no_whole_body(make_origin, behind, pair, framing):
    origin = make_origin(tls=server_context(pair, "1.2"))
    node = behind(origin)

    def cuts(x):
        fields = {"length": {"Content-Length": "2000000"}, "chunked": {"Transfer-Encoding": "chunked"}, "close": {}}[framing]
        x.head(200, fields | {"Cache-Control": "max-age=60"})
        x.chunk(BODY) if framing == "chunked" else x.send(BODY)
        x.cut()
    origin.route("/a")(cuts)
    r = node.get("/a")
    assert not r.complete and BODY.startswith(r.body)
    origin.page("/a", b"good")
    assert not node.get("/a").hit


def test_a_request_is_encrypted_by_the_kernel(make_origin, behind, pair):
    origin = make_origin(tls=server_context(pair, "1.3"))
    node, before = behind(origin), kernel_counts()
    origin.page("/a", b"thanks")
    assert node.request("POST", "/a", body=BODY).body == b"thanks"
    assert origin.last("/a").body == BODY
    assert kernel_counts()["TlsTxSw"] == before["TlsTxSw"] + 1
