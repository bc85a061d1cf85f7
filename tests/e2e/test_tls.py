"""TLS towards clients."""
import ssl

import pytest

from brimtest import FRESH, pattern
from brimtest.certs import Certs
from brimtest.client import Connection


@pytest.fixture(scope="module")
def certs():
    return Certs()


def context(certs, **kw):
    c = ssl.create_default_context(cafile=certs.root)
    for k, v in kw.items():
        setattr(c, k, v)
    return c


class TlsConnection(Connection):
    def __init__(self, address, certs, name="a.test", **kw):
        super().__init__(address)
        self.sock = context(certs, **kw).wrap_socket(self.sock, server_hostname=name)


def tls_node(make_node, origin, site, **kw):
    node = make_node(origin, start=False, site=site, **kw)
    node.conf["listeners"] = [{"address": f"127.0.0.1:{node.port}", "tls": True}]
    return node.start()


def test_hit(certs, origin, make_node):
    origin.page("/a", b"hello", FRESH)
    pair = certs.issue(["a.test", "*.a.test"])
    node = tls_node(make_node, origin, {"tls": pair.conf}, workers=1)
    with TlsConnection(node.address, certs) as c:
        for i in range(3):
            c.request("GET", "/a")
            r = c.response()
            assert r.status == 200 and r.body == b"hello", r
    assert r.hit
