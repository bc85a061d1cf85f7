"""An HTTP/2 connection holds less than 1 MiB, whatever its streams wait for (docs/decisions/h2.md has the sum)."""
import re

import pytest

from brimtest import FRESH, Gate, pattern
from brimtest.h2 import CANCEL, ENHANCE_YOUR_CALM, INITIAL_WINDOW_SIZE, MAX_CONCURRENT_STREAMS, REFUSED_STREAM
from brimtest.look import gauge, until_hit, worker_of
from brimtest.wait import wait_until
from test_h2 import KIB, MIB, PASS, connect, make_h2, node  # noqa: F401 (fixtures)

pytestmark = pytest.mark.perf  # a sanitizer's memory is another matter
CONNECTIONS = 6  # what the process takes for all of them alike counts less
CHROME = [(f"sec-ch-{i}", "y" * 60) for i in range(18)] + [("cookie", "c" * 200)]
LARGE = [(f"x-{i}", "y" * 1000) for i in range(25)]


def memory(pid):
    """Bytes of a process that are no file's."""
    with open(f"/proc/{pid}/smaps_rollup") as f:
        return int(re.search(r"^Anonymous: +(\d+) kB", f.read(), re.M)[1]) * KIB


class Held:
    """An origin that answers nothing until it is let: everything under /held."""

    def __init__(self, origin):
        self.gate = Gate()

        @origin.route("/held", early=True)
        def _(x):
            self.gate.wait(60)
            x.reply(b"%d" % len(x.read_body()), PASS)


def cost(node, use, **kw):
    """Connections that are used alike: what one costs, in bytes, and all of their streams."""
    first = connect(node)
    first.ping()
    pid = worker_of(node, first)
    opened = [connect(node, **kw) for _ in range(CONNECTIONS)]
    before = memory(pid)
    streams = [use(c, n) for n, c in enumerate(opened)]
    for c in opened:
        c.ping()
    return opened, streams, lambda: (memory(pid) - before) / CONNECTIONS


@pytest.mark.parametrize("fields", [[], CHROME, LARGE], ids=["plain", "browser", "large"])
def test_streams_that_wait_for_the_origin(origin, node, fields):
    """As many as may be open at once. With heads of a browser none is refused; those that don't begin for lack of memory do when others end."""
    held = Held(origin)

    def use(c, n):
        c.ping()
        most = c.settings[MAX_CONCURRENT_STREAMS]
        return [c.request("GET", f"/held?{n}.{i}", headers=[*fields, ("x-n", f"{n}.{i}")]) for i in range(most)]
    opened, streams, now = cost(node, use)
    least = 8 if fields is LARGE else 40
    wait_until(lambda: gauge(node, "origin_busy_connections") >= least * CONNECTIONS, "the requests at the origin")
    assert now() < MIB
    held.gate.open()
    for c, asked in zip(opened, streams):
        for s in asked:
            c.finish(s)
            assert s.status == 200 or s.reset == REFUSED_STREAM and fields is LARGE, s
        assert sum(s.status == 200 for s in asked) >= least


def test_bodies_that_the_origin_does_not_read(origin, node):
    held = Held(origin)

    def use(c, n):
        c.ping()
        streams = []
        for i in range(c.settings[MAX_CONCURRENT_STREAMS]):
            s = c.request("POST", f"/held?{n}.{i}", {"content-length": "1000000"}, end=False)
            c.ping()
            c.data(s, bytes(min(c.room(s), 64 * KIB)), end=False)
            streams.append(s)
        return streams
    opened, streams, now = cost(node, use)
    wait_until(lambda: gauge(node, "origin_busy_connections") >= 20 * CONNECTIONS, "the requests at the origin")
    for c in opened:
        c.ping()
    assert now() < MIB
    held.gate.open()


def test_hits_that_no_window_lets_out(origin, node):
    """Each keeps its small body in memory: what is too much is given up, and the rest comes when it may."""
    for i in range(100):
        origin.page(f"/{i}", pattern(15 * KIB, i), FRESH)
        node.get(f"/{i}")
    for i in range(100):
        until_hit(node, f"/{i}")

    def use(c, n):
        return [c.request("GET", f"/{i}") for i in range(100)]
    opened, streams, now = cost(node, use, settings={INITIAL_WINDOW_SIZE: 0}, windows=True)
    assert now() < MIB
    for c, asked in zip(opened, streams):
        c.open_window(1 << 30)
        c.send(c.settings_frame({INITIAL_WINDOW_SIZE: MIB}))
        for i, s in enumerate(asked):
            c.finish(s)
            assert s.complete and s.body == pattern(15 * KIB, i) or s.reset == ENHANCE_YOUR_CALM, s


def test_a_held_request_is_reset(origin, node):
    """One that hasn't begun goes away with its stream, and so does its body; the others begin in its stead."""
    held = Held(origin)
    with connect(node) as c:
        streams = [c.request("POST", f"/held?{i}", headers=CHROME, end=False) for i in range(100)]
        c.ping()
        wait_until(lambda: gauge(node, "origin_busy_connections") >= 20, "the requests at the origin")
        for s in streams[90:]:
            c.data(s, b"0123", end=False)
            c.rst(s, CANCEL)
        for i in range(100, 110):
            streams.append(c.request("POST", f"/held?{i}", headers=CHROME, end=False))
        for s in streams[:90] + streams[100:]:
            c.data(s, b"01234")
        held.gate.open()
        for s in streams[:90] + streams[100:]:
            assert c.finish(s).status == 200 and s.body == b"5"
