"""Purges: what each names, on the admin API and on the traffic side, and that an answered purge is final."""
import os
import signal
import threading

import pytest

from brimtest import FRESH, Gate, wait_until
from brimtest.look import store, until_hit

HERE = ["127.0.0.1/32"]


def pages(origin, *targets, **fields):
    for t in targets:
        origin.page(t, t.encode(), {**FRESH, **fields})


def warm(node, *targets, **kw):
    for t in targets:
        until_hit(node, t, **kw)


def hits(node, targets, **kw):
    """Which are still served; looks without fetching."""
    return {t for t in targets if node.get(t, {"Cache-Control": "only-if-cached"}, **kw).hit}


def purge(node, status=200, **body):
    r = node.admin("POST", "/v1/purge", body)
    assert r.status == status, r
    return r.json()


# --- prefixes

TREE = ["/a", "/a/", "/a/b", "/a/b/c?d=e", "/ab", "/b", "/b?x=1", "/b?x=12"]


@pytest.mark.parametrize("prefix, left", [
    ("http://a.test/a/", {"/a", "/ab", "/b", "/b?x=1", "/b?x=12"}),
    ("a.test/a/*", {"/a", "/ab", "/b", "/b?x=1", "/b?x=12"}),
    ("https://a.test/a", {"/b", "/b?x=1", "/b?x=12"}),
    ("A.test/%61/./b/", set(TREE) - {"/a/b/c?d=e"}),
    ("a.test/b?x=1", set(TREE) - {"/b?x=1", "/b?x=12"}),
    ("a.test", set()),
    ("a.test:81/", set(TREE)),
])
def test_a_prefix_names_what_begins_with_it(origin, node, prefix, left):
    pages(origin, *TREE)
    warm(node, *TREE)
    answer = purge(node, prefixes=[prefix])
    assert answer["purge"] > 0 and answer["items"] == 1
    assert hits(node, TREE) == left


def test_a_prefix_is_of_its_host(origin, make_node):
    node = make_node(origin, site={"hosts": ["*.test"]})
    pages(origin, "/a/1")
    for host in ("x.test", "y.test"):
        warm(node, "/a/1", host=host)
    purge(node, prefixes=["x.test/a/"])
    assert not hits(node, ["/a/1"], host="x.test") and hits(node, ["/a/1"], host="y.test")


def test_keys_without_host_are_purged_under_any_of_them(origin, make_node):
    node = make_node(origin, site={"hosts": ["*.test"], "cache": {"key": {"host": False}}})
    pages(origin, "/a/1")
    for body in ({"prefixes": ["y.test/a/"]}, {"hosts": ["y.test"]}, {"urls": ["y.test/a/1"]}):
        warm(node, "/a/1", host="x.test")
        assert hits(node, ["/a/1"], host="y.test")
        purge(node, **body)
        assert not hits(node, ["/a/1"], host="x.test") and not hits(node, ["/a/1"], host="y.test")


def test_a_prefix_with_a_query_where_keys_filter_it(origin, make_node):
    """/b?x=1 is served by what was fetched as /b?utm=2: no part of that URL's query tells."""
    node = make_node(origin, site={"cache": {"key": {"query": {"except": ["utm"]}}}})
    pages(origin, "/b?utm=2&x=1")
    warm(node, "/b?utm=2&x=1")
    assert hits(node, ["/b?x=1"])
    purge(node, prefixes=["a.test/b?x="])
    assert not hits(node, ["/b?x=1", "/b?utm=2&x=1"])


# --- tags

def test_tags_of_every_field_and_separator(origin, node):
    pages(origin, "/1", **{"Surrogate-Key": "red  green,blue"})
    pages(origin, "/2", **{"Cache-Tag": "blue, black"})
    pages(origin, "/3", **{"xkey": "red"})
    pages(origin, "/4")
    everything = ["/1", "/2", "/3", "/4"]
    warm(node, *everything)
    assert node.get("/1").get("Surrogate-Key") is None
    purge(node, tags=["yellow", "re"], site="a")
    assert hits(node, everything) == set(everything)
    purge(node, tags=["black", "green"], site="a")
    assert hits(node, everything) == {"/3", "/4"}
    warm(node, "/1", "/2")
    purge(node, tags=["blue"])
    assert hits(node, everything) == {"/3", "/4"}


def test_sites_do_not_share_tags(origin, make_node):
    node = make_node(origin)
    node.conf["sites"].append({"name": "b", "hosts": ["b.test"], "origin": "o"})
    node.reload()
    pages(origin, "/1", **{"Surrogate-Key": "news"})

    def left():
        return [bool(hits(node, ["/1"], host=h)) for h in ("a.test", "b.test")]

    for body, expected in (({"site": "b"}, [True, False]), ({"site": "a"}, [False, True]), ({}, [False, False])):
        for host in ("a.test", "b.test"):
            warm(node, "/1", host=host)
        purge(node, tags=["news"], **body)
        assert left() == expected, body


def test_a_validated_object_keeps_its_tags_or_takes_new_ones(origin, node, clock):
    tags = {"Surrogate-Key": "old"}

    @origin.route("/a")
    def a(x):
        fields = {"Cache-Control": "max-age=60", "ETag": '"1"', **tags}
        if x.request.get("If-None-Match"):
            x.reply(status=304, headers=fields)
        else:
            x.reply(b"hello", fields)

    warm(node, "/a")
    tags.clear()
    clock.advance(61)
    assert node.get("/a").cache.startswith("fwd=stale; fwd-status=304")
    warm(node, "/a")
    purge(node, tags=["old"])
    assert not hits(node, ["/a"])
    tags["Surrogate-Key"] = "older"
    warm(node, "/a")
    tags["Surrogate-Key"] = "new"
    clock.advance(61)
    assert node.get("/a").cache.startswith("fwd=stale; fwd-status=304")
    warm(node, "/a")
    purge(node, tags=["older"])
    assert hits(node, ["/a"])
    purge(node, tags=["new"])
    assert not hits(node, ["/a"])


@pytest.mark.parametrize("tags, stored", [
    (" ".join(f"t{i}" for i in range(1000)), True),
    (" ".join(f"t{i}" for i in range(1001)), False),
    ("x" * (16 << 10), True),
    ("x" * (16 << 10) + " y", False),
], ids=["1000", "1001", "16 KiB", "more"])
def test_more_tags_than_can_be_kept_are_not_stored(origin, make_node, tags, stored):
    node = make_node(origin, conf={"limits": {"header_bytes": "64KiB"}})
    origin.page("/a", b"hello", {**FRESH, "Surrogate-Key": tags})
    if stored:
        warm(node, "/a")
        purge(node, tags=[tags.split()[-1]])
        assert not hits(node, ["/a"])
        return
    assert node.get("/a").status == 200
    assert not node.get("/a").hit
    assert node.wait_log("tags_not_stored")["site"] == "a"
    assert node.metrics()['brim_untaggable_responses_total{site="a"}'] >= 1


def test_cache_groups_are_not_tags(origin, node):
    pages(origin, "/a", **{"Cache-Groups": '"news"'})
    warm(node, "/a")
    purge(node, tags=["news"])
    assert hits(node, ["/a"])


# --- one call

def test_several_kinds_in_one_call(origin, node):
    pages(origin, "/1", "/2/x", "/4")
    pages(origin, "/3", **{"xkey": "red"})
    everything = ["/1", "/2/x", "/3", "/4"]
    warm(node, *everything)
    answer = purge(node, urls=["http://a.test/1"], prefixes=["a.test/2/"], tags=["red"])
    assert answer["items"] == 3
    assert hits(node, everything) == {"/4"}
    again = purge(node, urls=["http://a.test/1"], prefixes=["a.test/2/"], tags=["red"])
    assert again["purge"] > answer["purge"] and hits(node, everything) == {"/4"}


def test_ten_thousand_items_while_others_are_answered(origin, node):
    pages(origin, "/a", "/b", **{"xkey": "t9999"})
    warm(node, "/a", "/b")
    done = []
    big = threading.Thread(target=lambda: done.append(purge(node, tags=[f"t{i}" for i in range(10000)])))
    big.start()
    while big.is_alive():
        assert node.admin("GET", "/healthz").status == 200
    big.join()
    assert done[0]["items"] == 10000 and not hits(node, ["/a", "/b"])
    assert purge(node, 400, urls=["a.test/a"], tags=["t"] * 10000)["error"]["pointer"] == "/tags/9999"


def test_a_dry_run_counts_and_purges_nothing(origin, node):
    for i in range(5):
        origin.page(f"/t/{i}", b"x" * 1000, {**FRESH, "xkey": "even" if i % 2 == 0 else "odd"})
        warm(node, f"/t/{i}")
    everything = [f"/t/{i}" for i in range(5)]
    r = purge(node, tags=["even"], dry_run=True)
    assert r["dry_run"] is True and r["objects"] == 3 and 3000 < r["bytes"] < 6000 and "purge" not in r
    assert purge(node, prefixes=["a.test/t/"], urls=["a.test/t/1"], dry_run=True)["objects"] == 5
    assert purge(node, all=True, dry_run=True)["objects"] == 5
    assert purge(node, hosts=["a.test"], dry_run=True)["objects"] == 5
    assert purge(node, sites=["a"], dry_run=True)["objects"] == 5
    assert purge(node, urls=["a.test/t/1"], dry_run=True)["objects"] == 1
    assert purge(node, tags=["none"], dry_run=True)["objects"] == 0
    assert hits(node, everything) == set(everything)
    purge(node, tags=["odd"])
    assert purge(node, all=True, dry_run=True)["objects"] == 3


# --- space

def chunks(node):
    return [name for _, _, names in os.walk(os.path.join(node.store, "chunks")) for name in names]


def test_what_was_purged_gives_its_space_back(origin, node):
    size = 3_000_000
    for i in range(4):
        origin.page(f"/{i}", b"x" * size, {**FRESH, "xkey": "big"})
        warm(node, f"/{i}")
    pages(origin, "/small")
    warm(node, "/small")
    assert len(chunks(node)) == 4 * -(-size // (1 << 20))
    number = purge(node, tags=["big"])["purge"]

    def reclaimed():
        r = node.admin("GET", f"/v1/purge/{number}")
        assert r.status == 200, r
        return r.json()

    wait_until(lambda: reclaimed()["complete"], "all of it to be reclaimed")
    r = reclaimed()
    assert r["objects"] == 4 and 4 * size <= r["bytes"] < 4 * size + 100_000 and r["soft"] is False
    wait_until(lambda: not chunks(node), "the files to be gone")
    assert store(node)["objects"] == 1 and hits(node, ["/small"])
    metrics = node.metrics()
    assert metrics['brim_store_reclaimed_objects_total{store="s"}'] == 4
    assert metrics['brim_store_reclaimed_bytes_total{store="s"}'] == r["bytes"]
    soft = purge(node, all=True, soft=True)["purge"]
    assert node.admin("GET", f"/v1/purge/{soft}").json() == {"purge": soft, "soft": True, "objects": 0, "bytes": 0, "complete": True}
    for other in ("0", "999999", "x", "-1"):
        assert node.admin("GET", f"/v1/purge/{other}").status == 404


def test_variants_that_stay_are_found(origin, node):
    """Purged by its tag, the newest variant goes; the Vary rule that it brought is still needed."""
    @origin.route("/a")
    def a(x):
        language = x.request.get("X-Kind")
        x.reply(language.encode(), {**FRESH, "Vary": "X-Kind", "xkey": language})

    for kind in ("one", "two"):
        until_hit(node, "/a", headers={"X-Kind": kind})
    number = purge(node, tags=["two"])["purge"]
    wait_until(lambda: node.admin("GET", f"/v1/purge/{number}").json()["complete"], "it to be reclaimed")
    assert node.get("/a", {"X-Kind": "one"}).hit
    assert not node.get("/a", {"X-Kind": "two"}).hit


# --- the traffic side

def test_purge_of_a_prefix_and_of_tags(origin, make_node):
    node = make_node(origin, site={"purge_from": HERE})
    pages(origin, "/a/1", "/a/2?x=1", "/b")
    pages(origin, "/c", "/d", **{"Surrogate-Key": "red"})
    everything = ["/a/1", "/a/2?x=1", "/b", "/c", "/d"]
    warm(node, *everything)
    r = node.request("PURGE", "/a/*")
    assert r.status == 200 and r.json()["purge"] > 0
    assert hits(node, everything) == {"/b", "/c", "/d"}
    assert node.request("PURGE", "/b", {"Surrogate-Key": "blue, red"}).status == 200
    assert hits(node, everything) == {"/b"}
    assert node.request("PURGE", "/b", {"Cache-Tag": " , "}).status == 400
    assert node.request("PURGE", "/b", {"xkey": " ".join(f"t{i}" for i in range(100))}).status == 200
    assert hits(node, everything) == {"/b"}
    assert node.request("PURGE", "/*").status == 200
    assert not hits(node, everything)


@pytest.mark.parametrize("field", ["Soft-Purge", "Fastly-Soft-Purge"])
def test_soft_forms(origin, make_node, field):
    node = make_node(origin, site={"purge_from": HERE})
    pages(origin, "/a/1", **{"Surrogate-Key": "red", "ETag": '"1"', "Cache-Control": "max-age=600, stale-while-revalidate=60"})
    for target, headers in (("/a/1", {}), ("/a/*", {}), ("/", {"Surrogate-Key": "red"})):
        warm(node, "/a/1")
        n = origin.count("/a/1")
        assert node.request("PURGE", target, {field: "1", **headers}).status == 200
        r = node.get("/a/1")
        assert "; hit; ttl=-" in r.get("Cache-Status"), r  # stale at once, and revalidated behind
        origin.wait_for(n + 1, "/a/1")
        assert origin.last("/a/1").get("If-None-Match") == '"1"'


def test_soft_purged_serves_where_the_origin_fails(origin, node):
    @origin.route("/a")
    def a(x):
        if origin.count("/a") > 1:
            x.reply(b"broken", status=503)
        else:
            x.reply(b"hello", {"Cache-Control": "max-age=600, stale-if-error=60", "xkey": "t"})

    warm(node, "/a")
    purge(node, tags=["t"], soft=True)
    assert node.get("/a").body == b"hello"
    purge(node, tags=["t"])
    assert node.get("/a").status == 503


# --- an answered purge is final

SCOPES = {"url": {"urls": ["a.test/a"]}, "prefix": {"prefixes": ["a.test/"]}, "tag": {"tags": ["t"], "site": "a"}, "tag anywhere": {"tags": ["t"]},
          "host": {"hosts": ["a.test"]}, "site": {"sites": ["a"]}, "all": {"all": True}}
by_scope = pytest.mark.parametrize("body", SCOPES.values(), ids=SCOPES)


class Versions:
    """A page whose first answer waits for a gate with its head or its body; later ones are newer."""

    def __init__(self, origin, early_head):
        self.origin, self.gate = origin, Gate()

        @origin.route("/a")
        def a(x):
            n = origin.count("/a")
            fields = {"Cache-Control": "max-age=600", "ETag": f'"{n}"', "xkey": "t", "Content-Length": "1"}
            if n == 1 and not early_head:
                self.gate.wait()
            x.head(200, fields)
            if n == 1 and early_head:
                self.gate.wait()
            x.send(b"%d" % n)


@by_scope
@pytest.mark.parametrize("early_head", [True, False], ids=["body to come", "head to come"])
def test_a_fill_that_began_before(origin, node, body, early_head):
    """Neither what it stores nor the claim that it holds serves who comes after the answer."""
    v = Versions(origin, early_head)
    with node.connect() as c:
        c.request("GET", "/a")
        origin.wait_for(1, "/a")
        purge(node, **body)
        late = []
        asks = threading.Thread(target=lambda: late.append(node.get("/a").body))
        asks.start()
        if "tags" not in body:  # whose tags it has nobody knows yet: its fetch is waited for
            origin.wait_for(2, "/a")
        v.gate.open()
        assert c.response().body == b"1"
        asks.join()
    assert late[0] != b"1"
    assert until_hit(node, "/a").body != b"1"


@by_scope
def test_a_revalidation_that_began_before(origin, node, clock, body):
    gate = Gate()

    @origin.route("/a")
    def a(x):
        n = origin.count("/a")
        fields = {"Cache-Control": "max-age=60", "ETag": f'"{n}"', "xkey": "t"}
        if x.request.get("If-None-Match") == '"1"':
            gate.wait()
            x.reply(status=304, headers={**fields, "ETag": '"1"'})
        else:
            x.reply(b"%d" % n, fields)

    assert until_hit(node, "/a").body == b"1"
    clock.advance(70)
    with node.connect() as c:
        c.request("GET", "/a")
        origin.wait_for(2, "/a")
        purge(node, **body)
        gate.open()
        assert c.response().body != b"1"
    assert until_hit(node, "/a").body != b"1"


def test_a_soft_purge_during_a_revalidation_is_not_undone_by_it(origin, node, clock):
    gate = Gate()

    @origin.route("/a")
    def a(x):
        if x.request.get("If-None-Match") and origin.count("/a") == 2:
            gate.wait()
        if x.request.get("If-None-Match"):
            x.reply(status=304, headers={"Cache-Control": "max-age=60", "ETag": '"1"'})
        else:
            x.reply(b"1", {"Cache-Control": "max-age=60", "ETag": '"1"'})

    until_hit(node, "/a")
    clock.advance(70)
    with node.connect() as c:
        c.request("GET", "/a")
        origin.wait_for(2, "/a")
        purge(node, urls=["a.test/a"], soft=True)
        gate.open()
        assert c.response().body == b"1"
    node.get("/a")
    origin.wait_for(3, "/a")


@by_scope
@pytest.mark.parametrize("role", ["keeper", "worker", "all"])
def test_kill_9_right_after_the_answer(origin, node, body, role):
    versions(origin)
    assert until_hit(node, "/a").body == b"1"
    purge(node, **body)
    if role == "all":
        node.kill_all()
        node.start()
    else:
        pid = node.kill(role)
        node.wait_replaced(role, pid)
    assert until_hit(node, "/a").body == b"2"


def versions(origin, target="/a"):
    @origin.route(target)
    def a(x):
        n = origin.count(target)
        x.reply(b"%d" % n, {"Cache-Control": "max-age=600", "xkey": "t"})


@by_scope
def test_an_index_that_is_deleted_revives_nothing(origin, node, body):
    versions(origin)
    assert until_hit(node, "/a").body == b"1"
    purge(node, **body)
    node.stop()
    for name in os.listdir(node.store):
        if name.startswith("index.mdb"):
            os.unlink(os.path.join(node.store, name))
    node.start()
    assert until_hit(node, "/a").body == b"2"


@by_scope
def test_a_reload_revives_nothing(origin, node, body):
    versions(origin)
    assert until_hit(node, "/a").body == b"1"
    purge(node, **body)
    node.reload(site={"cache": {"default_ttl": "7s"}})
    assert until_hit(node, "/a").body == b"2"


def test_a_purge_that_the_keeper_never_took_purges_nothing(origin, make_node):
    """It hangs; the order is withdrawn after two seconds, and is not done when it goes on."""
    node = make_node(origin, site={"purge_from": HERE})
    pages(origin, "/a")
    warm(node, "/a")
    keeper = node.pids("keeper")[0]
    os.kill(keeper, signal.SIGSTOP)
    try:
        r = node.request("PURGE", "/a")
    finally:
        os.kill(keeper, signal.SIGCONT)
    assert r.status == 503 and b"nothing was purged" in r.body, r
    wait_until(lambda: node.request("PURGE", "/b").status == 200, "the keeper to purge again")
    assert hits(node, ["/a"])


def without_utm():
    return {"query": {"except": ["utm"]}}


@pytest.mark.parametrize("key, other", [
    ({"scheme": False}, {"scheme": True}), ({"scheme": True}, {"scheme": False}),
    ({"host": False}, {"host": True}), ({"host": True}, {"host": False}),
    (without_utm(), {"query": "all"}), ({"query": "all"}, without_utm()),
], ids=str)
def test_a_url_is_purged_for_keys_of_other_times(origin, make_node, key, other):
    """Keys are made of something else for a while, and the purge comes then. What the path has beside it may go, too."""
    url = "/a?x=1&utm=2"
    pages(origin, url, "/a?x=2", "/b")
    node = make_node(origin, site={"cache": {"key": key}})
    warm(node, url, "/a?x=2", "/b")
    node.reload(site={"cache": {"key": other}})
    purge(node, urls=["http://a.test" + url])
    node.reload(site={"cache": {"key": key}})
    assert hits(node, [url, "/b"]) == {"/b"}
    node.kill_all()
    node.start()
    assert hits(node, [url, "/b"]) == {"/b"}


def test_a_url_with_another_query_stays(origin, node):
    """As long as keys are made of the same things: also after a reload of something else, and another start."""
    urls = ["/a?x=1", "/a?x=2", "/a"]
    pages(origin, *urls)
    warm(node, *urls)
    purge(node, urls=["a.test/a"])
    node.reload(site={"cache": {"default_ttl": "7s", "key": {"headers": ["X"]}},
                      "rules": [{"match": {"path": "/x"}, "cache": {"ttl": "1s"}}]})
    warm(node, *urls)
    purge(node, urls=["a.test/a?x=1"])
    assert hits(node, urls) == {"/a?x=2", "/a"}
    node.restart()
    purge(node, urls=["a.test/a?x=2"])
    assert hits(node, urls) == {"/a"}


@pytest.mark.parametrize("body", [SCOPES["url"], SCOPES["prefix"], SCOPES["tag"]], ids=["url", "prefix", "tag"])
def test_a_store_taken_out_and_back_revives_nothing(origin, make_node, body):
    """What was purged while it was away it learns from the other; and what was purged while the other was."""
    pages = [f"/{i}" for i in range(12)]  # some in each store

    @origin.route("*")
    def page(x):
        target = x.request.target
        x.reply(b"%d" % origin.count(target), {"Cache-Control": "max-age=600", "xkey": "t"})

    named = body if "urls" not in body else {"urls": ["a.test" + t for t in pages]}
    node = make_node(origin, start=False)
    other = {"name": "other", "path": os.path.join(node.directory, "sites.d"), "size": "256MiB"}
    both = [node.conf["stores"][0], other]

    def run_with(stores):
        node.conf["stores"] = stores
        node.write_conf()
        node.start()

    def versions():
        return [int(until_hit(node, t).body) for t in pages]

    run_with(both)
    assert versions() == [1] * 12
    used = [s["objects"] for s in node.status()["stores"]]
    assert min(used) > 0 and sum(used) == 12, "all in one store: the test shows nothing"
    node.stop()
    for alone in both:
        run_with([alone])
        before = versions()
        purge(node, **named)
        node.stop()
        run_with(both)
        assert all(now > then for now, then in zip(versions(), before))
        node.stop()
