"""Reload in place: all processes or none, and no connection or request is lost."""
import os
import signal
import threading

from brimtest import Gate, wait_until

FRESH = {"Cache-Control": "max-age=3600"}


def two_sites(node):
    return [node.conf["sites"][0], {"name": "b", "hosts": ["b.test"], "origin": "o"}]


def test_a_new_site_answers(origin, node):
    origin.page("/a", b"hello", FRESH)
    assert node.get("/a", host="b.test").status == 421
    node.reload({"sites": two_sites(node)})
    for _ in range(8):  # whichever worker
        assert node.get("/a", host="b.test").body == b"hello"
    status = node.status()
    assert status["generation"] == 2 and status["reload"]["ok"] is True


def test_a_bad_file_changes_nothing(origin, node):
    origin.page("/a", b"hello", FRESH)
    event = node.reload({"sites": [{"name": "a", "hosts": ["a.test"], "orgin": "o"}]}, ok=False)
    assert "/sites/0/orgin" in event["fault"]
    assert node.get("/a").body == b"hello"
    status = node.status()
    assert status["generation"] == 1 and status["reload"]["ok"] is False
    assert "/sites/0/orgin" in status["reload"]["fault"]


def test_what_needs_a_restart_is_refused(origin, node):
    origin.page("/a", b"hello", FRESH)
    event = node.reload({"workers": 3}, ok=False)
    assert "/workers" in event["fault"]
    assert node.get("/a").body == b"hello"


def test_a_log_that_cannot_be_opened_is_refused(origin, node):
    origin.page("/a", b"hello", FRESH)
    event = node.reload({"log": {"access": {"path": node.directory + "/none/access.log"}}}, ok=False)
    assert "/log/access/path" in event["fault"]
    node.get("/a")
    assert node.access_log(1)


def test_another_access_log(origin, node):
    origin.page("/a", b"hello", FRESH)
    other = node.store + "/other.log"
    node.reload({"log": {"access": {"path": other}}})

    def written():
        node.get("/a")
        return os.path.exists(other) and os.path.getsize(other) > 0
    wait_until(written, "a line in the new log")
    os.unlink(other)


def test_a_connection_lives_on_with_the_new_configuration(origin, node):
    origin.page("/a", b"hello", FRESH)
    with node.connect() as c:
        c.request(target="/a", host="b.test")
        assert c.response().status == 421
        node.reload({"sites": two_sites(node)})
        c.request(target="/a", host="b.test")
        assert c.response().body == b"hello"


def test_a_request_keeps_the_snapshot_it_began_with(origin, node):
    gate = Gate()

    @origin.route("/slow")
    def _(x):
        x.head(200, {"Content-Length": "10", "Cache-Control": "max-age=60"})
        x.send(b"first")
        gate.wait()
        x.send(b"other")
    with node.connect() as c:
        c.request(target="/slow")
        r = c.head()
        node.reload({"sites": [{"name": "b", "hosts": ["b.test"], "origin": "o"}]})
        gate.open()
        c.read_body(r)
        assert r.body == b"firstother" and r.complete
        c.request(target="/slow")
        assert c.response().status == 421


def test_nothing_is_lost_under_load(origin, node):
    origin.page("/a", b"hello", FRESH)
    origin.page("/pass", b"world", {"Cache-Control": "no-store"})
    stop, faults, counts = threading.Event(), [], [0, 0, 0, 0]

    def client(n):
        try:
            with node.connect() as c:
                while not stop.is_set():
                    target, body = (("/a", b"hello"), ("/pass", b"world"))[counts[n] % 2]
                    c.request(target=target)
                    r = c.response()
                    assert r.status == 200 and r.body == body, r
                    counts[n] += 1
        except Exception as e:
            faults.append(repr(e))

    threads = [threading.Thread(target=client, args=(n,)) for n in range(len(counts))]
    for t in threads:
        t.start()
    try:
        for n in range(5):
            before = sum(counts)
            node.reload({"limits": {"idle_timeout": f"{60 + n}s"}})
            wait_until(lambda: faults or sum(counts) > before + 20, "requests between reloads")
    finally:
        stop.set()
        for t in threads:
            t.join(20)
    assert not faults
    assert node.status()["generation"] == 6


def test_a_new_worker_has_the_committed_configuration(origin, node):
    origin.page("/a", b"hello", FRESH)
    node.reload({"sites": two_sites(node)})
    for index in (0, 1):
        node.wait_replaced("worker", node.kill("worker", index))
    for _ in range(8):
        assert node.get("/a", host="b.test").body == b"hello"


def test_a_child_that_does_not_answer_is_replaced(origin, make_node):
    node = make_node(origin)
    origin.page("/a", b"hello", FRESH)
    pid = node.pids("worker")[0]
    node.may_crash = True
    os.kill(pid, signal.SIGSTOP)
    node.reload({"sites": two_sites(node)})
    assert node.log("child_unresponsive")[0]["pid"] == str(pid)
    node.wait_replaced("worker", pid)
    for _ in range(8):
        assert node.get("/a", host="b.test").body == b"hello"


def test_sites_keep_their_counters(origin, node):
    origin.page("/a", b"hello", FRESH)
    node.get("/a")
    # A request is counted when it is over, which its client may know first.
    wait_until(lambda: node.stats()["sites"]["a"]["requests"]["miss"] == 1, "the request to be counted")
    before = node.stats()["sites"]["a"]
    node.reload({"sites": [{"name": "b", "hosts": ["b.test"], "origin": "o"}, node.conf["sites"][0]]})
    assert node.stats()["sites"]["a"] == before


def test_by_the_admin_api(origin, node):
    origin.page("/a", b"hello", FRESH)
    node.conf["sites"] = two_sites(node)
    node.write_conf()
    r = node.admin("POST", "/v1/reload")
    assert (r.status, r.json()) == (200, {"generation": 2, "dry_run": False})
    assert node.get("/a", host="b.test").body == b"hello"

    node.conf["sites"][1]["origin"] = "none"
    node.write_conf()
    r = node.brimctl("reload")
    assert r.returncode == 1 and "/sites/1/origin" in r.stderr
    assert node.status()["generation"] == 2
