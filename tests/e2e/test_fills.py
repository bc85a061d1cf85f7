"""What becomes of a body on its way in and in the store: whoever leaves, dies or is slow, no wrong byte, and nothing is left."""
import functools
import os
import random
import signal
import subprocess
import threading
import time

import pytest

from brimtest.origin import PeerGone
from brimtest import FRAMINGS, FRESH, Feed, Gate, SlowConnection, feed, pattern, wait_until
from brimtest.look import Leaks, gauge, held, store, until_hit, worker_of

KIB, MIB = 1 << 10, 1 << 20
# A store of 64 to 1024 MiB: segments of 4 MiB, chunks of 1 MiB.
SEGMENT, CHUNK = 4 * MIB, 1 * MIB
SMALLEST = "64MiB"


def stored(node, target):
    """Is it there? Asks without letting the node fetch it."""
    return node.get(target, {"Cache-Control": "only-if-cached"}).status == 200


# --- clients and origins at their own speeds


@pytest.mark.parametrize("framing,size", [("length", 200_000), ("length", 3_000_000), ("chunked", 30_000),
                                          ("chunked", 3_000_000), ("close", 3_000_000)])
def test_a_client_that_leaves_does_not_end_the_fill(origin, node, framing, size):
    body, gate = pattern(size), Gate()
    feed(origin, "/a", body, framing, gate=gate, at=size // 2)
    c = node.connect()
    c.request("GET", "/a")
    c.head()
    c.reset()
    wait_until(lambda: gauge(node, "connections") == 0, "the node to notice")
    gate.open()
    until_hit(node, "/a", body)
    assert origin.count("/a") == 1


def test_a_client_that_leaves_ends_the_fill_where_the_site_says_so(origin, make_node):
    node = make_node(origin, site={"cache": {"fill_after_abort": "never"}})
    ended = Gate()

    @origin.route("/a")
    def endless(x):
        f = Feed(x, 1 << 40, "length")
        try:
            f.send(bytes(MIB))
            assert x.peer_closed()
        except PeerGone:  # already
            pass
        ended.open()

    c = node.connect()
    c.request("GET", "/a")
    c.head()
    c.reset()
    ended.wait()
    origin.page("/a", b"good", FRESH)
    until_hit(node, "/a", b"good")


@pytest.mark.parametrize("framing", FRAMINGS)
def test_a_slow_client_does_not_slow_the_origin(origin, node, framing):
    body, sent = pattern(24 * MIB), Gate()
    feed(origin, "/a", body, framing, piece=MIB, sent=sent)
    with SlowConnection(node.address) as c:
        c.request("GET", "/a")
        r = c.head()
        sent.wait()  # all of it, while the client has read next to nothing
        until_hit(node, "/a", body)
        c.read_body(r)
    assert r.complete and r.body == body
    assert origin.count("/a") == 1


@pytest.mark.parametrize("framing", FRAMINGS)
@pytest.mark.parametrize("size,first", [(100, 1), (200_000, 100), (3_000_000, 1_500_000)])
@pytest.mark.parametrize("cached", [True, False])
def test_bytes_of_a_slow_origin_reach_the_client_as_they_come(origin, node, framing, size, first, cached):
    body, gate = pattern(size), Gate()
    feed(origin, "/a", body, framing, FRESH if cached else {"Cache-Control": "no-store"}, gate=gate, at=first)
    got = bytearray()

    def take(data):
        got.extend(data)
        if len(got) == first:
            gate.open()

    with node.connect() as c:
        c.request("GET", "/a")
        r = c.response(into=take)
    assert r.complete and bytes(got) == body


# --- sizes


def chunk_files(node):
    """{name: bytes} of all chunk files."""
    return {name: os.path.getsize(os.path.join(at, name))
            for at, _, names in os.walk(os.path.join(node.store, "chunks")) for name in names}


BORDERS = [0, 1, 16 * KIB, 64 * KIB, CHUNK, 3 * CHUNK]
SIZES = sorted({n + d for n in BORDERS for d in (-1, 0, 1) if n + d >= 0}) + [10 * MIB]


@pytest.mark.parametrize("framing", FRAMINGS)
@pytest.mark.parametrize("piece", [None, 60_000])
def test_every_size_comes_back_byte_for_byte(origin, node, framing, piece):
    bodies = {f"/{n}": pattern(n, n) for n in SIZES}
    for target, body in bodies.items():
        feed(origin, target, body, framing, piece=piece)
    for target, body in bodies.items():
        r = node.get(target)
        assert r.complete and r.body == body and r.cache == "fwd=uri-miss; stored", target
    for target, body in bodies.items():
        assert until_hit(node, target, body).get("Content-Length") == str(len(body))
    assert all(chunk_files(node).values()), "an empty file was left behind a body that ends with a chunk"
    node.restart()
    for target, body in bodies.items():
        r = node.get(target)
        assert r.hit and r.complete and r.body == body, target
        assert node.request("HEAD", target).get("Content-Length") == str(len(body))
        assert origin.count(target) == 1


# --- the store's size


class Sampler:
    """The most that the store has taken on disk, looked at all the time."""

    def __init__(self, node):
        self.node, self.most, self.samples = node, 0, 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self):
        while not self._stop.wait(0.2):
            self.most = max(self.most, self.node.store_bytes())
            self.samples += 1

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()


@pytest.mark.limit(120)
def test_a_store_stays_within_its_size(origin, make_node):
    node = make_node(origin, size=SMALLEST)
    rng = random.Random(7)
    sizes = []
    while sum(sizes) < 200 * MIB:
        sizes.append(rng.choice([rng.randrange(3000), rng.randrange(100_000), rng.randrange(MIB), rng.randrange(8 * MIB)]))
    names = [f"/{i}" for i in range(len(sizes))]

    @functools.lru_cache(maxsize=64)
    def body_of(name):
        return pattern(sizes[int(name[1:])], int(name[1:]))

    @origin.route("*")
    def any_page(x):
        body = body_of(x.request.target)
        f = Feed(x, len(body), FRAMINGS[int(x.request.target[1:]) % 3])
        f.send(body)
        f.end()

    hits = 0
    with Sampler(node) as sampler:
        for i, name in enumerate(names):
            for n in {i, max(0, i - rng.randrange(30))}:
                r = node.get(names[n])
                assert r.complete and r.body == body_of(names[n]), names[n]
                hits += r.hit
    assert sampler.samples > 10
    assert sampler.most <= 64 * MIB, f"{sampler.most} bytes on disk"
    assert hits > len(names) / 4
    until_hit(node, names[-1], body_of(names[-1]))
    assert not stored(node, names[0])
    s = store(node)
    assert s["evicted_segments"] > 0 and s["used_bytes"] <= 64 * MIB
    Leaks(node).after(origin)


@pytest.mark.parametrize("framing", FRAMINGS)
def test_what_is_too_large_for_the_site_is_relayed_and_not_kept(origin, make_node, framing):
    node = make_node(origin, site={"cache": {"max_object_size": "1MiB"}})
    body = pattern(12 * MIB)
    feed(origin, "/a", body, framing)
    before = node.store_bytes()
    for n in (1, 2):
        r = node.get("/a")
        assert r.complete and r.body == body and not r.hit
        assert origin.count("/a") == n
    if framing == "length":
        assert "stored" not in r.cache
    wait_until(lambda: node.store_bytes() < before + MIB, "the store to forget what it began")
    exact = pattern(MIB)
    feed(origin, "/exact", exact, framing)
    node.get("/exact")
    until_hit(node, "/exact", exact)


# --- evicted under a reader


def push_out(node, origin, *targets):
    """Fetches others until the store has none of these (what the disk is too slow for is relayed: it goes on)."""
    body = pattern(CHUNK)
    origin.route("*")(lambda x: x.reply(body, FRESH))
    deadline, i = time.monotonic() + 40, 0
    while any(stored(node, t) for t in targets):
        assert time.monotonic() < deadline, f"{targets} are still stored: {store(node)}"
        for _ in range(10):
            i += 1
            assert node.get(f"/filler/{i}").body == body


def begin_slowly(node, target):
    c = SlowConnection(node.address)
    c.request("GET", target)
    return c, c.head()


@pytest.mark.limit(90)
def test_an_object_that_is_evicted_under_its_reader(origin, make_node):
    """Its segment or chunk stays alive by the open descriptor, and is counted. What lies in further chunks is lost:
    the answer breaks off visibly."""
    node = make_node(origin, size=SMALLEST, workers=1)
    small, large = pattern(CHUNK - 1, 1), pattern(3 * CHUNK, 2)
    origin.page("/small", small, FRESH)
    origin.page("/large", large, FRESH)
    for target, body in (("/small", small), ("/large", large)):
        node.get(target)
        until_hit(node, target, body)
    readers = {t: begin_slowly(node, t) for t in ("/small", "/large")}
    push_out(node, origin, "/small", "/large")
    wait_until(lambda: store(node)["dead_open_bytes"] >= CHUNK, "what is dead but open to be counted")

    c, r = readers["/small"]
    c.read_body(r)
    assert r.complete and r.body == small
    c.close()
    c, r = readers["/large"]
    c.read_body(r)
    assert large.startswith(r.body) and r.complete == (r.body == large)
    c.close()
    Leaks(node).after(origin)
    worker, = node.pids("worker")
    assert held(worker)["gone"] == 0


@pytest.mark.limit(90)
def test_too_many_dead_bytes_cut_off_who_has_read_a_dead_one_longest(origin, make_node):
    node = make_node(origin, size=SMALLEST, workers=1)
    bodies = {f"/small/{i}": pattern(CHUNK - 1, i) for i in range(24)}  # in about six segments of four
    for target, body in bodies.items():
        origin.page(target, body, FRESH)
        node.get(target)
        until_hit(node, target, body)
    readers = {target: begin_slowly(node, target) for target in bodies}
    push_out(node, origin, *bodies)
    limit = 64 * MIB // 8
    wait_until(lambda: 0 < store(node)["dead_open_bytes"] <= limit + SEGMENT, "dead readers to be cut off")
    whole = 0
    for target, (c, r) in readers.items():
        c.read_body(r)
        assert bodies[target].startswith(r.body) and r.complete == (r.body == bodies[target])
        whole += r.complete
        c.close()
    assert 0 < whole < len(readers)
    Leaks(node).after(origin)


# --- deaths


class Crowd:
    """Requests for objects of all ways to be stored, each held half-way by one gate."""

    def __init__(self, origin, node, connections=None):
        self.gate = Gate()
        self.node, self.origin = node, origin
        self.bodies, self.open = {}, {}
        for i in range(connections or 12):
            framing, size = FRAMINGS[i % 3], (40_000, 300_000, 2_500_000, 60)[i % 4]
            target = f"/{framing}/{size}/{i}"
            self.bodies[target] = pattern(size, i)
            feed(origin, target, self.bodies[target], framing, gate=self.gate, at=size // 2)
        for target in self.bodies:
            c = node.connect()
            c.request("GET", target)
            self.open[target] = c, c.head()
        origin.wait_for(len(self.bodies))

    def finish(self):
        """{target: response}, after the gate is open."""
        self.gate.open()
        out = {}
        for target, (c, r) in self.open.items():
            c.read_body(r)
            c.close()
            assert self.bodies[target].startswith(r.body) and r.complete == (r.body == self.bodies[target]), target
            out[target] = r
        return out


def test_the_keepers_death_during_fills(origin, node):
    origin.page("/hot", b"hot", FRESH)
    until_hit(node, "/hot", b"hot")
    crowd = Crowd(origin, node)
    pid = node.kill("keeper")
    assert node.get("/hot").body == b"hot"
    node.wait_replaced("keeper", pid)
    assert all(r.complete for r in crowd.finish().values())
    for target, body in crowd.bodies.items():
        until_hit(node, target, body)
    origin.page("/new", b"new", FRESH)
    until_hit(node, "/new", b"new")
    wait_until(lambda: node.status()["claims"] == 0, "no claim to be left")


def test_the_keepers_death_between_a_bodys_end_and_its_commit(origin, node):
    """It is stopped first, so that finished fills pile up uncommitted; its successor commits them all."""
    pid = node.pids("keeper")[0]
    os.kill(pid, signal.SIGSTOP)
    bodies = {f"/{i}": pattern(1 << i, i) for i in range(22)}
    for target, body in bodies.items():
        origin.page(target, body, FRESH)
        assert node.get(target).body == body
    node.may_crash = True
    os.kill(pid, signal.SIGKILL)
    node.wait_replaced("keeper", pid)
    for target, body in bodies.items():
        until_hit(node, target, body)
    stored_ones = sum(origin.count(t) == 1 for t in bodies)
    assert stored_ones >= 1  # those that ended before the keeper counted as away
    wait_until(lambda: node.status()["claims"] == 0, "no claim to be left")


def test_a_workers_death_in_mid_fill(origin, node):
    crowd = Crowd(origin, node, 24)
    victim = worker_of(node, next(iter(crowd.open.values()))[0])
    lost = {t for t, (c, _) in crowd.open.items() if worker_of(node, c) == victim}
    node.kill("worker", node.pids("worker").index(victim))
    answers = crowd.finish()
    for target, r in answers.items():
        assert r.complete or target in lost, f"{target} was served by another worker: {r}"
    assert any(not answers[t].complete for t in lost)
    node.wait_replaced("worker", victim)
    for target, body in crowd.bodies.items():
        until_hit(node, target, body)
        assert origin.count(target) == (1 if answers[target].complete else 2), target
    wait_until(lambda: node.status()["claims"] == 0, "no claim to be left")


def test_who_waits_for_a_fill_whose_worker_dies(origin, node):
    body, gate = pattern(2_000_000), Gate()
    feed(origin, "/a", body, "length", gate=gate, at=1000)
    first = node.connect()
    first.request("GET", "/a")
    first.head()
    victim = worker_of(node, first)
    others = []
    while len(others) < 5:
        c = node.connect()
        if worker_of(node, c) == victim:
            c.close()
            continue
        c.request("GET", "/a")
        others.append(c)
    node.kill("worker", node.pids("worker").index(victim))
    gate.open()
    for c in others:
        r = c.response()
        assert r.status == 200 and r.complete and r.body == body
        c.close()
    first.close()
    until_hit(node, "/a", body)


def test_kill_9_of_all_loses_nothing_that_was_committed(origin, node):
    bodies = {f"/{n}": pattern(n, n) for n in [*range(0, 2000, 50), 20_000, 100_000, CHUNK - 1, CHUNK + 1, 5 * MIB]}
    for target, body in bodies.items():
        origin.page(target, body, FRESH)
        node.get(target)
    for target, body in bodies.items():
        until_hit(node, target, body)
    crowd = Crowd(origin, node)  # fills under way: of these nothing may come back
    node.may_crash = True
    node.kill_all()
    crowd.finish()
    node.start()
    for target, body in bodies.items():
        r = node.get(target)
        assert r.hit and r.body == body, f"{target}: {r}"
        assert origin.count(target) == 1
    for target, body in crowd.bodies.items():
        assert not stored(node, target)
        until_hit(node, target, body)
    wait_until(lambda: node.status()["claims"] == 0, "no claim to be left")


def test_kill_9_of_all_again_and_again(origin, node):
    """Under load, at any moment: what a client has seen as a hit is a hit afterwards."""
    rng = random.Random(3)
    origin.route("*")(lambda x: x.reply(pattern(size_of(x.request.target), 5), FRESH))

    def size_of(target):
        return int(target.split("/")[1])
    node.may_crash = True
    committed = set()
    for round_number in range(4):
        stop = threading.Event()

        def load():
            while not stop.is_set():
                target = f"/{rng.randrange(300_000)}/{round_number}"
                try:
                    r = node.get(target)
                    if r.complete and node.get(target).hit:
                        committed.add(target)
                except (OSError, AssertionError):
                    pass
        threads = [threading.Thread(target=load) for _ in range(4)]
        for t in threads:
            t.start()
        wanted = len(committed) + 20
        wait_until(lambda: len(committed) >= wanted, "some commits")
        node.kill_all()
        stop.set()
        for t in threads:
            t.join()
        node.start()
        for target in committed:
            r = node.get(target)
            assert r.hit and r.body == pattern(size_of(target), 5), f"round {round_number}, {target}: {r}"


def truncate(path):
    os.truncate(path, os.path.getsize(path) // 2 + 100)


def garbage(path):
    with open(path, "r+b") as f:
        f.write(random.Random(1).randbytes(os.path.getsize(path)))


def spoil_pages(path):
    """Its first pages are sound, the tree's are not."""
    size = os.path.getsize(path)
    with open(path, "r+b") as f:
        f.seek(8192)
        f.write(random.Random(1).randbytes(max(size - 8192, 0)))


# What is known at once; a torn tree is found when it is read.
REASONS = {os.unlink: "missing", garbage: "damaged"}


# LMDB has no checksums of pages: led by garbage it writes past its own memory, which a sanitizer takes for the end of the
# process, and the plain keeper survives by dying until the index is blamed.
@pytest.mark.parametrize("damage", [os.unlink, truncate, garbage,
                                    pytest.param(spoil_pages, marks=[pytest.mark.long, pytest.mark.soak])])
def test_a_lost_index_is_made_anew_from_the_logs(origin, make_node, damage):
    # Who reads a torn page dies of the signal, and is replaced: no matter for a sanitizer's report.
    node = make_node(origin, env={"ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":handle_sigbus=0:handle_segv=0"})
    bodies = {f"/{i}": pattern(i * 37 % 5000, i) for i in range(300)}
    bodies |= {"/large": pattern(3_000_000), "/purged": b"old", "/stale": b"stale"}
    for target, body in bodies.items():
        origin.page(target, body, FRESH)
        assert node.get(target).body == body
    for target, body in bodies.items():
        until_hit(node, target, body)
    node.purge("/purged")
    origin.page("/purged", b"new", FRESH)
    node.stop()
    assert not node.log("index_rebuild")  # a new store has no index to miss
    path = os.path.join(node.store, "index.mdb")
    damage(path)
    node.may_crash = True  # a worker that reads a torn page may die of it; the store must come back all the same

    node.start()
    origin.page("/other", b"other", {"Cache-Control": "no-store"})
    assert node.get("/other").body == b"other"
    wait_until(lambda: store(node)["state"] == "open", "the index to be made anew", 20)
    if damage in REASONS:
        assert node.log("index_rebuild")[0]["reason"] == REASONS[damage]
    del bodies["/purged"]
    for target, body in bodies.items():
        until_hit(node, target, body)
        assert origin.count(target) == 1, target
    assert not stored(node, "/purged")
    until_hit(node, "/purged", b"new")


# --- a disk that is full, a keeper that is away


@pytest.mark.limit(90)
def test_a_full_disk_leaves_a_relay(origin, make_node):
    """The file system ends long before the configured size."""
    node = make_node(origin, start=False, size=SMALLEST)
    if os.getuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=40m,mode=0750", "brim-test", node.store],
                                          stderr=subprocess.DEVNULL).returncode != 0:
        pytest.skip("may not mount a small file system here")
    try:
        subprocess.run(["chown", "nobody", node.store], check=True)
        node.start()
        bodies = {f"/{i}": pattern(n, i) for i, n in enumerate([MIB, 3000, 3 * MIB, 200_000] * 40)}
        for target, body in bodies.items():
            origin.page(target, body, FRESH)
        for target, body in bodies.items():
            r = node.get(target)
            assert r.status == 200 and r.complete and r.body == body, f"{target}: {r}"
        for target, body in list(bodies.items())[-8:]:
            r = node.get(target)
            assert r.status == 200 and r.complete and r.body == body, f"{target}: {r}"
        assert [e for e in node.log() if "full" in str(e) or "No space" in str(e) or "ENOSPC" in str(e)], "not a word of it"
        Leaks(node).after(origin)
        node.stop()
    finally:
        for pid in node.leftovers():
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: subprocess.run(["umount", node.store], stderr=subprocess.DEVNULL).returncode == 0, "umount")


def test_a_keeper_that_hangs(origin, node):
    origin.page("/hot", b"hot", FRESH)
    until_hit(node, "/hot", b"hot")
    body = pattern(300_000)
    origin.route("*")(lambda x: x.reply(body, FRESH))
    pid = node.pids("keeper")[0]
    os.kill(pid, signal.SIGSTOP)
    try:
        begin = time.monotonic()
        while time.monotonic() - begin < 4:  # before and after it counts as away
            assert node.get("/hot").hit
            for _ in range(2):
                r = node.get(f"/{int(time.monotonic() * 1000)}")
                assert r.complete and r.body == body
        r = node.get("/twice")
        assert r.complete and r.body == body
        r = node.get("/twice")
        assert r.complete and r.body == body
    finally:
        os.kill(pid, signal.SIGCONT)
    until_hit(node, "/again", body)
    wait_until(lambda: node.status()["claims"] == 0, "no claim to be left")


# --- nothing is left


@pytest.mark.limit(90)
def test_nothing_is_left_of_a_mixed_load(origin, make_node):
    node = make_node(origin, size=SMALLEST)
    origin.page("/warm", b"warm", {"Cache-Control": "no-store"})
    for _ in range(8):
        node.get("/warm")
    before = Leaks(node)
    rng = random.Random(11)

    @origin.route("*")
    def any_page(x):
        kind, size, i = x.request.target[1:].split("/")
        f = Feed(x, int(size), FRAMINGS[int(i) % 3], {"Cache-Control": "no-store"} if kind == "relay" else FRESH)
        body = pattern(int(size), int(i))
        if kind == "breaks":
            f.send(body[:len(body) // 2])
            f.break_off()
        else:
            f.send(body)
            f.end()

    def client(seed):
        mine = random.Random(seed)
        for i in range(25):
            kind = mine.choice(["ok", "ok", "relay", "breaks", "leave"])
            size = mine.choice([100, 20_000, 300_000, 2_500_000])
            target = f"/{kind}/{size}/{seed * 100 + i}"
            with node.connect() as c:
                c.request("GET", target)
                try:
                    r = c.head()
                except ConnectionError:  # a reset may overtake what was sent before it
                    assert kind == "breaks"
                    continue
                if kind == "leave":
                    c.reset()
                    continue
                c.read_body(r)
            expected = pattern(size, seed * 100 + i)
            if kind == "breaks":
                assert not (r.status == 200 and r.complete), r
            else:
                assert r.complete and r.body == expected

    faults = []

    def guarded(seed):
        try:
            client(seed)
        except BaseException as e:
            faults.append(e)
            raise
    threads = [threading.Thread(target=guarded, args=(rng.randrange(1 << 30),)) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not faults, faults
    before.after(origin)
    assert node.store_bytes() <= 64 * MIB
