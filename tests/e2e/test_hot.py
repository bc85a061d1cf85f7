"""Hot objects: what is asked for again and again is served from the worker's memory, and never longer than it may be."""
import os

import pytest

from brimtest import FRESH, pattern, wait_until
from brimtest.look import gauge, until_hit

BODY = pattern(1000)


@pytest.fixture
def node(origin, make_node):
    return make_node(origin, workers=1)


def make_hot(node, target="/a", body=BODY, **kw):
    """Asks until the object is there, and then until it is found in memory (two hits later at most)."""
    until_hit(node, target, body, **kw)
    before = gauge(node, "hot_hits_total")
    for _ in range(3):
        r = node.get(target, **kw)
        assert r.committed and r.body == body
    wait_until(lambda: gauge(node, "hot_hits_total") > before, "the object to be hot")


def spoil_segments(node):
    """Whatever is read from now on is refused: every byte that was stored is another."""
    folder = os.path.join(node.store, "segments")
    for name in os.listdir(folder):
        if name.endswith(".seg"):
            with open(os.path.join(folder, name), "r+b") as f:
                data = f.read()
                f.seek(0)
                f.write(bytes(b ^ 1 if b else 0 for b in data))


def test_a_hot_object_is_not_read(origin, node):
    """Its file is spoilt: who reads an object of it finds nothing, but what is hot goes on."""
    origin.page("/a", BODY, FRESH)
    origin.page("/cold", BODY, FRESH)
    until_hit(node, "/cold", BODY)
    make_hot(node)
    assert gauge(node, "hot_bytes") > len(BODY)
    spoil_segments(node)
    for _ in range(3):
        r = node.get("/a")
        assert r.committed and r.body == BODY
    r = node.get("/cold")
    assert not r.hit and r.body == BODY
    assert origin.count("/a") == 1 and origin.count("/cold") == 2


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("names", [{"urls": ["http://a.test/a"]}, {"prefixes": ["http://a.test/"]}, {"all": True}])
def test_a_purge_reaches_it(origin, node, soft, names):
    origin.page("/a", BODY, {**FRESH, "ETag": '"1"'})
    make_hot(node)
    assert node.admin("POST", "/v1/purge", {**names, "soft": soft}).status == 200
    r = node.get("/a")
    assert not r.hit and r.body == BODY
    assert origin.count("/a") == 2


def test_what_replaced_it_is_served(origin, node):
    """By a purge and another answer; the older one's memory goes with the first look."""
    origin.page("/a", BODY, FRESH)
    make_hot(node)
    for i in range(3):
        body = pattern(1000 + i, i + 1)
        node.purge("/a")
        origin.page("/a", body, FRESH)
        assert node.get("/a").body == body
        make_hot(node, body=body)


def test_a_revalidated_one_has_its_new_head(origin, node, clock):
    origin.page("/a", BODY, {"Cache-Control": "max-age=60", "ETag": '"1"', "X-Turn": "one"})
    make_hot(node)
    clock.advance(61)
    origin.page("/a", BODY, {"Cache-Control": "max-age=60", "ETag": '"1"', "X-Turn": "two"})
    r = node.get("/a")
    assert r.body == BODY and r.get("X-Turn") == "two" and not r.committed
    make_hot(node)
    assert node.get("/a").get("X-Turn") == "two" and origin.count("/a") == 2


def test_an_evicted_one_is_a_miss(origin, make_node):
    """Its segment made room for others: whatever memory holds, the index has it no more."""
    node = make_node(origin, workers=1, size="64MiB")
    origin.page("/a", BODY, FRESH)
    make_hot(node)
    big = pattern(900_000)
    for i in range(200):
        origin.page(f"/big/{i}", big, FRESH)
        assert node.get(f"/big/{i}").body == big
    wait_until(lambda: node.get("/a", {"Cache-Control": "only-if-cached"}).status == 504, "/a evicted")
    r = node.get("/a")
    assert not r.hit and r.body == BODY


def test_ranges_conditions_and_heads_of_it(origin, node):
    origin.page("/a", BODY, {**FRESH, "ETag": '"1"'})
    make_hot(node)
    r = node.get("/a", {"Range": "bytes=10-19"})
    assert r.status == 206 and r.body == BODY[10:20]
    assert node.get("/a", {"If-None-Match": '"1"'}).status == 304
    r = node.request("HEAD", "/a")
    assert r.status == 200 and r.body == b"" and r.get("Content-Length") == str(len(BODY))
    assert node.get("/a").body == BODY and origin.count("/a") == 1
