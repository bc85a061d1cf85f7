"""What is stored, for whom, for how long, and what it looks like when it comes back."""
import pytest

from brimtest import Gate, pattern, wait_until
from brimtest.look import until_hit

FRESH = {"Cache-Control": "max-age=60"}

STORED = {
    "max-age": ({"Cache-Control": "max-age=60"}, 200),
    "s-maxage": ({"Cache-Control": "s-maxage=60, max-age=0"}, 200),
    "Expires": ({"Expires": 60}, 200),
    "heuristic": ({"Last-Modified": -100_000}, 200),
    "404 with max-age": ({"Cache-Control": "max-age=60"}, 404),
    "301 with max-age": ({"Cache-Control": "max-age=60", "Location": "/b"}, 301),
}
PASSED = {
    "nothing": ({}, 200),
    "no-store": ({"Cache-Control": "no-store, max-age=60"}, 200),
    "private": ({"Cache-Control": "private, max-age=60"}, 200),
    "Set-Cookie": ({"Cache-Control": "max-age=60", "Set-Cookie": "a=1"}, 200),
    "Vary: *": ({"Cache-Control": "max-age=60", "Vary": "*"}, 200),
    "500": ({}, 500),
    "206": ({"Cache-Control": "max-age=60", "Content-Range": "bytes 0-4/10"}, 206),
}


def dated(origin, headers):
    return {k: origin.date(v) if isinstance(v, int) else v for k, v in headers.items()}


@pytest.mark.parametrize("name", STORED)
def test_stored(origin, node, name):
    headers, status = STORED[name]
    origin.page("/a", b"hello", dated(origin, headers), status)
    first, second = node.get("/a"), node.get("/a")
    assert first.cache == "fwd=uri-miss; stored"
    assert second.hit and (second.status, second.body) == (status, b"hello")
    assert second.get("Date") == first.get("Date")


@pytest.mark.parametrize("name", PASSED)
def test_passed(origin, node, name):
    headers, status = PASSED[name]
    origin.page("/a", b"hello", headers, status)
    for n in (1, 2):
        r = node.get("/a")
        assert (r.status, r.body, r.hit) == (status, b"hello", False)
        assert origin.count("/a") == n
        assert "stored" not in r.cache


def test_brim_decides_only_for_requests_without_credentials(origin, make_node):
    node = make_node(origin, site={"cache": {"default_ttl": "60s", "statuses": {"404": "10s", "5xx": "1s"}}})
    origin.page("/a", b"hello")
    for name in ("Cookie", "Authorization"):
        assert not node.get("/a", {name: "x=1"}).hit
        assert not node.get("/a", {name: "x=1"}).hit
    assert "stored" in node.get("/a").cache
    assert node.get("/a").hit
    origin.page("/n", b"gone", status=404)
    node.get("/n")
    assert node.get("/n").hit
    origin.page("/c", b"hello", {"Set-Cookie": "a=1"})
    node.get("/c")
    assert not node.get("/c").hit


def test_authorization_needs_leave(origin, node):
    origin.page("/a", b"hello", FRESH)
    origin.page("/p", b"hello", {"Cache-Control": "public, max-age=60"})
    for _ in range(2):
        assert not node.get("/a", {"Authorization": "x"}).hit
    node.get("/p", {"Authorization": "x"})
    assert node.get("/p").hit


@pytest.mark.parametrize("mode", ["strip", "store"])
def test_set_cookie_by_choice(origin, make_node, mode):
    node = make_node(origin, site={"cache": {"set_cookie": mode}})
    origin.page("/a", b"hello", {**FRESH, "Set-Cookie": "a=1"})
    node.get("/a")
    r = node.get("/a")
    assert r.hit and r.get("Set-Cookie") == ("a=1" if mode == "store" else None)


def test_age_and_ttl_follow_the_clock(origin, node, clock):
    origin.page("/a", b"hello", {"Cache-Control": "max-age=60", "Age": "10"})
    assert node.get("/a").get("Age") == "10"
    clock.advance(20)
    r = node.get("/a")
    assert r.hit and r.get("Age") in ("30", "31") and r.cache in ("hit; ttl=30", "hit; ttl=29")
    clock.advance(40)
    assert not node.get("/a").hit


def test_stale_is_revalidated_with_both_validators(origin, node, clock):
    modified = origin.date(-1000)

    @origin.route("/a")
    def a(x):
        head = {"Cache-Control": "max-age=60", "ETag": '"v1"', "Last-Modified": modified, "X-Count": str(origin.count("/a"))}
        if x.request.get("If-None-Match") == '"v1"':
            x.reply(status=304, headers=head)
        else:
            x.reply(b"hello", head)

    assert node.get("/a").get("X-Count") == "1"
    clock.advance(61)
    r = node.get("/a")
    assert (r.status, r.body, r.cache) == (200, b"hello", "fwd=stale; fwd-status=304")
    assert r.get("Age") is None and r.get("X-Count") == "2"
    seen = origin.last("/a")
    assert (seen.get("If-None-Match"), seen.get("If-Modified-Since")) == ('"v1"', modified)
    r = node.get("/a")
    assert r.hit and r.get("X-Count") == "2" and r.body == b"hello"
    assert origin.count("/a") == 2


@pytest.mark.parametrize("size", [10, 100_000, 3_000_000])
def test_a_revalidated_body_survives_a_restart(origin, node, clock, size):
    body = pattern(size)

    @origin.route("/a")
    def a(x):
        head = {"Cache-Control": "max-age=60", "ETag": '"v1"'}
        if x.request.get("If-None-Match"):
            x.reply(status=304, headers=head)
        else:
            x.reply(body, head)

    node.get("/a")
    clock.advance(61)
    assert node.get("/a").body == body
    assert node.get("/a").hit
    node.restart()
    r = node.get("/a")
    assert r.hit and r.body == body


def test_changed_objects_replace_the_stale_one(origin, node, clock):
    origin.page("/a", b"one", {**FRESH, "ETag": '"1"'})
    node.get("/a")
    clock.advance(61)
    origin.page("/a", b"two", {**FRESH, "ETag": '"2"'})
    r = node.get("/a")
    assert r.body == b"two" and r.cache == "fwd=stale; stored"
    assert node.get("/a").body == b"two" and node.get("/a").hit


def test_no_cache_is_validated_each_time(origin, node):
    @origin.route("/a")
    def a(x):
        if x.request.get("If-None-Match"):
            x.reply(status=304, headers={"Cache-Control": "no-cache", "ETag": '"1"'})
        else:
            x.reply(b"hello", {"Cache-Control": "no-cache", "ETag": '"1"'})

    for n in (1, 2, 3):
        assert node.get("/a").body == b"hello"
        assert origin.count("/a") == n
    assert origin.last("/a").get("If-None-Match") == '"1"'


def test_a_clients_conditions_are_answered_from_the_cache(origin, node):
    modified = origin.date(-1000)
    origin.page("/a", b"hello", {**FRESH, "ETag": '"v1"', "Last-Modified": modified})
    r = node.get("/a", {"If-None-Match": '"v1"'})  # a miss: fetched whole, answered as asked
    assert (r.status, r.body) == (304, b"")
    assert origin.last("/a").get("If-None-Match") is None
    until_hit(node, "/a")  # the body comes after the 304
    for condition in ({"If-None-Match": 'W/"v1"'}, {"If-None-Match": "*"}, {"If-None-Match": '"x", "v1"'},
                      {"If-Modified-Since": modified}, {"If-Modified-Since": origin.date()}):
        r = node.get("/a", condition)
        assert r.status == 304 and r.body == b"" and r.get("ETag") == '"v1"', condition
        assert r.get("Content-Length") is None
    for condition in ({"If-None-Match": '"v2"'}, {"If-None-Match": '"v2"', "If-Modified-Since": origin.date()},
                      {"If-Modified-Since": origin.date(-2000)}, {"If-Modified-Since": "yesterday"}):
        assert node.get("/a", condition).status == 200, condition
    assert origin.count("/a") == 1


def test_vary_selects(origin, node):
    @origin.route("/a")
    def a(x):
        x.reply((x.request.get("X-Kind") or "none").encode(), {**FRESH, "Vary": "X-Kind"})

    for kind in ("red", "blue", None):
        headers = {"X-Kind": kind} if kind else {}
        first, second = node.get("/a", headers), node.get("/a", headers)
        assert first.body == second.body == (kind or "none").encode()
        assert not first.hit and second.hit
        assert first.cache == ("fwd=uri-miss; stored" if kind == "red" else "fwd=vary-miss; stored")
    assert origin.count("/a") == 3
    assert node.get("/a", {"X-Kind": "red"}).body == b"red"
    node.restart()
    assert node.get("/a", {"X-Kind": "blue"}).hit


def test_stale_while_revalidate_and_stale_if_error(origin, node, clock):
    origin.page("/w", b"one", {"Cache-Control": "max-age=60, stale-while-revalidate=60"})
    origin.page("/e", b"one", {"Cache-Control": "max-age=60, stale-if-error=60"})
    node.get("/w"), node.get("/e")
    clock.advance(70)
    origin.page("/w", b"two", {"Cache-Control": "max-age=60, stale-while-revalidate=60"})
    r = node.get("/w")
    assert r.body == b"one" and r.cache in ("hit; ttl=-10", "hit; ttl=-11")
    origin.wait_for(2, "/w")
    for _ in range(100):
        r = node.get("/w")
        if r.body == b"two":
            break
    assert r.body == b"two" and origin.count("/w") == 2
    origin.page("/e", b"error", status=500)
    assert node.get("/e").body == b"one"
    origin.stop()
    assert node.get("/e").body == b"one"
    clock.advance(120)
    assert node.get("/e").status in (502, 503)


def test_one_fetch_for_a_crowd(origin, node):
    gate = Gate()

    @origin.route("/a")
    def slow(x):
        gate.wait()
        x.reply(b"hello", FRESH)

    clients = [node.connect() for _ in range(50)]
    for c in clients:
        c.request("GET", "/a")
    origin.wait_for(1, "/a")
    gate.open()
    answers = [c.response() for c in clients]
    for c in clients:
        c.close()
    assert all(r.body == b"hello" and r.complete for r in answers)
    assert origin.count("/a") == 1
    assert sum("collapsed" in r.cache for r in answers) >= 1


def test_a_crowd_for_what_may_not_be_stored_is_not_serialised(origin, node):
    gate = Gate()

    @origin.route("/a")
    def slow(x):
        if origin.count("/a") > 1:
            gate.wait()
        x.reply(b"hello", {"Cache-Control": "no-store"})

    node.get("/a")
    clients = [node.connect() for _ in range(20)]
    for c in clients:
        c.request("GET", "/a")
    origin.wait_for(21, "/a")
    gate.open()
    for c in clients:
        assert c.response().body == b"hello"
        c.close()


def test_only_if_cached(origin, node):
    origin.page("/a", b"hello", FRESH)
    assert node.get("/a", {"Cache-Control": "only-if-cached"}).status == 504
    assert origin.count() == 0
    node.get("/a")
    assert node.get("/a", {"Cache-Control": "only-if-cached"}).hit


def test_rules(origin, make_node):
    node = make_node(origin, site={"rules": [
        {"match": {"path": "/static/*"}, "cache": {"ttl": "60s"}},
        {"match": {"cookie": "session*"}, "cache": {"bypass": True}},
        {"match": {"method": "HEAD"}, "cache": {"bypass": True}},
    ]})
    origin.page("/static/a", b"hello")
    origin.page("/b", b"hello", FRESH)
    node.get("/static/a")
    assert node.get("/static/a").hit
    assert node.get("/static/a", {"Cookie": "session_id=1"}).cache.startswith("fwd=bypass")
    node.get("/b")
    assert node.get("/b").hit
    assert node.request("HEAD", "/b").cache.startswith("fwd=bypass")
    origin.page("/static/%2e%2e%2fb", b"odd")
    node.get("/static/..%2fb")
    assert not node.get("/static/..%2fb").hit


def test_one_resource_by_many_spellings(origin, node):
    origin.page("/a/b", b"hello", FRESH)
    origin.page("/a~b", b"tilde", FRESH)
    node.get("/a/b")
    for spelling in ("/a/./b", "/a/c/../b", "/%61/b"):
        assert node.get(spelling).hit, spelling
    assert node.get("/a/b", host="A.TEST").hit
    node.get("/a~b")
    assert node.get("/a%7Eb").hit
    assert not node.get("/a%2Fb").hit
    assert not node.get("/a/b?").hit
    assert not node.get("/A/b").hit


def test_answers_name_their_way(origin, node):
    origin.page("/a", b"hello", {**FRESH, "Via": "1.0 old", "Cache-Status": "up; hit", "Connection": "x-hop",
                                 "X-Hop": "1", "Surrogate-Key": "a b", "Cache-Tag": "c", "xkey": "d"})
    for r in (node.get("/a"), node.get("/a")):
        assert r.get("Via") == "1.0 old, 1.1 brim"
        assert r.get("Cache-Status").startswith("up; hit, brim; ")
        for name in ("X-Hop", "Surrogate-Key", "Cache-Tag", "xkey"):
            assert r.get(name) is None


def test_two_nodes_in_a_row(origin, chain, clock):
    edge, shield = chain
    origin.page("/a", b"hello", {"Cache-Control": "max-age=60", "Surrogate-Key": "k"})
    r = edge.get("/a")
    assert r.get("Cache-Status") == "shield; fwd=uri-miss; stored, edge; fwd=uri-miss; stored"
    assert r.get("Via") == "1.1 shield, 1.1 edge"
    assert origin.last("/a").get("Via") == "1.1 edge, 1.1 shield"
    assert origin.last("/a").get("CDN-Loop") == "edge, shield"
    assert origin.last("/a").get("X-Forwarded-For") == "127.0.0.1, 127.0.0.1"
    clock.advance(10)
    edge.purge("/a")
    r = edge.get("/a")
    assert int(r.get("Age")) in (10, 11)
    assert r.get("Cache-Status").startswith("shield; hit; ttl=")
    assert origin.count("/a") == 1
    clock.advance(51)
    assert not edge.get("/a").hit
    assert origin.count("/a") == 2


@pytest.mark.parametrize("validator", [{}, {"ETag": '"1"'}])
def test_what_only_caches_downstream_see(origin, make_node, clock, validator):
    """Tags and Surrogate-Control: on a miss, a hit, and after a validation alike; and never for clients."""
    fields = {"Surrogate-Key": "k", "Surrogate-Control": "max-age=60", **validator}

    @origin.route("/a")
    def a(x):
        if x.request.get("If-None-Match"):
            x.reply(status=304, headers=validator)
        else:
            x.reply(b"hello" * 100, {"Cache-Control": "max-age=5", **fields})

    site = {"cache": {"targeted": ["Surrogate-Control"]}}
    for downstream in (["127.0.0.1"], []):
        node = make_node(origin, site=site, conf={"downstream": downstream})

        def seen(headers=None):
            r = node.get("/a", headers)
            assert r.body == b"hello" * 100 or headers
            told = {"Surrogate-Key": "k", "Surrogate-Control": "max-age=60"} if downstream else {}
            assert {k: v for k in ("Surrogate-Key", "Surrogate-Control") if (v := r.get(k))} == told
            return r

        assert "stored" in seen().cache
        for _ in range(2):
            wait_until(lambda: seen().committed, "a hit")
            clock.advance(50)
            assert seen().hit  # by Surrogate-Control
            assert seen({"Range": "bytes=0-1,300-301"}).get("Content-Type").startswith("multipart/byteranges")
            clock.advance(20)
            assert seen().cache.startswith("fwd=stale")


def test_purge_on_the_traffic_side(origin, make_node):
    node = make_node(origin, site={"purge_from": ["127.0.0.1/32"]})
    origin.page("/a", b"hello", FRESH)
    node.get("/a"), node.get("/a?x")
    assert node.request("PURGE", "/a").status == 200
    assert not node.get("/a").hit and node.get("/a?x").hit
    assert node.request("PURGE", "/a", {"Soft-Purge": "1"}).status == 200
    assert node.get("/a").cache.startswith("fwd=stale")


def test_purge_needs_leave(origin, make_node):
    closed = make_node(origin, site={"purge_from": None})
    assert closed.request("PURGE", "/a").status == 405
    other = make_node(origin, site={"purge_from": ["10.0.0.0/8"]})
    assert other.request("PURGE", "/a").status == 403
    proxied = make_node(origin, site={"purge_from": ["127.0.0.1/32"]}, conf={"trusted_proxies": ["127.0.0.0/8"]})
    assert proxied.request("PURGE", "/a", {"X-Forwarded-For": "9.9.9.9"}).status == 403


def test_a_purge_names_every_key_that_rules_give_the_url(origin, make_node):
    node = make_node(origin, site={"purge_from": ["127.0.0.1/32"], "rules": [
        {"match": {"cookie": "plain"}, "cache": {"key": {"query": "none"}}}]})
    origin.page("/a", b"hello", FRESH)
    with_cookie = {"Cookie": "plain=1"}
    for headers in ({}, with_cookie):
        node.get("/a?x", headers)
        assert node.get("/a?x", headers).hit
    assert node.request("PURGE", "/a?x").status == 200
    assert not node.get("/a?x").hit
    assert not node.get("/a?x", with_cookie).hit


@pytest.mark.parametrize("answer", ["304", "same", "changed"])
def test_head_updates_a_stale_get_or_leaves_it(origin, node, clock, answer):
    origin.page("/a", b"hello", {**FRESH, "ETag": '"1"', "X-Count": "1"})
    node.get("/a")
    clock.advance(61)

    @origin.route("/a")
    def head(x):
        fresh = {**FRESH, "ETag": '"2"' if answer == "changed" else '"1"', "X-Count": "2", "Content-Length": "5"}
        x.reply(b"hello", fresh, 304 if answer == "304" else 200)

    r = node.request("HEAD", "/a")
    assert (r.status, r.get("X-Count"), r.get("Content-Length")) == (200, "2", "5")
    assert origin.last("/a").method == "HEAD"
    r = node.get("/a")
    assert r.hit == (answer != "changed") and r.get("X-Count") == "2" and r.body == b"hello"


@pytest.mark.parametrize("on_failure", ["share", "retry"])
def test_a_crowd_behind_a_fetch_that_fails(origin, make_node, on_failure):
    node = make_node(origin, site={"cache": {"collapse": {"wait": "10s", "on_failure": on_failure}}})
    gate = Gate()

    @origin.route("/a")
    def fails(x):
        if origin.count("/a") == 1:
            gate.wait()
            x.send(b"nonsense\r\n\r\n")
            x.close()
        else:
            x.reply(b"hello", FRESH)

    clients = [node.connect() for _ in range(10)]
    clients[0].request("GET", "/a")
    origin.wait_for(1, "/a")
    for c in clients[1:]:
        c.request("GET", "/a")
    node.get("/none")  # the others' requests were there before this one
    gate.open()
    statuses = [c.response().status for c in clients]
    for c in clients:
        c.close()
    assert statuses[0] == 502
    if on_failure == "share":
        assert origin.count("/a") <= 2 and 503 in statuses[1:]
    else:
        assert set(statuses[1:]) == {200} and origin.count("/a") >= 2
    assert node.get("/a").body == b"hello"


def test_a_url_has_a_limit_of_variants(origin, make_node):
    node = make_node(origin, site={"cache": {"max_variants": 3}})

    @origin.route("/a")
    def a(x):
        x.reply(x.request.get("User-Agent").encode(), {**FRESH, "Vary": "User-Agent"})

    for n in range(6):
        until_hit(node, "/a", f"agent {n}".encode(), headers={"User-Agent": f"agent {n}"})
    assert node.status()["stores"][0]["evicted_variants"] == 3
    assert [node.get("/a", {"User-Agent": f"agent {n}"}).hit for n in (5, 4, 3)] == [True] * 3
    assert origin.count("/a") == 6
    node.restart()
    assert [node.get("/a", {"User-Agent": f"agent {n}"}).hit for n in (5, 4, 3)] == [True] * 3
    assert not node.get("/a", {"User-Agent": "agent 0"}).hit
