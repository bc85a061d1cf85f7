"""Parts of stored objects; what isn't stored goes to the origin as it was asked for."""
import re

import pytest

from brimtest import pattern

FRESH = {"Cache-Control": "max-age=60", "ETag": '"v1"', "Content-Type": "text/x"}
SIZES = [10, 40_000, 3_000_000]  # with the entry, in a segment, in chunks


def parts_of(r):
    boundary = re.fullmatch(r"multipart/byteranges; boundary=(\w+)", r.get("Content-Type")).group(1).encode()
    pieces = r.body.split(b"--" + boundary)
    assert pieces[0].strip() == b"" and pieces[-1].strip() == b"--"
    out = []
    for piece in pieces[1:-1]:
        head, _, body = piece.partition(b"\r\n\r\n")
        out.append((re.search(rb"(?i)content-range: bytes (\S+)", head).group(1).decode(), body[:-2]))
        assert b"text/x" in head
    return out


@pytest.mark.parametrize("size", SIZES)
def test_one_part(origin, node, size):
    body = pattern(size)
    origin.page("/a", body, FRESH)
    node.get("/a")
    for asked, first, last in ((f"0-{size - 1}", 0, size - 1), ("0-0", 0, 0), ("1-4", 1, 4), ("5-", 5, size - 1),
                               ("-3", size - 3, size - 1), (f"4-{size * 2}", 4, size - 1), (f"-{size * 2}", 0, size - 1),
                               (f"{size - 1}-", size - 1, size - 1)):
        r = node.get("/a", {"Range": f"bytes={asked}"})
        assert r.status == 206 and r.hit and r.complete, asked
        assert r.get("Content-Range") == f"bytes {first}-{last}/{size}"
        assert r.body == body[first:last + 1]
    assert origin.count("/a") == 1


@pytest.mark.parametrize("size", SIZES)
def test_several_parts(origin, node, size):
    body = pattern(size)
    origin.page("/a", body, FRESH)
    node.get("/a")
    far = [(0, 0), (size - 1, size - 1)] if size == 10 else [(0, 99), (20_000, 20_099), (size - 100, size - 1)]
    r = node.get("/a", {"Range": "bytes=" + ",".join(f"{a}-{b}" for a, b in far)})
    assert r.status == 206 and r.complete and r.hit
    got = parts_of(r) if size > 10 else [(r.get("Content-Range"), r.body)] if r.get("Content-Range") else parts_of(r)
    if size > 10:
        assert got == [(f"{a}-{b}/{size}", body[a:b + 1]) for a, b in far]


def test_what_can_not_be_satisfied(origin, node):
    origin.page("/a", b"hello", FRESH)
    node.get("/a")
    r = node.get("/a", {"Range": "bytes=5-"})
    assert r.status == 416 and r.get("Content-Range") == "bytes */5" and r.body == b""
    assert node.get("/a", {"Range": "bytes=9-,0-1"}).status == 206
    for whole in ("lines=1-2", "bytes=3-1", "bytes=", "bytes=x", "bytes=" + ",".join("0-4" for _ in range(50))):
        r = node.get("/a", {"Range": whole})
        assert (r.status, r.body) == (200, b"hello"), whole


def test_if_range_and_conditions(origin, node):
    modified = origin.date(-1000)
    origin.page("/a", b"hello", {**FRESH, "Last-Modified": modified})
    node.get("/a")
    part = {"Range": "bytes=1-2"}
    assert node.get("/a", {**part, "If-Range": '"v1"'}).status == 206
    for other in ('"v2"', 'W/"v1"', origin.date(-2000)):
        r = node.get("/a", {**part, "If-Range": other})
        assert (r.status, r.body) == (200, b"hello"), other
    assert node.get("/a", {**part, "If-None-Match": '"v1"'}).status == 304
    r = node.request("HEAD", "/a", part)
    assert r.status == 200 and r.get("Content-Length") == "5"


def test_errors_have_no_parts(origin, node):
    origin.page("/a", b"no such page", FRESH, 404)
    node.get("/a")
    r = node.get("/a", {"Range": "bytes=0-1"})
    assert (r.status, r.body) == (404, b"no such page") and r.hit


def test_a_miss_is_asked_for_as_it_was_by_the_client(origin, node):
    @origin.route("/a")
    def part(x):
        assert x.request.get("Range") == "bytes=1-1,3-3" and x.request.get("If-Range") == '"v1"'
        x.reply(b"ell", {**FRESH, "Content-Range": "bytes 1-3/5"}, 206)

    for n in (1, 2):
        r = node.get("/a", {"Range": "bytes=1-1,3-3", "If-Range": '"v1"'})
        assert (r.status, r.body) == (206, b"ell") and not r.hit
        assert origin.count("/a") == n


def test_a_stale_object_is_validated_whole_and_served_in_part(origin, node, clock):
    @origin.route("/a")
    def a(x):
        assert x.request.get("Range") is None
        if x.request.get("If-None-Match"):
            x.reply(status=304, headers=FRESH)
        else:
            x.reply(b"hello", FRESH)

    node.get("/a")
    clock.advance(61)
    r = node.get("/a", {"Range": "bytes=1-3"})
    assert (r.status, r.body, r.cache) == (206, b"ell", "fwd=stale; fwd-status=304")
