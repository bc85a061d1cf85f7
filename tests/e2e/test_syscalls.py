"""The table «System calls» of docs/ARCHITECTURE.md, held under strace: what each way costs, and that bodies aren't copied."""
import pytest

from brimtest import FRESH, feed, pattern, wait_until
from brimtest.look import store, until_hit, worker_of
from brimtest.trace import Trace, Ways

pytestmark = pytest.mark.strace

KIB, MIB = 1 << 10, 1 << 20
# What may come through memory: read together with a head, staged, or read with the lines between large chunks.
READ_ALONG = 66 * KIB
STEP = 256 * KIB       # of a sendfile


@pytest.fixture
def node(origin, make_node):
    """One worker, no access log: what is seen belongs to the requests."""
    node = make_node(origin, workers=1, conf={"log": {"access": None}})
    origin.page("/warm", b"warm", {"Cache-Control": "no-store"})
    node.get("/warm")
    return node


def traced(node, origin, tmp_path, target, times, body, warm=True):
    """The ways of so many requests on one connection that has been used before."""
    with node.connect() as c:
        for _ in range(3 if warm else 1):
            c.request("GET", target if warm else "/warm")
            c.response()
        with Trace(worker_of(node, c), str(tmp_path)) as trace:
            for i in range(times):
                c.request("GET", target)
                r = c.response()
                assert r.complete and r.body == body and r.hit == warm
        return Ways(trace.calls, node, node.port, origin.port)


TIMERS = {"epoll_wait", "epoll_pwait", "read", "write", "getpid", "newfstatat", "restart_syscall"}  # of the loop's own seconds


def timers_only(names):
    return {n: k for n, k in names.items() if n not in TIMERS}


def test_a_hot_hit(origin, node, tmp_path):
    body = pattern(1 * KIB)
    origin.page("/a", body, FRESH)
    node.get("/a")
    until_hit(node, "/a", body)
    times = 200
    ways = traced(node, origin, tmp_path, "/a", times, body)
    names = ways.names()
    assert timers_only(names) == {"recvfrom": times, "sendmsg": times}, names
    assert len(ways.of("recvfrom", "client")) == len(ways.of("sendmsg", "client")) == times
    # Strace slows the worker down so that each request is a turn of its own; timers make a few more.
    assert names["epoll_wait"] + names["epoll_pwait"] <= times + 60
    assert max(names[n] for n in ("read", "write", "newfstatat")) <= 30


@pytest.mark.parametrize("size", [0, 1 * KIB, 16 * KIB])
def test_a_small_hit(origin, node, tmp_path, size):
    """Each of another object: the first hit on it reads it, by one call; the second, too, and keeps it; the third finds it."""
    bodies = {f"/{i}": pattern(size, i) for i in range(20)}
    for target, body in bodies.items():
        origin.page(target, body, FRESH)
        node.get(target)
    wait_until(lambda: store(node)["commits"] == len(bodies), "the commits")
    for reads in (1, 1, 0, 0):
        with node.connect() as c, Trace(worker_of(node, c), str(tmp_path)) as trace:
            for target, body in bodies.items():
                c.request("GET", target)
                r = c.response()
                assert r.hit and r.body == body
        ways = Ways(trace.calls, node, node.port, origin.port)
        assert len(ways.of("preadv2", "body")) == reads * len(bodies), ways.names()
        assert len(ways.of("sendmsg", "client")) == len(bodies)


@pytest.mark.parametrize("size", [100 * KIB, 3 * MIB])
def test_a_large_hit(origin, node, tmp_path, size):
    body = pattern(size)
    origin.page("/a", body, FRESH)
    node.get("/a")
    until_hit(node, "/a", body)
    times = 10
    ways = traced(node, origin, tmp_path, "/a", times, body)
    assert ways.moved("sendfile", "client", "body") == times * size
    assert len(ways.of("recvfrom", "client")) == times
    assert len(ways.of("sendmsg", "client")) == times
    assert all("MSG_MORE" in c.arguments for c in ways.of("sendmsg", "client"))
    assert max(c.result for c in ways.of("sendfile", "client", "body")) <= STEP
    # Heads, entry heads, and a byte for each look into the page cache.
    assert ways.copied() <= times * (6 * KIB + size // STEP)
    assert not [c for c in ways.calls if c.name == "pread64"], "warm bytes were read by a thread"
    names = timers_only(ways.names())
    strange = set(names) - {"recvfrom", "preadv2", "sendmsg", "sendfile", "cachestat", "syscall_0x1c3", "epoll_ctl"}
    assert not strange, names


FILLS = {"in chunks": ("length", 3 * MIB), "in a segment": ("length", 600 * KIB), "until the close": ("close", 3 * MIB),
         "in large chunks": ("chunked", 3 * MIB)}


@pytest.mark.parametrize("name", FILLS)
def test_a_stored_miss(origin, node, tmp_path, name):
    framing, size = FILLS[name]
    body = pattern(size)
    feed(origin, "/a", body, framing, piece=512 * KIB if framing == "chunked" else None)
    ways = traced(node, origin, tmp_path, "/a", 1, body, warm=False)
    into, out = ways.moved("splice", "origin", "pipe"), ways.moved("splice", "pipe", "body")
    # An unknown length begins in memory: its first bytes come and leave from there.
    staged = ways.moved("read", "pipe")
    assert into == out + staged and out >= size - READ_ALONG, (into, out, staged)
    assert staged <= READ_ALONG and (framing != "length" or staged == 0)
    assert ways.moved("recvfrom", "origin") <= READ_ALONG + 2 * KIB
    assert ways.moved("sendfile", "client", "body") >= size - READ_ALONG
    assert ways.copied() <= 3 * READ_ALONG + 8 * KIB  # in, to the file, to the client
    until_hit(node, "/a", body)


@pytest.mark.parametrize("name", FILLS)
def test_a_relay(origin, node, tmp_path, name):
    framing, size = FILLS[name]
    body = pattern(size)
    feed(origin, "/a", body, framing, {"Cache-Control": "no-store"}, piece=512 * KIB if framing == "chunked" else None)
    ways = traced(node, origin, tmp_path, "/a", 1, body, warm=False)
    into, out = ways.moved("splice", "origin", "pipe"), ways.moved("splice", "pipe", "client")
    assert into == out and into >= size - READ_ALONG, (into, out)
    assert ways.copied() <= 2 * READ_ALONG + 8 * KIB
    assert not ways.of("sendfile") and not ways.of("splice", "pipe", "body")


def test_no_body_is_read_by_a_thread(origin, node, tmp_path):
    """A fill that is followed at once: its bytes are in the page cache, the thread pool has nothing to do."""
    body = pattern(3 * MIB)
    origin.page("/a", body, FRESH)
    ways = traced(node, origin, tmp_path, "/a", 1, body, warm=False)
    assert not [c for c in ways.calls if c.thread != ways.main and c.name in ("pread64", "read", "openat")], \
        [c for c in ways.calls if c.thread != ways.main]
