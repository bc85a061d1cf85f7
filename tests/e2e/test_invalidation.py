"""An unsafe method's success makes what it changed unusable, before its own answer is out."""
import os

import pytest

from brimtest import Gate
from brimtest.look import until_hit

FRESH = {"Cache-Control": "max-age=3600"}


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "M-SEARCH"])
@pytest.mark.parametrize("status", [200, 204, 303])
def test_the_target_goes(origin, node, method, status):
    origin.page("/a", b"hello", FRESH)
    node.get("/a")
    origin.page("/a", b"", {}, status)
    assert node.request(method, "/a").status == status
    origin.page("/a", b"changed", FRESH)
    assert node.get("/a").body == b"changed"


@pytest.mark.parametrize("method,status", [("POST", 404), ("POST", 500), ("OPTIONS", 200), ("GET", 200)])
def test_what_does_not_invalidate(origin, node, method, status):
    origin.page("/a", b"hello", FRESH)
    node.get("/a")
    origin.page("/a", b"", {}, status)
    node.request(method, "/a")
    assert node.get("/a").hit


@pytest.mark.parametrize("name", ["Location", "Content-Location"])
def test_same_origin_references_go(origin, node, name):
    for spelling in ("/dir/b", "b", "http://a.test/dir/b", "../dir/./b"):
        origin.page("/dir/b", b"old", FRESH)
        node.get("/dir/b")
        origin.page("/dir/a", b"done", {name: spelling})
        node.request("POST", "/dir/a")
        origin.page("/dir/b", b"new", FRESH)
        assert node.get("/dir/b").body == b"new", spelling
        node.purge_all()


def test_references_elsewhere_stay(origin, node):
    origin.page("/b", b"old", FRESH)
    node.get("/b")
    node.get("/b", host="b.a.test")
    for elsewhere in ("http://b.a.test/b", "//b.a.test/b", "https://a.test/b", "http://other.test/b"):
        origin.page("/a", b"done", {"Location": elsewhere})
        node.request("POST", "/a")
        assert node.get("/b").hit and node.get("/b", host="b.a.test").hit, elsewhere


def test_a_fill_that_began_before_is_not_kept(origin, node):
    gate = Gate()

    @origin.route("/a")
    def a(x):
        if x.request.method == "POST":
            return x.reply(b"done")
        if origin.count("/a", "GET") == 1:
            x.head(200, {**FRESH, "Content-Length": "3"})
            gate.wait()
            return x.send(b"old")
        x.reply(b"new", FRESH)

    with node.connect() as c:
        c.request("GET", "/a")
        origin.wait_for(1, "/a")
        assert node.request("POST", "/a").status == 200
        gate.open()
        assert c.response().body == b"old"
    assert node.get("/a").body == b"new"


def test_cache_groups(origin, node):
    origin.page("/1", b"one", {**FRESH, "Cache-Groups": '"a", "b"'})
    origin.page("/2", b"two", {**FRESH, "Cache-Groups": '"b";x=1'})
    origin.page("/3", b"three", {**FRESH, "Cache-Groups": '"A"'})
    origin.page("/4", b"four", {**FRESH, "Cache-Groups": "a"})  # no string: no group
    for host in ("a.test", "b.a.test"):
        for target in "1234":
            node.get("/" + target, host=host)
            assert node.get("/" + target, host=host).hit
    for invalidation, method, gone in (('"a"', "GET", ""), ('"x"', "POST", ""), ('"a"', "POST", "1"), ('"b"', "POST", "12")):
        origin.page("/do", b"done", {"Cache-Group-Invalidation": invalidation})
        node.request(method, "/do")
        for target in "1234":
            assert node.get("/" + target).hit == (target not in gone), (invalidation, method, target)
            assert node.get("/" + target, host="b.a.test").hit
    node.restart()
    assert node.get("/1").hit and node.get("/1").get("Cache-Groups") == '"a", "b"'


def test_many_groups_at_once(origin, node):
    for i in range(20):
        origin.page(f"/{i}", b"x", {**FRESH, "Cache-Groups": f'"g{i}"'})
        node.get(f"/{i}")
    origin.page("/do", b"done", {"Cache-Group-Invalidation": ", ".join(f'"g{i}"' for i in range(20))})
    node.request("POST", "/do")
    assert not any(node.get(f"/{i}").hit for i in range(20))


def test_what_lies_in_another_store_goes(origin, make_node):
    """With a second store, half of the URLs belong there; the first one's copies must not come back when it is gone."""
    pages = [f"/{i}" for i in range(12)]

    @origin.route("*")
    def page(x):
        x.reply(b"%d" % origin.count(x.request.target, "POST"), FRESH if x.request.method == "GET" else {})

    node = make_node(origin, start=False)
    one = node.conf["stores"]
    other = {"name": "other", "path": os.path.join(node.directory, "sites.d"), "size": "256MiB"}

    def run_with(stores):
        node.stop()
        node.conf["stores"] = stores
        node.write_conf()
        node.start()

    node.start()
    for t in pages:
        until_hit(node, t)
    run_with([*one, other])
    for t in pages:
        assert node.request("POST", t).status == 200
    run_with(one)
    assert [node.get(t).body for t in pages] == [b"1"] * 12


def test_what_lies_in_a_store_that_is_away_goes(origin, make_node):
    pages = [f"/{i}" for i in range(12)]

    @origin.route("*")
    def page(x):
        x.reply(b"%d" % origin.count(x.request.target, "POST"), FRESH if x.request.method == "GET" else {})

    node = make_node(origin, start=False)
    one = node.conf["stores"]
    other = {"name": "other", "path": os.path.join(node.directory, "sites.d"), "size": "256MiB"}

    def run_with(stores):
        node.stop()
        node.conf["stores"] = stores
        node.write_conf()
        node.start()

    node.conf["stores"] = [*one, other]
    node.write_conf()
    node.start()
    for t in pages:
        until_hit(node, t)
    assert min(s["objects"] for s in node.status()["stores"]) > 0, "all in one store: the test shows nothing"
    run_with(one)
    for t in pages:
        assert node.request("POST", t).status == 200
    run_with([*one, other])
    assert [node.get(t).body for t in pages] == [b"1"] * 12
