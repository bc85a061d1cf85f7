"""TLS in the kernel: that it is used, and for what. These need a kernel that has it: they are run by «make vm» alone
(conftest.py leaves them out elsewhere); that nothing else depends on it is what all other tests marked ktls show."""
import os

import pytest

from brimtest import TlsConnection, pattern
from brimtest.nginx import Nginx
from brimtest.tls import kernel_counts

pytestmark = pytest.mark.ktls


def test_the_kernel_does_tls(certs):
    """The control: a server that isn't ours. When this fails, look at the machine first."""
    body = pattern(200_000)
    nginx = Nginx(tls=certs.issue("a.test"))
    try:
        with open(os.path.join(nginx.tree, "a"), "wb") as f:
            f.write(body)
        nginx.start()
        before = kernel_counts()
        with TlsConnection(f"127.0.0.1:{nginx.port}", certs.root) as c:
            c.request(target="/a")
            assert c.response().body == body
        assert kernel_counts()["TlsTxSw"] == before["TlsTxSw"] + 1
    finally:
        nginx.stop()
