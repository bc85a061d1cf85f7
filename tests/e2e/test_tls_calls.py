"""What TLS in user space adds to the system calls of a request: nothing but that bodies are read and sent by us."""
import pytest

from brimtest import FRESH, pattern
from brimtest.look import until_hit, worker_of
from brimtest.trace import Trace

pytestmark = pytest.mark.strace

KIB, MIB = 1 << 10, 1 << 20
TIMERS = {"epoll_wait", "epoll_pwait", "read", "write", "getpid", "newfstatat", "restart_syscall"}  # of the loop's own seconds


@pytest.mark.parametrize("size, times", [(1 * KIB, 50), (100 * KIB, 20)])
def test_a_hit(origin, make_node, certs, tmp_path, size, times):
    node = make_node(origin, tls=certs.issue(["a.test", "*.a.test"]), workers=1, conf={"log": {"access": None}})
    body = pattern(size)
    origin.page("/a", body, FRESH)
    node.get("/a")
    until_hit(node, "/a", body)
    with node.connect_tls(certs.root) as c:
        for _ in range(3):
            c.request(target="/a")
            c.response()
        with Trace(worker_of(node, c), str(tmp_path)) as trace:
            for _ in range(times):
                c.request(target="/a")
                assert c.response().body == body
    names = {}
    for call in trace.calls:
        if call.thread == node.pids("worker")[0] and call.name not in TIMERS:
            names[call.name] = names.get(call.name, 0) + 1
    assert names["recvfrom"] == times, "one read gets a request: no second one that finds nothing"
    if size <= 16 * KIB:
        assert names == {"recvfrom": times, "sendto": times}, names  # the object is hot by now
    else:
        # Head and body by one call, and again for what the socket did not take.
        assert names["sendto"] <= 3 * times and names["preadv"] <= 2 * times, names
