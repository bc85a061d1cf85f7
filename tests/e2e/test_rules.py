"""Rules beyond lifetimes: whom they match, what they change of requests and answers, and what they answer themselves."""
import pytest

FRESH = {"Cache-Control": "max-age=60"}


def site(*rules, **cache):
    return {"cache": cache, "rules": list(rules)}


def test_matches_on_the_request(origin, make_node):
    node = make_node(origin, site=site(
        {"match": {"host": "b.*"}, "response_headers": {"set": {"X-Rule": "host"}}},
        {"match": {"query": ["utm*"]}, "response_headers": {"set": {"X-Rule": "query"}}},
        {"match": {"header": ["X-Beta"]}, "response_headers": {"set": {"X-Rule": "header"}}},
        {"match": {"client": ["127.0.0.0/8"], "path": "/client"}, "response_headers": {"set": {"X-Rule": "client"}}},
        {"match": {"path": "/not/*", "not": {"method": "HEAD"}}, "response_headers": {"set": {"X-Rule": "not"}}}))
    for target in ("/a", "/client", "/not/a"):
        origin.page(target, b"hello", FRESH)
    for _ in range(2):  # the same of what is fetched and of what is stored
        assert node.get("/a").get("X-Rule") is None
        assert node.get("/a", host="b.a.test").get("X-Rule") == "host"
        assert node.get("/a?utm_source=x").get("X-Rule") == "query"
        assert node.get("/a", {"X-Beta": "1"}).get("X-Rule") == "header"
        assert node.get("/client").get("X-Rule") == "client"
        assert node.get("/not/a").get("X-Rule") == "not"
        assert node.request("HEAD", "/not/a").get("X-Rule") is None


def test_matches_on_the_answer(origin, make_node):
    node = make_node(origin, site=site(
        {"match": {"status": ["404", "5xx"]}, "response_headers": {"set": {"X-Rule": "status"}}},
        {"match": {"content_type": ["image/*"]}, "cache": {"ttl": "1h"}, "response_headers": {"add": {"X-Rule": "image"}}},
        {"match": {"content_type": ["text/x"]}, "cache": {"bypass": True}}))
    origin.page("/gone", b"gone", FRESH, 404)
    origin.page("/broken", b"broken", {}, 503)
    origin.page("/image", b"image", {"Content-Type": "image/png"})
    origin.page("/never", b"text", {**FRESH, "Content-Type": "text/x; charset=utf-8"})
    for _ in range(2):
        assert node.get("/gone").get("X-Rule") == "status"
        assert node.get("/broken").get("X-Rule") == "status"
        assert node.get("/image").get("X-Rule") == "image"
        assert node.get("/never").get("X-Rule") is None
    assert node.get("/image").hit and node.get("/gone").hit
    assert not node.get("/never").hit


def test_edits_of_answers_are_made_at_delivery(origin, make_node):
    edits = {"response_headers": {"set": {"X-Frame-Options": "deny", "Server": "edge"}, "add": {"Link": "</a>"},
                                  "remove": ["X-Powered-By"]}}
    node = make_node(origin, site=site({"match": {"path": "/*"}, **edits}))
    origin.page("/a", b"hello", {**FRESH, "X-Powered-By": "php", "Server": "apache", "Link": "</b>"})
    for _ in range(2):
        r = node.get("/a")
        assert r.get("X-Frame-Options") == "deny" and r.get("Server") == "edge" and r.get("X-Powered-By") is None
        assert r.all("Link") == ["</b>", "</a>"]
    node.reload({"sites": [{**node.conf["sites"][0], "rules": []}]})
    r = node.get("/a")
    assert r.hit and r.get("X-Powered-By") == "php" and r.get("Server") == "apache"


def test_edits_of_requests(origin, make_node):
    node = make_node(origin, site=site({"match": {"path": "/*"}, "request_headers": {
        "set": {"X-Api-Key": "secret"}, "add": {"X-Tag": "brim"}, "remove": ["X-Debug"]}}))
    origin.page("/a", b"hello", FRESH)
    node.get("/a", {"X-Api-Key": "guess", "X-Debug": "1", "X-Tag": "client"})
    seen = origin.last("/a")
    assert seen.get("X-Api-Key") == "secret" and seen.get("X-Debug") is None
    assert seen.all("X-Tag") == ["client", "brim"]


def test_respond_and_redirect(origin, make_node):
    node = make_node(origin, site=site(
        {"match": {"path": "/robots.txt"}, "respond": {"status": 200, "headers": {"X-Own": "1"}, "body": "Disallow: /\n"}},
        {"match": {"path": "/blocked/*"}, "respond": {"status": 403, "body": "no"}},
        {"match": {"path": "/old/*"}, "redirect": {"location": "https://new.test${path}${query}", "status": 308}}))
    r = node.get("/robots.txt")
    assert (r.status, r.body, r.get("X-Own")) == (200, b"Disallow: /\n", "1") and r.get("Date")
    assert node.request("HEAD", "/robots.txt").get("Content-Length") == "12"
    assert node.get("/blocked/x").status == 403
    r = node.get("/old/a?b=c")
    assert (r.status, r.get("Location")) == (308, "https://new.test/old/a?b=c")
    assert origin.count() == 0


def test_client_ttl(origin, make_node, clock):
    node = make_node(origin, site=site(client_ttl="30s"))
    origin.page("/a", b"hello", {"Cache-Control": "max-age=3600, s-maxage=7200", "Expires": origin.date(3600), "Age": "5"})
    origin.page("/private", b"hello", {"Cache-Control": "no-store"})
    for n in range(2):
        r = node.get("/a")
        assert r.hit == (n == 1)
        assert r.get("Cache-Control") == "max-age=30" and r.get("Expires") is None and r.get("Age") is None
        clock.advance(60)
    assert node.get("/private").get("Cache-Control") == "no-store"


def test_query_filters(origin, make_node):
    node = make_node(origin, site=site(key={"query": {"except": ["utm_*"], "sort": True}}))
    for query in ("?a=1&b=2", "?a=1", ""):
        origin.page("/a" + query, query.encode(), FRESH)
    assert node.get("/a?a=1&b=2").body == b"?a=1&b=2"
    assert node.get("/a?utm_source=x&b=2&a=1").hit
    assert node.get("/a?b=2&a=1&utm_campaign=y").hit
    assert not node.get("/a?a=1").hit and not node.get("/a").hit
    assert node.get("/a?utm_source=z").hit
    node.purge("/a?b=2&a=1&utm_x=1")
    assert not node.get("/a?a=1&b=2").hit


def test_what_could_poison_goes_no_further(origin, make_node):
    node = make_node(origin)
    names = ("X-Original-URL", "X-Rewrite-URL", "X-HTTP-Method-Override", "X-Forwarded-Prefix", "X-Forwarded-Server")
    origin.page("/a", b"hello", FRESH)
    node.get("/a", {name: "/admin" for name in names})
    assert [name for name in names if origin.last("/a").get(name)] == []
    listed = make_node(origin, site=site(pass_headers=["X-Original-URL"]))
    listed.get("/a", {"X-Original-URL": "/x"})
    assert origin.last("/a").get("X-Original-URL") == "/x"


def test_accept_encoding_is_reduced_to_what_matters(origin, node):
    @origin.route("/a")
    def a(x):
        x.reply((x.request.get("Accept-Encoding") or "none").encode(), {**FRESH, "Vary": "Accept-Encoding"})

    first = node.get("/a", {"Accept-Encoding": "gzip, deflate, br;q=0.5"})
    assert "deflate" not in first.body.decode() and "gzip" in first.body.decode()
    assert node.get("/a", {"Accept-Encoding": "br, gzip"}).hit
    assert node.get("/a", {"Accept-Encoding": "br;q=1.0,   GZIP;q=0.8"}).hit
    assert not node.get("/a", {"Accept-Encoding": "gzip"}).hit
    assert not node.get("/a").hit


@pytest.mark.parametrize("directive", ["private", "no-cache"])
def test_listed_fields_are_for_their_own_client(origin, node, directive):
    origin.page("/a", b"hello", {"Cache-Control": f'max-age=60, {directive}="x-user, X-Other"', "X-User": "eve", "X-Else": "1"})
    first, second = node.get("/a"), node.get("/a")
    assert first.get("X-User") == "eve" and first.cache.endswith("stored")
    assert second.hit and second.get("X-User") is None and second.get("X-Else") == "1"


def test_targeted_fields(origin, make_node):
    node = make_node(origin, site=site(targeted=["Brim-Cache-Control", "CDN-Cache-Control"]))
    origin.page("/1", b"x", {"Cache-Control": "no-store", "CDN-Cache-Control": "max-age=60"})
    origin.page("/2", b"x", {"Cache-Control": "max-age=60", "Brim-Cache-Control": "no-store", "CDN-Cache-Control": "max-age=60"})
    origin.page("/3", b"x", {"Cache-Control": "max-age=60", "CDN-Cache-Control": "max-age=;"})
    for target, hit in (("/1", True), ("/2", False), ("/3", True)):
        node.get(target)
        r = node.get(target)
        assert r.hit == hit, target
        assert r.get("CDN-Cache-Control") or target == "/none"


def test_cache_status_may_name_the_key(origin, make_node):
    node = make_node(origin, site=site(key={"show": True}))
    origin.page('/a?"', b"hello", FRESH)
    assert node.get('/a?"').get("Cache-Status") == 'brim; fwd=uri-miss; stored; key="a.test/a?\\""'


def test_deception(origin, make_node):
    node = make_node(origin, site=site(default_ttl="60s"))
    page = {"Content-Type": "text/html"}
    origin.page("/account/x.css", b"secret", page)
    origin.page("/real.css", b"css", {"Content-Type": "text/css"})
    origin.page("/said.css", b"page", {**page, **FRESH})
    for target, hit in (("/account/x.css", False), ("/real.css", True), ("/said.css", True)):
        node.get(target)
        assert node.get(target).hit == hit, target


def test_an_age_on_a_304_counts(origin, node, clock):
    @origin.route("/a")
    def a(x):
        x.reply(b"hello", {**FRESH, "ETag": '"1"', "Age": "50"}, 304 if x.request.get("If-None-Match") else 200)

    node.get("/a")
    clock.advance(20)
    assert node.get("/a").cache.startswith("fwd=stale")
    assert node.get("/a").hit
    clock.advance(11)
    assert not node.get("/a").hit
