"""No-Vary-Search: one stored answer for queries that it doesn't depend on."""
import pytest

from brimtest.look import until_hit

FRESH = {"Cache-Control": "max-age=60"}
RULE = {"No-Vary-Search": 'key-order, params=("utm" "ref")'}


def page(origin, headers, target="/a"):
    """Says which query it was made for."""
    @origin.route(target)
    def answer(x):
        x.reply(x.request.target.encode(), {**FRESH, **headers})


def test_queries_that_do_not_matter_are_one(origin, node):
    page(origin, RULE)
    until_hit(node, "/a?x=1&y=2&utm=7")
    for target in ("/a?x=1&y=2", "/a?y=2&x=1", "/a?utm=9&x=1&y=2&ref=", "/a?x=%31&y=2", "/a?&x=1&&y=2"):
        r = node.get(target)
        assert r.hit and r.body == b"/a?x=1&y=2&utm=7", target
    assert origin.count() == 1
    for target in ("/a?x=2&y=2", "/a?x=1", "/a", "/a?x=1&y=2&z=3", "/b?x=1&y=2"):
        assert not node.get(target).hit, target


def test_all_but_some(origin, node):
    page(origin, {"No-Vary-Search": 'params, except=("id")'})
    until_hit(node, "/a?id=1&x=5")
    assert node.get("/a?id=1").hit and node.get("/a?q&id=1").hit
    assert not node.get("/a?id=2").hit and not node.get("/a").hit


@pytest.mark.parametrize("value", [None, "key-order=?0", "params=?0", "params=(a)", "params=(", 'except=("a")', "x" * 300])
def test_what_says_nothing_changes_nothing(origin, node, value):
    page(origin, {"No-Vary-Search": value} if value else {})
    until_hit(node, "/a?x=1&utm=7")
    assert not node.get("/a?x=1").hit and not node.get("/a?utm=7&x=1").hit


def test_not_where_the_site_does_not_want_it(origin, make_node):
    node = make_node(origin, site={"cache": {"no_vary_search": False}})
    page(origin, RULE)
    until_hit(node, "/a?x=1&utm=7")
    assert not node.get("/a?x=1").hit


def test_the_objects_own_rule_counts(origin, node):
    """A newer answer of the path says less: what it was stored for is found, the older one's relatives aren't by the new rule."""
    page(origin, RULE)
    until_hit(node, "/a?x=1&utm=7")
    page(origin, {"No-Vary-Search": "key-order"})
    until_hit(node, "/a?x=2&y=1")
    assert node.get("/a?y=1&x=2").hit
    assert not node.get("/a?x=2&y=1&utm=1").hit
    assert node.get("/a?x=1&utm=7").hit


def test_variants(origin, node):
    @origin.route("/a")
    def a(x):
        x.reply(x.request.get("Kind").encode(), {**FRESH, **RULE, "Vary": "Kind"})

    for kind in ("k", "l"):
        until_hit(node, "/a?utm=1", headers={"Kind": kind})
        r = node.get("/a?utm=2", {"Kind": kind})
        assert r.hit and r.body == kind.encode()
    assert not node.get("/a?utm=2", {"Kind": "m"}).hit


def test_stale_ones_are_not_used(origin, node, clock):
    page(origin, {**RULE, "Cache-Control": "max-age=60, stale-while-revalidate=600", "ETag": '"1"'})
    until_hit(node, "/a?utm=1")
    clock.advance(70)
    r = node.get("/a?utm=2")
    assert not r.hit and r.body == b"/a?utm=2" and origin.last().get("If-None-Match") is None
    until_hit(node, "/a?utm=2")
    r = node.get("/a?utm=3")
    assert r.hit and r.body == b"/a?utm=2"


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("purged", ["/a?utm=1", "/a?utm=2", "/a", "prefix of the stored", "prefix of the asked"])
def test_a_purge_of_either_url(origin, node, soft, purged):
    page(origin, RULE)
    until_hit(node, "/a?utm=1")
    assert node.get("/a?utm=2").hit
    if purged.startswith("prefix"):
        prefix = "a.test/a?utm=" + ("1" if "stored" in purged else "2")
        assert node.admin("POST", "/v1/purge", {"prefixes": [prefix], "soft": soft}).status == 200
    else:
        node.purge(purged, soft=soft)
    r = node.get("/a?utm=2")
    assert r.hit == (purged == "/a")  # that one is a URL of its own, which nobody asked for
    assert r.hit or r.body == b"/a?utm=2"


def test_an_unsafe_method_invalidates_what_another_url_served(origin, node):
    page(origin, RULE)
    until_hit(node, "/a?utm=1")
    assert node.get("/a?utm=2").hit
    assert node.request("POST", "/a?utm=2", body=b"x").status == 200
    assert not node.get("/a?utm=2").hit


def test_another_host_is_another_matter(origin, node):
    page(origin, RULE)
    until_hit(node, "/a?utm=1")
    assert not node.get("/a?utm=2", host="x.a.test").hit
    assert node.get("/a?utm=3").hit


def test_ranges_of_another_querys_object(origin, node):
    page(origin, RULE)
    until_hit(node, "/a?utm=1")
    r = node.get("/a?utm=2", {"Range": "bytes=1-2"})
    assert (r.status, r.hit, r.body) == (206, True, b"a?")
