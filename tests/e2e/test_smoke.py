"""The first whole path: miss, hit, purge, restart."""
from brimtest import fetch, pattern

FRESH = {"Cache-Control": "max-age=3600"}


def test_miss_hit_purge_miss(origin, node):
    origin.page("/a", b"hello\n", FRESH)

    first = node.get("/a")
    assert (first.status, first.body, first.complete) == (200, b"hello\n", True)
    assert first.cache == "fwd=uri-miss; stored"
    assert first.get("Age") is None

    second = node.get("/a")
    assert (second.status, second.body) == (200, b"hello\n")
    assert second.hit and second.get("Age") is not None
    assert origin.count("/a") == 1

    assert node.purge("/a")["purge"] > 0
    third = node.get("/a")
    assert third.body == b"hello\n" and not third.hit
    assert origin.count("/a") == 2
    assert node.get("/a").hit


def test_restart_keeps_objects(origin, node):
    small, large = pattern(1000, 1), pattern(3_000_000, 2)
    origin.page("/small", small, FRESH)
    origin.page("/large", large, FRESH)
    for target in ("/small", "/large"):
        assert node.get(target).complete
        assert node.get(target).hit

    node.restart()

    for target, body in (("/small", small), ("/large", large)):
        r = node.get(target)
        assert r.hit and r.body == body and r.complete
        assert origin.count(target) == 1


def test_head_is_answered_from_the_stored_get(origin, node):
    origin.page("/a", b"hello\n", FRESH)
    node.get("/a")

    r = node.request("HEAD", "/a")
    assert (r.status, r.body, r.get("Content-Length")) == (200, b"", "6")
    assert r.hit and origin.count() == 1


def test_head_miss_goes_to_the_origin_and_carries_no_body(origin, node):
    origin.page("/a", b"hello\n", FRESH)
    with node.connect() as c:
        c.request("HEAD", "/a")
        c.request("GET", "/a")
        head, get = c.response("HEAD"), c.response("GET")
    assert (head.status, head.get("Content-Length")) == (200, "6")
    assert (get.status, get.body, get.complete) == (200, b"hello\n", True)


def test_unknown_host_is_misdirected(origin, node):
    r = node.get("/a", host="nobody.example")
    assert r.status == 421 and r.complete
    assert r.get("Proxy-Status") is not None and r.get("Cache-Status") is None
    assert origin.count() == 0


def test_time_makes_stale(origin, node, clock):
    origin.page("/a", b"hello\n", {"Cache-Control": "max-age=60"})
    node.get("/a")
    clock.advance(30)
    r = node.get("/a")
    assert r.hit and 30 <= int(r.get("Age")) <= 31
    clock.advance(31)
    assert not node.get("/a").hit
    assert origin.count("/a") == 2


def test_two_nodes_in_a_row(origin, chain):
    edge, shield = chain
    origin.page("/a", b"hello\n", FRESH)
    assert edge.get("/a").body == b"hello\n"
    assert edge.get("/a").hit
    assert origin.count() == 1

    edge.purge("/a")
    r = edge.get("/a")  # from the shield, which still has it
    assert r.body == b"hello\n" and origin.count() == 1
    assert shield.get("/a").hit


def test_quick_start_without_a_file(origin, make_node):
    origin.page("/a", b"hello\n", FRESH)
    node = make_node(origin, args=["--origin", origin.url, "--size", "64MiB", "--workers", "1"])
    assert node.get("/a", host="any.example").body == b"hello\n"
    assert node.get("/a", host="any.example").hit
    assert fetch(node.address, "/none").status == 404
