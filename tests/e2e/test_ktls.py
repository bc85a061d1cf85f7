"""TLS in the kernel: that it is used, and that bodies then pass no memory of ours. These need a kernel that has it: they are run by
«make vm» alone (conftest.py leaves them out elsewhere). That nothing else depends on it is what all other tests marked ktls show."""
import os

import pytest

from brimtest import FRESH, TlsConnection, feed, pattern, wait_until
from brimtest.curl import Transfer, curl
from brimtest.look import until_hit
from brimtest.nginx import Nginx
from brimtest.openssl import OpenSslConnection
from brimtest.tls import kernel_counts
from brimtest.trace import Trace, Ways
from test_tls_matrix import SUITES

pytestmark = [pytest.mark.ktls, pytest.mark.strace]

KIB = 1 << 10
# What may come through memory: read together with a head, staged, or read with the lines between large chunks.
READ_ALONG = 66 * KIB
BODY = pattern(600 * KIB, seed=9)


@pytest.fixture
def node(tls_node):
    """/a is stored."""
    tls_node.origin.page("/warm", b"warm", {"Cache-Control": "no-store"})
    tls_node.origin.page("/a", BODY, FRESH)
    until_hit(tls_node, "/a", BODY)
    return tls_node


@pytest.fixture
def origin(node):
    return node.origin


def test_the_kernel_does_tls(certs):
    """The control: a server that isn't ours. When this fails, look at the machine first."""
    nginx = Nginx(tls=certs.issue("a.test"))
    try:
        with open(os.path.join(nginx.tree, "a"), "wb") as f:
            f.write(BODY)
        nginx.start()
        before = kernel_counts()
        with TlsConnection(f"127.0.0.1:{nginx.port}", certs.root) as c:
            c.request(target="/a")
            assert c.response().body == BODY
        assert kernel_counts()["TlsTxSw"] == before["TlsTxSw"] + 1
    finally:
        nginx.stop()


def test_every_connection_is_the_kernels(node):
    for version, name in SUITES.values():
        before, counted = kernel_counts(), in_kernel(node)
        for _ in range(3):
            c = OpenSslConnection(node.tls_address, version=version, suite=name)
            c.request(target="/a")
            assert c.response().body == BODY
            assert c.suite == name and c.version == f"TLSv{version}"
            c.close()
        after = kernel_counts()
        assert after["TlsTxSw"] == before["TlsTxSw"] + 3, name
        assert after["TlsRxSw"] - before["TlsRxSw"] in (0, 3), name
        assert in_kernel(node) == counted + 3, name
    wait_until(lambda: kernel_counts()["TlsCurrTxSw"] == before["TlsCurrTxSw"], "the kernel to let go of them")


def in_kernel(node):
    """Connections with kTLS, as the node counts them."""
    found = {k: v for k, v in node.metrics().items() if "tls_connections" in k}
    return sum(v for k, v in found.items() if 'by="kernel"' in k)


def traced(origin, node, tmp_path, version, target, times=1, body=BODY, hit=False):
    """The ways of so many requests on one connection that has been used before, so that the handshake isn't seen."""
    with node.connect_tls(version=version, timeout=60) as c:
        c.request(target="/warm")
        assert c.response().complete
        with Trace(node.pids("worker")[0], str(tmp_path)) as trace:
            for _ in range(times):
                c.request(target=target)
                r = c.response()
                assert r.complete and r.body == body and r.hit == hit, r
    return Ways(trace.calls, node, node.tls_port, origin.port)


@pytest.mark.parametrize("version", ["1.2", "1.3"])
def test_a_hit_leaves_by_sendfile(origin, node, tmp_path, version):
    ways = traced(origin, node, tmp_path, version, "/a", times=3, hit=True)
    assert ways.moved("sendfile", "client", "body") == 3 * len(BODY)
    assert ways.copied() <= 3 * 8 * KIB


@pytest.mark.parametrize("version", ["1.2", "1.3"])
def test_a_relay_is_spliced(origin, node, tmp_path, version):
    feed(origin, "/pass", BODY, headers={"Cache-Control": "no-store"})
    ways = traced(origin, node, tmp_path, version, "/pass")
    into, out = ways.moved("splice", "origin", "pipe"), ways.moved("splice", "pipe", "client")
    assert into == out and into >= len(BODY) - READ_ALONG, (into, out)
    assert ways.copied() <= 2 * READ_ALONG + 8 * KIB


def test_a_stored_miss_is_spliced_and_sent_from_its_file(origin, node, tmp_path):
    feed(origin, "/miss", BODY)
    ways = traced(origin, node, tmp_path, "1.3", "/miss")
    assert ways.moved("splice", "origin", "pipe") == ways.moved("splice", "pipe", "body") >= len(BODY) - READ_ALONG
    assert ways.moved("sendfile", "client", "body") >= len(BODY) - READ_ALONG
    assert ways.copied() <= 3 * READ_ALONG + 8 * KIB


def test_an_answer_over_http2_leaves_by_sendfile(origin, node, certs, tmp_path):
    with Trace(node.pids("worker")[0], str(tmp_path)) as trace:
        answers = curl(node.tls_address, certs.root, [Transfer("/a", http="2")] * 3, timeout=60)
    assert all(r.body == BODY and r.hit and r.http_version == "2" for r in answers)
    ways = Ways(trace.calls, node, node.tls_port, origin.port)
    assert ways.moved("sendfile", "client", "body") == 3 * len(BODY)
    assert ways.copied() <= READ_ALONG
