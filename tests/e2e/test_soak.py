"""Everything at once, for a while: hundreds of connections, every kind of client and origin, purges, reloads, deaths.

Each body tells what it is: its first bytes name URL and version, all others follow from these. So a byte
of another object, of another version, or in the wrong place is seen. An oracle knows which version was current
when a purge was answered: no request that begins afterwards may be answered with an older one.

A request may fail only if it should (its origin broke off), or if it was under way when a worker was
killed. Runs for SOAK_SECONDS (60; 300 with LONG); SOAK_SEED repeats a run's choices.
"""
import os
import random
import signal
import threading
import time

import pytest

from brimtest import FRAMINGS, Connection, Feed, SlowConnection, pattern, wait_until
from brimtest.look import Leaks, store

pytestmark = [pytest.mark.soak]

SECONDS = int(os.environ.get("SOAK_SECONDS") or (300 if os.environ.get("LONG") else 60))
SEED = int(os.environ.get("SOAK_SEED") or time.time_ns() % 1_000_000_007)
CLIENTS = 300
SMALL, LARGE = 300, 24  # versioned pages
MIB = 1 << 20
KILL_GRACE = 2.0  # a worker that was killed is back well before


class Page:
    """A versioned resource: the oracle's knowledge of one URL."""

    def __init__(self, number, large, rng):
        self.number, self.target = number, f"/page/{number}"
        self.size = rng.randrange(200_000, 5 * MIB) if large else rng.choice([16, 1000, 15_000, 17_000, 60_000, 90_000])
        self.framing = rng.choice(FRAMINGS)
        self.lifetime = rng.choice([0, 1, 3600, 3600])
        self.version = 1  # what the origin has
        self.floor = 1    # the least that may be seen by who asks now

    def body(self, version):
        return pattern(self.size, self.number << 32 | version)

    def tag(self, version):
        return f'"{self.number}-{version}"'


class Failures:
    """What went wrong, first of all; and when something was allowed to."""

    def __init__(self):
        self.found, self.kills = [], []
        self.forgiven = 0

    def excused(self, begun):
        return any(begun - KILL_GRACE <= killed <= time.monotonic() for killed in self.kills)

    def add(self, text):
        now = time.time()
        self.found.append(f"{time.strftime('%T', time.gmtime(now))}.{int(now * 1000) % 1000:03} ({time.monotonic():.3f}) {text}")

    def broken(self, begun, text):
        """A request that was not answered whole."""
        if self.excused(begun):
            self.forgiven += 1
        else:
            self.add(text)


class Soak:
    def __init__(self, origin, node):
        self.origin, self.node = origin, node
        rng = random.Random(SEED)
        self.pages = [Page(i, i >= SMALL, rng) for i in range(SMALL + LARGE)]
        self.failures = Failures()
        self.stop = threading.Event()
        self.counts = {}
        self.lock = threading.Lock()
        self.serve()

    def count(self, what):
        with self.lock:
            self.counts[what] = self.counts.get(what, 0) + 1

    # --- the origin

    def serve(self):
        @self.origin.route("*")
        def any_page(x):
            kind, _, rest = x.request.target[1:].partition("/")
            getattr(self, "serve_" + kind)(x, rest)

    def serve_page(self, x, rest):
        p = self.pages[int(rest)]
        version = p.version  # as it is when the request comes
        fields = {"Cache-Control": f"max-age={p.lifetime}", "ETag": p.tag(version)}
        tags = {"xkey": f"p{p.number} t{p.number % 7}"}
        if x.request.get("If-None-Match") == p.tag(version):
            x.reply(status=304, headers={**fields, **tags} if p.number % 2 else fields)
            return
        fields.update(tags)
        f = Feed(x, p.size, p.framing, fields)
        body = p.body(version)
        if p.number % 5 == 0:  # a slow one
            f.send(body[:len(body) // 3])
            time.sleep(0.03)
            body = body[len(body) // 3:]
        f.send(body)
        f.end()

    def serve_once(self, x, rest):
        size, number = map(int, rest.split("/"))
        f = Feed(x, size, FRAMINGS[number % 3])
        f.send(pattern(size, number))
        f.end()

    def serve_relay(self, x, rest):
        size, number = map(int, rest.split("/"))
        f = Feed(x, size, FRAMINGS[number % 3], {"Cache-Control": "no-store"})
        f.send(pattern(size, number))
        f.end()

    def serve_breaks(self, x, rest):
        size, number = map(int, rest.split("/"))
        f = Feed(x, size, FRAMINGS[number % 3])
        f.send(pattern(size, number)[:number % size])
        f.break_off()

    def serve_upload(self, x, rest):
        x.reply(b"%d" % len(x.request.body), {"Cache-Control": "no-store"})

    # --- what is right

    def evicted(self, p, r):
        """A large page that broke off since what lay in further chunks was evicted. Its bytes are right as far as they go."""
        if p.number < SMALL or r.status != 200 or r.complete or store(self.node)["evicted_objects"] == 0:
            return False
        if len(r.body) >= 16 and not p.body(int(r.body[:16], 16) & 0xffffffff).startswith(r.body):
            self.failures.add(f"{p.target} has wrong bytes before it breaks off")
        self.count("evicted")
        return True

    def check_page(self, p, floor, begun, r):
        if self.evicted(p, r):
            return
        if r.status != 200 or not r.complete:
            self.failures.broken(begun, f"{p.target}: {r}")
            return
        try:
            stamp = int(r.body[:16], 16)
            number, version = stamp >> 32, stamp & 0xffffffff
        except ValueError:
            number = version = None
        if number != p.number or version > p.version or r.body != p.body(version):
            self.failures.add(f"{p.target} has wrong bytes: {r} claims to be {number} in version {version}")
        elif version < floor:
            self.failures.add(f"{p.target} in version {version} after the purge of all before {floor}: {r.headers}")
        elif r.get("ETag") != p.tag(version):
            self.failures.add(f"{p.target}: the head of another version: {r.headers}, body {version}")
        self.count("hit" if r.hit else "page")

    def check_fixed(self, target, size, number, begun, r):
        if r.status != 200 or not r.complete:
            self.failures.broken(begun, f"{target}: {r}")
        elif r.body != pattern(size, number):
            self.failures.add(f"{target} has wrong bytes: {r}")

    # --- clients

    def page(self, rng):
        return self.pages[min(int(rng.paretovariate(0.7)) - 1, SMALL + LARGE - 1) if rng.random() < 0.7
                          else rng.randrange(SMALL + LARGE)]

    def do_page(self, c, rng):
        p = self.page(rng)
        floor, begun = p.floor, time.monotonic()
        c.request("GET", p.target)
        r = c.response()
        self.check_page(p, floor, begun, r)
        return not r.complete

    def do_pipeline(self, c, rng):
        pages = [self.pages[rng.randrange(SMALL)] for _ in range(3)]
        floors, begun = [p.floor for p in pages], time.monotonic()
        for p in pages:
            c.request("GET", p.target)
        for p, floor in zip(pages, floors):
            self.check_page(p, floor, begun, c.response())

    def do_conditional(self, c, rng):
        p = self.pages[rng.randrange(SMALL)]
        floor, begun = p.floor, time.monotonic()
        c.request("GET", p.target, {"If-None-Match": p.tag(floor)})
        r = c.response()
        if r.status != 304:
            self.check_page(p, floor, begun, r)
        elif r.get("ETag") != p.tag(floor):
            self.failures.add(f"{p.target}: 304 with {r.get('ETag')} for {p.tag(floor)}")

    def numbered(self, c, rng, kind, most):
        size, number = rng.randrange(1, most), rng.randrange(1 << 40)
        target, begun = f"/{kind}/{size}/{number}", time.monotonic()
        c.request("GET", target)
        return target, size, number, begun

    def do_once(self, c, rng):
        target, size, number, begun = self.numbered(c, rng, "once", 100_000)
        self.check_fixed(target, size, number, begun, c.response())

    def do_relay(self, c, rng):
        target, size, number, begun = self.numbered(c, rng, "relay", 500_000)
        self.check_fixed(target, size, number, begun, c.response())

    def do_breaks(self, c, rng):
        target, size, number, begun = self.numbered(c, rng, "breaks", 300_000)
        try:
            r = c.response()
        except ConnectionError:  # it ended before the head was out
            return True
        if r.complete and r.status == 200:
            self.failures.add(f"{target} broke off at {number % size} of {size}, and looks whole: {r.headers}")
        elif r.status == 200 and not pattern(size, number).startswith(r.body):
            self.failures.add(f"{target} has wrong bytes before it breaks off")
        return not r.complete  # the connection is gone

    def do_leave(self, c, rng):
        p = self.pages[rng.randrange(SMALL, SMALL + LARGE)]
        c.request("GET", p.target)
        c.receive(rng.randrange(1, 100))
        c.reset()
        return True

    def do_upload(self, c, rng):
        body, begun = bytes(rng.randrange(1, 300_000)), time.monotonic()
        c.request("POST", "/upload/x", body=body)
        r = c.response()
        if r.status != 200 or not r.complete:
            self.failures.broken(begun, f"/upload/x: {r}")
        elif r.body != b"%d" % len(body):
            self.failures.add(f"an upload of {len(body)} bytes came as {r.body}")

    def do_nothing(self, c, rng):
        self.stop.wait(rng.random())

    DEEDS = [("page", 60), ("pipeline", 5), ("conditional", 5), ("once", 10), ("relay", 6), ("breaks", 5), ("leave", 4),
             ("upload", 3), ("nothing", 5)]

    def one_deed(self, name, c, rng):
        self.count(name)
        return getattr(self, "do_" + name)(c, rng)

    def client(self, seed):
        rng = random.Random(seed)
        names, weights = zip(*self.DEEDS)
        c, age, alive, before = None, 0, 0, None
        while not self.stop.is_set():
            begun, deed = time.monotonic(), rng.choices(names, weights)[0]
            try:
                if c is None:
                    c, age, alive = Connection(self.node.address, 20), 0, begun
                age += 1
                gone = self.one_deed(deed, c, rng)
                if gone or c.closing or rng.random() < 0.05:
                    c.close()
                    c = None
                before = deed
                if deed != "nothing":
                    alive = time.monotonic()
            except OSError as e:  # refused, reset, ended, or late
                # Its worker may have died since it was last heard of.
                self.failures.broken(min(begun, alive), f"a client's connection in deed {age}, {deed} after {before}, begun {begun:.3f}, last heard {alive:.3f}: {e!r}")
                c.close() if c else None
                c = None
                self.stop.wait(0.05)
            self.stop.wait(rng.random() * 0.2)
        if c is not None:
            c.close()

    def slow_client(self, seed):
        rng = random.Random(seed)
        while not self.stop.is_set():
            p = self.pages[rng.randrange(SMALL, SMALL + LARGE)]
            floor, begun = p.floor, time.monotonic()
            got = bytearray()

            def take(data):
                got.extend(data)
                if not self.stop.is_set():
                    time.sleep(0.001)
            try:
                with SlowConnection(self.node.address) as c:
                    c.request("GET", p.target)
                    r = c.response(into=take)
                r.body = bytes(got)
            except OSError as e:
                self.failures.broken(begun, f"a slow client's connection: {e!r}")
                continue
            self.check_page(p, floor, begun, r)
            self.count("slow")

    # --- what happens to the node meanwhile

    def purger(self, seed):
        rng = random.Random(seed)
        while not self.stop.wait(0.02):
            p = self.page(rng) if rng.random() < 0.5 else self.pages[rng.randrange(SMALL + LARGE)]
            scope, = rng.choices(*zip(*self.SCOPES.items()))
            self.purge_scope(scope, p, rng.random() < 0.3, rng.random() < 0.3)

    # How often each is purged. What names everything is rare, or there would be no hits.
    SCOPES = {"url": 70, "tag": 15, "shared tag": 2, "prefix": 12, "host": 0.2, "site": 0.2, "all": 0.2}

    def purge_scope(self, scope, p, soft, by_traffic):
        """The pages that it names get a new version; once it is answered nobody may see an older one of them."""
        named = {"url": lambda q: q is p, "tag": lambda q: q is p, "shared tag": lambda q: q.number % 7 == p.number % 7,
                 "prefix": lambda q: q.target.startswith(p.target)}.get(scope, lambda q: True)
        pages = [q for q in self.pages if named(q)]
        with self.lock:
            for q in pages:
                q.version += 1
            versions = [q.version for q in pages]
        try:
            answered = self.ask_traffic(scope, p, soft) if by_traffic else self.ask_admin(scope, p, soft)
        except (OSError, AssertionError):  # the keeper or a worker is just being replaced
            answered = False
        if answered:
            with self.lock:
                for q, version in zip(pages, versions):
                    q.floor = max(q.floor, version)
            self.count("purged")
            self.count(f"purged by {scope}")

    def ask_admin(self, scope, p, soft):
        body = {"url": {"urls": [f"http://a.test{p.target}"]}, "tag": {"tags": [f"p{p.number}"], "site": "a"},
                "shared tag": {"tags": [f"t{p.number % 7}"]}, "prefix": {"prefixes": [f"a.test{p.target}"]},
                "host": {"hosts": ["a.test"]}, "site": {"sites": ["a"]}, "all": {"all": True}}[scope]
        return self.node.admin("POST", "/v1/purge", {**body, "soft": soft}).status == 200

    def ask_traffic(self, scope, p, soft):
        target, tags = {"url": (p.target, None), "tag": ("/", f"p{p.number}"), "shared tag": ("/", f"x, t{p.number % 7}"),
                        "prefix": (p.target + "*", None)}.get(scope, ("/*", None))
        headers = {"xkey": tags} if tags else {}
        if soft:
            headers["Soft-Purge"] = "1"
        return self.node.request("PURGE", target, headers).status == 200

    def purge_everything(self):
        with self.lock:
            for p in self.pages:
                p.version += 1
            versions = [p.version for p in self.pages]
        self.node.purge_all()
        with self.lock:
            for p, version in zip(self.pages, versions):
                p.floor = max(p.floor, version)

    def sampler(self):
        self.most = 0
        while not self.stop.wait(0.1):
            self.most = max(self.most, self.node.store_bytes())

    def kill(self, role, index=0):
        pid = self.node.pids(role)[index]
        if role == "worker":
            self.failures.kills.append(time.monotonic())
        self.node.kill(role, index)
        self.node.wait_replaced(role, pid)
        if role == "worker":
            self.failures.kills.append(time.monotonic())
        self.count(f"{role} killed")

    def reload(self, number):
        self.node.reload(site={"cache": {"default_ttl": f"{number}s", "collapse": {"wait": f"{5 + number % 20}s"}}})
        self.count("reload")

    def events(self):
        """One after the other, until the time is over."""
        deadline, number = time.monotonic() + SECONDS, 0
        script = [lambda: self.kill("worker", 0), lambda: self.kill("keeper"), self.purge_everything, lambda: self.kill("worker", 1)]
        while (left := deadline - time.monotonic()) > 0 and not self.failures.found:
            number += 1
            self.reload(number)
            if number % 2 == 0 and left > 3:
                script[number // 2 % len(script) - 1]()
            self.stop.wait(min(1.5, left))

    def run(self):
        rng = random.Random(SEED)
        jobs = [(self.client, rng.getrandbits(60)) for _ in range(CLIENTS)]
        jobs += [(self.slow_client, rng.getrandbits(60)) for _ in range(6)]
        jobs += [(self.purger, rng.getrandbits(60)), (self.sampler,)]
        threads = [threading.Thread(target=self.guarded, args=job) for job in jobs]
        for t in threads:
            t.start()
        try:
            self.events()
        finally:
            self.stop.set()
            for t in threads:
                t.join(40)
        assert not [t for t in threads if t.is_alive()], "a client hangs"

    def guarded(self, job, *args):
        try:
            job(*args)
        except BaseException as e:
            self.failures.add(f"{job.__name__}: {e!r}")


@pytest.mark.limit(SECONDS * 2 + 90)
def test_soak(origin, make_node):
    print(f"SOAK_SEED={SEED}")
    node = make_node(origin, size="64MiB", site={"purge_from": ["127.0.0.1/32"]})
    origin.page("/warm", b"warm", {"Cache-Control": "no-store"})
    for _ in range(8):
        node.get("/warm")
    leaks = Leaks(node)
    soak = Soak(origin, node)
    node.may_crash = True
    soak.run()

    print(sorted(soak.counts.items()), f"forgiven {soak.failures.forgiven}, most {soak.most} bytes on disk")
    assert not soak.failures.found, "\n".join(soak.failures.found[:20])
    killed = sum(n for what, n in soak.counts.items() if "killed" in what)
    text = node.stderr()
    assert "check_failed" not in text, "an assertion failed"
    assert len(node.log("child_died")) == killed, "somebody died of something else"
    assert soak.counts.get("hit", 0) > 100 and soak.counts.get("purged", 0) > 10
    assert all(soak.counts.get(f"purged by {scope}", 0) > 0 for scope in ("url", "tag", "prefix"))
    assert soak.most <= 64 * MIB, f"{soak.most} bytes on disk"
    leaks.after(origin, 30)
    node.stop(signal.SIGTERM)
    wait_until(lambda: not node.leftovers(), "a clean end")
