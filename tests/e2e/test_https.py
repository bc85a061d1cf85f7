"""What a site says of https:// to its clients: https_redirect and hsts."""
import pytest

from brimtest import FRESH, TlsConnection
from brimtest.curl import Transfer, curl

STRICT = "Strict-Transport-Security"


@pytest.fixture
def pair(certs):
    return certs.issue(["a.test", "*.a.test"])


def test_plain_requests_are_redirected(origin, make_node, pair, certs):
    origin.page("/a", b"secret\n", FRESH)
    origin.page("/.well-known/acme-challenge/x", b"token\n", FRESH)
    node = make_node(origin, tls=pair, site={"https_redirect": True, "purge_from": ["127.0.0.1"]})

    for method in ("GET", "HEAD", "POST"):
        r = node.request(method, "/a/%7eb//c?d=%20e", {"Host": f"A.test:{node.port}"}, body=b"x" if method == "POST" else None)
        assert (r.status, r.get("Location"), r.complete) == (308, "https://a.test/a/~b//c?d=%20e", True)
        assert r.get("Cache-Status") is None
    assert node.get("//evil.test/a").get("Location") == "https://a.test//evil.test/a"
    assert not origin.requests

    with TlsConnection(node.tls_address, certs.root) as c:
        c.request(target="/a")
        assert c.response().body == b"secret\n"
    assert node.get("/a").status == 308, "a stored answer is no way around it"
    assert node.get("/.well-known/acme-challenge/x").body == b"token\n"
    assert node.get("/.well-known/acme-challenge/../../a").status == 308
    assert node.request("PURGE", "/a").status == 200


def test_a_trusted_proxy_has_spoken_tls_already(origin, make_node, pair):
    origin.page("/a", b"a\n", FRESH)
    site = {"https_redirect": True, "hsts": {"max_age": "1d"}}
    node = make_node(origin, site=site)
    assert node.get("/a", {"X-Forwarded-Proto": "https"}).status == 308
    node.reload({"trusted_proxies": ["127.0.0.1"]})
    r = node.get("/a", {"X-Forwarded-Proto": "https"})
    assert r.status == 200 and r.get(STRICT) is None
    assert node.get("/a", {"X-Forwarded-Proto": "http"}).status == 308


@pytest.mark.parametrize("http", ["1.1", "2"])
def test_hsts_is_on_answers_over_tls(origin, make_node, certs, pair, http):
    origin.page("/a", b"a\n", FRESH)
    origin.page("/own", b"a\n", {**FRESH, "strict-transport-security": "max-age=1", "X-Other": "stays"})
    origin.page("/pass", b"a\n", {"Cache-Control": "no-store", STRICT: "max-age=1"})
    hsts = {"max_age": "365d", "include_subdomains": True, "preload": True}
    node = make_node(origin, tls=pair, site={"hsts": hsts})
    value = "max-age=31536000; includeSubDomains; preload"

    def get(*transfers):
        return curl(node.tls_address, certs.root, [Transfer(t, http=http) if isinstance(t, str) else t for t in transfers])

    answers = get("/a", "/a", "/own", "/own", "/pass", "/none", Transfer("/c", http=http, headers=["Cache-Control: only-if-cached"]))
    assert [r.status for r in answers] == [200, 200, 200, 200, 200, 404, 504]
    for r in answers:
        assert r.all(STRICT) == [value], r
    assert answers[3].hit and answers[3].get("X-Other") == "stays"

    assert node.get("/a").get(STRICT) is None, "it went out without TLS"
    assert node.get("/own").get(STRICT) == "max-age=1", "what is stored was changed"

    node.reload(site={"hsts": {"max_age": "0s", "include_subdomains": False, "preload": False}})
    assert get("/a")[0].get(STRICT) == "max-age=0"
    node.reload(site={"hsts": None})
    assert [r.get(STRICT) for r in get("/a", "/own")] == [None, "max-age=1"]
