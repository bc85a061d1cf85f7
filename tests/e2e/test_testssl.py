"""testssl.sh, which looks for what is known to be weak: protocols, ciphers, keys, vulnerabilities. (sslscan: test_clients.py.)"""
import json
import subprocess

import pytest

from brimtest import FRESH
from brimtest.wait import PATIENCE

# What it says of our own authority's certificates, and of itself.
OURS = {"cert_revocation", "engine_problem"}


@pytest.mark.long
@pytest.mark.limit(400)
@pytest.mark.parametrize("kind", ["ec", "rsa"])
def test_it_finds_nothing(origin, make_node, certs, tmp_path, kind):
    node = make_node(origin, tls=certs.issue("a.test", kind=kind), site={"tls": {"default": True}, "hsts": {"max_age": "365d"}})
    origin.page("/", b"hello", FRESH)
    found = tmp_path / "found.json"
    told = subprocess.run(["testssl", "--quiet", "--color", "0", "--warnings", "off", "--nodns", "none", "--ip", "127.0.0.1", "--add-ca",
                           certs.root, "--jsonfile", str(found), "-p", "-s", "-P", "-f", "-S", "-U", "-h", f"a.test:{node.tls_port}"],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=180 * PATIENCE).stdout
    findings = json.loads(found.read_text())
    assert {"TLS1_2", "TLS1_3", "heartbleed", "ROBOT", "LUCKY13", "HSTS_time"} <= {f["id"] for f in findings}, told
    bad = [f for f in findings if f["severity"] not in ("OK", "INFO") and f["id"] not in OURS]
    assert not bad, told
