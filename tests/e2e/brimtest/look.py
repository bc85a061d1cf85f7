"""Looking at a node from outside: who serves a connection, what processes hold, what is left over."""
import collections
import os
import re

from .wait import wait_until


def until_hit(node, target, body=None, timeout=30, **kw):
    """GETs until one is a hit, which it returns (a commit comes a moment after the last byte). All must be right."""
    def hit():
        r = node.get(target, **kw)
        assert r.status == 200 and r.complete, r
        assert body is None or r.body == body, f"{target}: wrong bytes"
        return r if r.committed else None
    return wait_until(hit, f"a hit for {target}", timeout)


def worker_of(node, connection):
    """The pid of the worker that serves a client's connection: who holds the socket at the other end."""
    ends = f"0100007F:{connection.sock.getpeername()[1]:04X} 0100007F:{connection.sock.getsockname()[1]:04X}"

    def inode():
        with open("/proc/net/tcp") as f:
            found = [line.split()[9] for line in f if ends in line]
        return found[0] if found and found[0] != "0" else None  # 0: still in the listener's queue
    link = f"socket:[{wait_until(inode, 'the connection to be accepted')}]"
    holders = [pid for pid in node.pids("worker") if link in links(pid)]
    assert len(holders) == 1, f"{holders} hold {link}"
    return holders[0]


def links(pid):
    """What a process's descriptors are."""
    out = []
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            out.append(os.readlink(f"/proc/{pid}/fd/{fd}"))
        except FileNotFoundError:
            pass
    return out


def held(pid):
    """Descriptors by kind: socket, pipe, store (the index, segments, chunks: kept open), gone (unlinked files), other."""
    kinds = collections.Counter()
    for link in links(pid):
        if link.endswith(" (deleted)") and not link.startswith("/memfd:"):
            kinds["gone"] += 1
        elif "/store/" in link:
            kinds["store"] += 1
        else:
            kinds[re.match(r"socket|pipe|", link).group() or "other"] += 1
    return kinds


def gauge(node, name):
    """A worker's gauge, over all workers: gauge(node, "connections")."""
    return sum(v for k, v in node.metrics().items() if k.startswith(f"brim_worker_{name}{{"))


def store(node):
    return node.status()["stores"][0]


class Leaks:
    """What the node holds before its load; after(): asserts that it has let go of all that came on top."""

    def __init__(self, node):
        self.node = node
        self.before = {pid: held(pid) for pid in self._pids()}

    def _pids(self):
        return self.node.pids("worker") + self.node.pids("keeper")

    def _left(self):
        """The first thing that is still held, as text; None: nothing."""
        status = self.node.status()
        counts = {name: gauge(self.node, name) for name in ("connections", "requests", "origin_busy_connections")}
        counts["claims"] = status["claims"]
        counts["dead bytes"] = sum(s["dead_open_bytes"] for s in status["stores"])
        # Files that no account knows; its directories take 1 MiB.
        unknown = self.node.store_bytes() - sum(s["used_bytes"] for s in status["stores"])
        counts["unknown bytes"] = max(unknown - (3 << 20), 0)
        held_still = {name: n for name, n in counts.items() if n}
        return held_still or self._descriptors()

    def _descriptors(self):
        first = list(self.before.values())
        for i, pid in enumerate(self._pids()):
            before, now = first[i], held(pid)
            for kind in ("socket", "gone", "other"):
                # Sockets: idle connections to the origin are closed by its end.
                if now[kind] > before[kind]:
                    return f"process {pid}: {now[kind]} of kind {kind}, {before[kind]} before; {links(pid)}"
        return None

    def after(self, origin=None, timeout=30):
        """origin: is stopped, so that no kept connection to it is counted."""
        if origin is not None:
            origin.stop()
        last = []

        def clean():
            last[:] = [self._left()]
            return last == [None]
        try:
            wait_until(clean, "the node to let go of everything", timeout)
        except AssertionError as e:
            raise AssertionError(f"{e}; left: {last[0]}") from None
