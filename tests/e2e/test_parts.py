"""Parts that the origin sent: stored, used, and made one with others of the same representation."""
import pytest

from brimtest import Gate, pattern, wait_until
from brimtest.look import store

SIZES = [100, 40_000, 900_000]  # with the entry, in a segment on a page's boundary
MIB = 1 << 20


class Film:
    """A page whose origin knows ranges: one at a time, and -suffixes."""

    def __init__(self, origin, target, size, headers=None, tag='"v1"'):
        self.body, self.tag, self.origin, self.target = pattern(size), tag, origin, target
        self.headers = {"Cache-Control": "max-age=60", "Content-Type": "text/x", **(headers or {})}
        origin.route(target)(self.answer)

    def answer(self, x):
        headers = dict(self.headers)
        if self.tag:
            headers["ETag"] = self.tag
        asked = x.request.get("Range")
        if asked is None:
            return x.reply(self.body, headers)
        first, _, last = asked.removeprefix("bytes=").partition("-")
        size = len(self.body)
        begin = int(first) if first else max(size - int(last), 0)
        end = min(int(last), size - 1) if first and last else size - 1
        if begin >= size:
            return x.reply(b"", {**headers, "Content-Range": f"bytes */{size}"}, 416)
        x.reply(self.body[begin:end + 1], {**headers, "Content-Range": f"bytes {begin}-{end}/{size}"}, 206)

    def get(self, node, asked, headers=None):
        """A part, checked. asked: (first, last), the last None: open."""
        first, last = asked
        last = len(self.body) - 1 if last is None else last
        r = node.get(self.target, {"Range": f"bytes={first}-{'' if asked[1] is None else last}", **(headers or {})})
        assert (r.status, r.complete) == (206, True), r
        assert r.get("Content-Range") == f"bytes {first}-{last}/{len(self.body)}"
        assert len(r.all("Content-Range")) == 1 and r.get("Content-Type") == "text/x"
        assert r.body == self.body[first:last + 1]
        return r

    def until_hit(self, node, asked, **kw):
        return wait_until(lambda: (r := self.get(node, asked, **kw)).committed and r, f"a hit for {asked}")


@pytest.mark.parametrize("size", SIZES)
def test_a_part_is_stored_and_serves_what_lies_in_it(origin, node, size):
    film = Film(origin, "/a", size)
    first, last = size // 4, size // 2
    r = film.get(node, (first, last))
    assert r.cache == "fwd=uri-miss; stored" and r.get("ETag") == '"v1"'
    film.until_hit(node, (first, last))
    for asked in ((first, first), (last, last), (first + 3, last - 7), (first, last - 1)):
        assert film.get(node, asked).hit
    asked_before = origin.count("/a")
    r = node.get("/a", {"Range": f"bytes={size}-"})
    assert (r.status, r.hit, r.get("Content-Range"), r.body) == (416, True, f"bytes */{size}", b"")
    assert node.get("/a", {"Range": f"bytes={first}-{last}", "If-None-Match": '"v1"'}).status == 304
    assert film.get(node, (first, last), {"If-Range": '"v1"'}).hit
    assert origin.count("/a") == asked_before
    assert "206" not in node.get("/a").cache  # a request without Range gets the whole from the origin
    assert origin.last("/a").get("Range") is None


def test_several_ranges_within_a_stored_part(origin, node):
    film = Film(origin, "/a", 40_000)
    film.get(node, (10_000, 30_000))
    film.until_hit(node, (10_000, 30_000))
    r = node.get("/a", {"Range": "bytes=11000-11009,20000-20009"})
    assert r.status == 206 and r.hit and r.complete
    assert r.get("Content-Type").startswith("multipart/byteranges") and r.get("Content-Range") is None
    assert b"bytes 11000-11009/40000\r\n\r\n" + film.body[11000:11010] in r.body
    assert b"bytes 20000-20009/40000\r\n\r\n" + film.body[20000:20010] in r.body


def test_what_is_not_in_the_part_is_asked_for(origin, node):
    film = Film(origin, "/a", 1000, tag=None)
    film.get(node, (0, 99))
    film.until_hit(node, (0, 99))
    r = film.get(node, (50, 149))
    assert r.cache == "fwd=partial; stored" and origin.last("/a").get("Range") == "bytes=50-149"
    film.until_hit(node, (50, 149))
    assert not film.get(node, (0, 99)).hit  # without a strong tag nothing is combined: the newest part is there


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("order", ["up", "down", "inside", "overlapping"])
def test_parts_become_one_and_the_whole(origin, node, size, order):
    film = Film(origin, "/a", size)
    quarter = size // 4
    steps = {
        "up": [(0, quarter - 1), (quarter, 2 * quarter), (2 * quarter + 1, None)],
        "down": [(3 * quarter, None), (quarter, 3 * quarter - 1), (0, quarter - 1)],
        "inside": [(quarter, 3 * quarter), (0, 3 * quarter + 5), (3 * quarter, None)],
        "overlapping": [(0, 2 * quarter), (quarter, 3 * quarter), (2 * quarter, None)],
    }[order]
    for asked in steps:
        film.get(node, asked)
        film.until_hit(node, asked)
    before = origin.count("/a")
    r = node.get("/a")
    assert (r.status, r.hit, r.body, r.get("Content-Range")) == (200, True, film.body, None)
    for asked in steps:
        assert film.get(node, asked).hit
    assert origin.count("/a") == before == 3


def test_a_part_that_lies_within_the_stored_one_keeps_it_whole(origin, node, clock):
    film = Film(origin, "/a", 40_000)
    film.get(node, (1000, 30_000))
    film.until_hit(node, (1000, 30_000))
    clock.advance(70)
    assert film.get(node, (5000, 5999)).cache == "fwd=stale; stored"
    film.until_hit(node, (5000, 5999))
    assert film.get(node, (1000, 30_000)).hit  # the tag proved the rest, too
    assert origin.count("/a") == 2


@pytest.mark.parametrize("change", ["tag", "weak", "length"])
def test_parts_of_another_representation_are_not_combined(origin, node, change):
    film = Film(origin, "/a", 1000, tag='W/"v1"' if change == "weak" else '"v1"')
    film.get(node, (0, 499))
    film.until_hit(node, (0, 499))
    if change == "tag":
        film.tag = '"v2"'
    if change == "length":
        film.body += b"x"
    film.body = bytes(reversed(film.body))
    film.get(node, (500, None))
    film.until_hit(node, (500, None))
    assert not film.get(node, (0, 10)).hit  # the newest is there, and it alone
    assert not node.get("/a").hit


def test_a_whole_in_one_part_is_stored_as_the_whole(origin, node):
    film = Film(origin, "/a", 3 * MIB, tag=None)
    film.get(node, (0, None))
    film.until_hit(node, (0, None))
    r = node.get("/a")
    assert (r.status, r.hit, r.body) == (200, True, film.body)
    assert origin.count("/a") == 1


def test_large_parts_are_relayed(origin, node):
    film = Film(origin, "/a", 3 * MIB)
    for _ in range(2):
        assert film.get(node, (1, None)).cache == "fwd=uri-miss; detail=partial"
    film.get(node, (0, MIB - 1))
    film.until_hit(node, (0, MIB - 1))
    # What makes it the whole is welcome all the same.
    film.get(node, (MIB, None))
    film.until_hit(node, (MIB, None))
    assert node.get("/a").hit and origin.count("/a") == 4


@pytest.mark.parametrize("soft", [False, True])
def test_a_purge_names_parts_too(origin, node, soft):
    film = Film(origin, "/a", 1000)
    film.get(node, (0, 499))
    film.until_hit(node, (0, 499))
    node.purge("/a", soft=soft)
    if not soft:
        film.body = bytes(reversed(film.body))  # under the same tag: nothing of the old may be used
    assert not film.get(node, (0, 10)).hit
    film.get(node, (11, None))
    film.until_hit(node, (11, None))


def test_variants_have_parts_of_their_own(origin, node):
    bodies = {"x": pattern(1000, 1), "y": pattern(1000, 2)}

    @origin.route("/a")
    def a(x):
        body = bodies[x.request.get("Kind")]
        x.reply(body[:100], {"Cache-Control": "max-age=60", "Vary": "Kind", "Content-Range": "bytes 0-99/1000"}, 206)

    for kind in "xyxy":
        r = node.get("/a", {"Range": "bytes=0-99", "Kind": kind})
        assert r.body == bodies[kind][:100]
        wait_until(lambda: node.status()["claims"] == 0, "the commit")
    assert origin.count("/a") == 2


@pytest.mark.parametrize("range_field,length", [("bytes 0-99/1000", 50), ("bytes 0-99/*", 100), ("bytes 99-0/1000", 100),
                                                ("bytes 0-99/50", 100), ("lines 0-99/1000", 100), (None, 100)])
def test_what_can_not_be_placed_is_relayed(origin, node, range_field, length):
    origin.page("/a", bytes(length), {"Cache-Control": "max-age=60", "ETag": '"v1"', "Content-Range": range_field}, 206)
    for _ in range(2):
        r = node.get("/a", {"Range": "bytes=0-99"})
        assert (r.status, len(r.body), r.cache) == (206, length, "fwd=uri-miss; detail=partial")
    assert origin.count("/a") == 2


def test_a_206_that_nobody_asked_for_is_not_stored(origin, node):
    origin.page("/a", bytes(100), {"Cache-Control": "max-age=60", "Content-Range": "bytes 0-99/100"}, 206)
    for _ in range(2):
        assert "stored" not in node.get("/a").cache
    assert not node.get("/a", {"Range": "bytes=0-9"}).hit


def test_an_origin_that_ignores_ranges_is_stored_whole(origin, node):
    origin.page("/a", b"0123456789", {"Cache-Control": "max-age=60"})
    r = node.get("/a", {"Range": "bytes=2-3"})
    assert (r.status, r.body, r.cache) == (200, b"0123456789", "fwd=uri-miss; stored")
    wait_until(lambda: (r := node.get("/a", {"Range": "bytes=2-3"})).committed and (r.status, r.body) == (206, b"23"), "a hit")


def breaks_off(origin, node, film):
    """What a client gets after the first half of a part whose second half the origin doesn't send."""
    gate = Gate()

    @origin.route("/a")
    def breaks(x):
        x.head(206, {"Cache-Control": "max-age=60", "ETag": '"v1"', "Content-Range": "bytes 10000-19999/40000",
                     "Content-Length": "10000"})
        x.send(film.body[10000:15000])
        gate.wait()
        x.close()

    with node.connect() as c:
        c.request("GET", "/a", {"Range": "bytes=10000-19999"})
        r = c.head()
        assert c.receive(5000) == film.body[10000:15000]
        gate.open()
        c.read_body(r)
    return r


def test_a_part_that_breaks_off_leaves_what_there_was(origin, node):
    film = Film(origin, "/a", 40_000)
    film.get(node, (0, 9999))
    film.until_hit(node, (0, 9999))
    assert not breaks_off(origin, node, film).complete
    origin.route("/a")(film.answer)
    assert film.get(node, (0, 9999)).hit
    wait_until(lambda: node.status()["claims"] == 0, "no claim to be left")


def test_a_part_in_the_middle_of_what_is_there_breaks_off(origin, node, clock):
    """What is stored behind it must not be taken for the missing rest."""
    film = Film(origin, "/a", 40_000)
    film.get(node, (0, 30_000))
    film.until_hit(node, (0, 30_000))
    clock.advance(70)
    r = breaks_off(origin, node, film)
    assert not r.complete and r.body == b""
    wait_until(lambda: node.status()["claims"] == 0, "no claim to be left")


def test_inspect_takes_no_part_for_the_whole(origin, node):
    film = Film(origin, "/a", 1000)
    film.get(node, (0, 499))
    film.until_hit(node, (0, 499))

    def seen():
        answer = node.admin("GET", "/v1/object?url=http://a.test/a").json()
        return answer["next"], sorted((v["status"], v["next"]) for v in answer["variants"])

    assert seen() == ("miss", [(206, "miss")])
    film.get(node, (500, None))
    wait_until(lambda: seen() == ("hit", [(200, "hit"), (206, "miss")]), "the whole to be seen")


def test_parts_survive_a_restart(origin, node):
    film = Film(origin, "/a", 40_000)
    film.get(node, (100, 20_000))
    film.until_hit(node, (100, 20_000))
    node.restart()
    assert film.get(node, (200, 300)).hit
    assert store(node)["objects"] == 1
