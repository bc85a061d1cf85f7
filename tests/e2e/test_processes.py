"""Processes: who dies is replaced, who is told to end ends in order, and who has no right to start doesn't."""
import os
import signal
import subprocess

import pytest

from brimtest import Gate, Node, wait_until
from brimtest.look import links

FRESH = {"Cache-Control": "max-age=3600"}


def alive(pid):
    """Running: what has ended but was not waited for doesn't count."""
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def slow_page(origin, target="/slow"):
    """A page whose second half waits for the gate."""
    gate = Gate()

    @origin.route(target)
    def _(x):
        x.head(200, {"Content-Length": "10", "Cache-Control": "no-store"})
        x.send(b"first")
        gate.wait()
        x.send(b"other")
    return gate


# --- who dies is replaced


def test_a_killed_worker_is_back_on_the_same_sockets(origin, make_node):
    node = make_node(origin, workers=1)
    origin.page("/a", b"hello", FRESH)
    assert node.get("/a").body == b"hello"
    pid = node.kill("worker")
    assert node.get("/a").body == b"hello"  # queued on the socket meanwhile, not refused
    assert pid not in node.wait_replaced("worker", pid)
    worker = next(p for p in node.status()["processes"] if p["role"] == "worker")
    assert worker["restarts"] == 1


def test_a_worker_that_dies_again_and_again_comes_back(origin, make_node):
    node = make_node(origin, workers=1)
    origin.page("/a", b"hello", FRESH)
    for _ in range(4):
        pid = node.kill("worker")
        node.wait_replaced("worker", pid)
        assert node.get("/a").body == b"hello"


def test_a_killed_keeper_is_back_and_hits_go_on(origin, node):
    origin.page("/a", b"hello", FRESH)
    wait_until(lambda: node.get("/a").committed, "the object to be stored")
    pid = node.kill("keeper")
    assert node.get("/a").body == b"hello"
    node.wait_replaced("keeper", pid)
    node.wait_ready()
    assert node.get("/a").hit
    node.purge("/a")
    assert not node.get("/a").hit


def test_the_master_leaks_no_descriptor_over_replacements(origin, make_node):
    node = make_node(origin, workers=1)
    before = node.descriptors(node.process.pid)
    for role in ("worker", "keeper", "worker"):
        pid = node.kill(role)
        node.wait_replaced(role, pid)
    wait_until(lambda: node.descriptors(node.process.pid) == before, "the master's descriptors")


def test_children_do_not_obey_signals_of_the_group(origin, node):
    pids = node.pids("worker") + node.pids("keeper")
    for pid in pids:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1):
            os.kill(pid, number)
    origin.page("/a", b"hello", FRESH)
    assert node.get("/a").body == b"hello"
    assert node.pids("worker") + node.pids("keeper") == pids


@pytest.mark.skipif(os.getuid() != 0, reason="needs root")
def test_children_run_as_the_user(origin, node):
    def ids(pid):
        with open(f"/proc/{pid}/status") as f:
            lines = dict(line.split(":", 1) for line in f)
        return set(lines["Uid"].split()), set(lines["Gid"].split()), lines["NoNewPrivs"].strip()
    for pid in node.pids("worker") + node.pids("keeper"):
        uids, gids, no_new = ids(pid)
        assert "0" not in uids | gids and no_new == "1"
    assert ids(node.process.pid)[0] == {"0"}


def test_a_worker_holds_no_sockets_of_others(origin, node):
    """Two workers, one listener: each has one listening socket of its own."""
    def listening(pid):
        inodes = {link[8:-1] for link in links(pid) if link.startswith("socket:[")}
        with open("/proc/net/tcp") as f:
            rows = [line.split() for line in f][1:]
        return {r[9] for r in rows if r[3] == "0A" and r[9] in inodes}
    first, second = (listening(pid) for pid in node.pids("worker"))
    assert len(first) == len(second) == 1 and first != second
    assert not listening(node.pids("keeper")[0])


# --- who is told to end


def test_term_finishes_what_is_under_way(origin, node):
    gate = slow_page(origin)
    with node.connect() as c:
        c.request(target="/slow")
        r = c.head()
        assert c.receive(5) == b"first"
        node.process.send_signal(signal.SIGTERM)
        node.wait_log("draining")
        wait_until(lambda: refused(node), "the listeners to close")
        assert node.admin("GET", "/readyz").status == 503
        gate.open()
        assert c.receive(5) == b"other" and r.status == 200
        assert c.closed()
    node.wait_end()


def refused(node):
    try:
        node.connect().close()
    except ConnectionRefusedError:
        return True
    return False


def test_term_closes_idle_connections(origin, node):
    origin.page("/a", b"hello", FRESH)
    with node.connect() as c:
        c.request(target="/a")
        assert c.response().complete
        node.process.send_signal(signal.SIGTERM)
        assert c.closed()
    node.wait_end()


def test_a_second_term_stops_now(origin, make_node):
    node = make_node(origin, conf={"shutdown_timeout": "60s"})
    gate = slow_page(origin)
    with node.connect() as c:
        c.request(target="/slow")
        c.head()
        node.process.send_signal(signal.SIGTERM)
        node.wait_log("draining")
        node.process.send_signal(signal.SIGTERM)
        node.wait_end()
        gate.open()


def test_the_drain_has_a_deadline(origin, make_node):
    node = make_node(origin, conf={"shutdown_timeout": "1s"})
    gate = slow_page(origin)
    with node.connect() as c:
        c.request(target="/slow")
        c.head()
        node.stop(signal.SIGTERM)
        gate.open()


def test_int_stops_now(origin, make_node):
    node = make_node(origin, conf={"shutdown_timeout": "120s"})
    gate = slow_page(origin)
    with node.connect() as c:
        c.request(target="/slow")
        c.head()
        node.stop(signal.SIGINT)
        gate.open()
    assert not os.path.exists(node.admin_path)


def test_queued_connections_are_served_before_the_sockets_close(origin, make_node):
    """Connections that wait in the queue of a stopped worker are accepted when it drains."""
    node = make_node(origin, workers=1)
    origin.page("/a", b"hello", FRESH)
    worker = node.pids("worker")[0]
    os.kill(worker, signal.SIGSTOP)
    connections = [node.connect() for _ in range(20)]
    for c in connections:
        c.request(target="/a")
    node.process.send_signal(signal.SIGTERM)
    node.wait_log("draining")
    os.kill(worker, signal.SIGCONT)
    for c in connections:
        assert c.response().body == b"hello"
        c.close()
    node.wait_end()


# --- the master's death


def test_when_the_master_dies_answers_are_finished_and_a_new_node_can_start(origin, node):
    gate = slow_page(origin)
    origin.page("/a", b"hello", FRESH)
    wait_until(lambda: node.get("/a").committed, "the object to be stored")
    workers, keeper = node.pids("worker"), node.pids("keeper")[0]
    with node.connect() as c:
        c.request(target="/slow")
        c.head()
        assert c.receive(5) == b"first"
        node.kill("master")
        node.process.wait(30)
        wait_until(lambda: not alive(keeper), "the keeper to let go of the store")
        wait_until(lambda: refused(node), "the listeners to close")
        assert any(alive(pid) for pid in workers)
        node.spawn()
        node.wait_ready()
        assert node.get("/a").hit
        gate.open()
        assert c.receive(5) == b"other"
        assert c.closed()
    wait_until(lambda: not any(alive(pid) for pid in workers), "the old workers to end")


# --- who may not start


def run(*args, timeout=30):
    return subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=timeout)


def test_a_second_node_on_the_same_store_is_refused(origin, node, brim, make_node):
    other = make_node(origin, start=False)
    other.conf["stores"][0]["path"] = node.store
    other.write_conf()
    r = run(brim, "-c", other.config_path)
    assert r.returncode == 1
    assert node.store in r.stderr and f"pid {node.process.pid}" in r.stderr and "another node" in r.stderr
    origin.page("/a", b"hello", FRESH)
    assert node.get("/a").body == b"hello"


def test_a_second_node_on_the_same_address_is_refused(origin, node, brim, make_node):
    other = make_node(origin, start=False)
    other.conf["listeners"] = node.conf["listeners"]
    other.write_conf()
    r = run(brim, "-c", other.config_path)
    assert r.returncode == 1 and "/listeners/0" in r.stderr and node.address in r.stderr
    assert os.path.exists(node.admin_path)


def test_a_user_that_does_not_exist(origin, brim, make_node):
    if os.getuid() != 0:
        pytest.skip("needs root")
    node = make_node(origin, start=False, conf={"user": "no-such-user"})
    node.write_conf()
    r = run(brim, "-c", node.config_path)
    assert r.returncode == 1 and "/user" in r.stderr and "no-such-user" in r.stderr


def test_a_socket_that_nobody_listens_on_is_replaced(origin, make_node):
    node = make_node(origin)
    node.may_crash = True
    node.kill_all()
    assert os.path.exists(node.admin_path)
    node.start()
    assert node.status()["version"]


# --- limits


def test_beyond_the_limit_of_connections_is_503(origin, make_node):
    node = make_node(origin, conf={"limits": {"connections": 2}})
    origin.page("/a", b"hello", FRESH)
    with node.connect() as one, node.connect() as two:
        for c in (one, two):
            c.request(target="/a")
            assert c.response().status == 200
        with node.connect() as three:
            r = three.response()
            assert r.status == 503 and r.get("Retry-After") == "1" and r.get("Proxy-Status").startswith("brim;")
    wait_until(lambda: node.get("/a").status == 200, "room for a connection")


def test_beyond_the_limit_of_a_client_is_503(origin, make_node):
    """Counted over all workers, and given back."""
    node = make_node(origin, conf={"limits": {"connections_per_client": 3}})
    origin.page("/a", b"hello", FRESH)
    open_now = [node.connect() for _ in range(3)]
    for c in open_now:
        c.request(target="/a")
        assert c.response().status == 200
    with node.connect() as c:
        assert c.response().status == 503
    for c in open_now:
        c.close()
    wait_until(lambda: node.get("/a").status == 200, "room for a connection")


# --- logs


def test_usr1_reopens_the_logs(origin, node):
    origin.page("/a", b"hello", FRESH)
    node.get("/a")
    assert len(node.access_log(1)) == 1
    moved = node.store + "/access.log.1"
    os.rename(node.access_path, moved)
    node.process.send_signal(signal.SIGUSR1)
    node.wait_log("logs_reopened")
    wait_until(lambda: os.path.exists(node.access_path), "a new access log")

    def written():
        node.get("/a")
        return os.path.getsize(node.access_path) > 0
    wait_until(written, "a line in the new log")
    os.unlink(moved)


# --- the command line


def test_usage(brim):
    assert run(brim, "-x").returncode == 2
    assert run(brim, "--listen", "127.0.0.1:1").returncode == 2
    r = run(brim, "-h")
    assert r.returncode == 0 and "brim --origin URL" in r.stdout
    r = run(brim, "-V")
    assert r.returncode == 0 and r.stdout.startswith("brim ") and "kTLS" in r.stdout and "splice" in r.stdout
    r = run(brim, "--dump-schema")
    assert r.returncode == 0 and '"$schema"' in r.stdout


def test_check_of_a_file(origin, brim, make_node):
    node = make_node(origin, start=False)
    node.write_conf()
    r = run(brim, "-t", "-c", node.config_path)
    assert (r.returncode, r.stdout) == (0, f"{node.config_path}: ok\n")
    node.conf["sites"][0]["orgin"] = "o"
    node.write_conf()
    r = run(brim, "-t", "-c", node.config_path)
    assert r.returncode == 1 and f"{node.config_path}: /sites/0/orgin: " in r.stderr
    assert run(brim, "-t", "-c", node.directory + "/none").returncode == 1
