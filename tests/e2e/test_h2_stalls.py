"""Clients that take nothing: their answers are given up after send_timeout, which is counted, and the log says why."""
import pytest

from brimtest import FRESH, pattern, wait_until
from brimtest.h2 import H2, INITIAL_WINDOW_SIZE, RST_STREAM
from brimtest.look import gauge, until_hit

BODY = pattern(16 << 20)


@pytest.fixture
def node(origin, make_node):
    node = make_node(origin, start=False, workers=1, conf={"limits": {"send_timeout": "1s"}})
    node.conf["listeners"][0]["protocols"] = ["h2", "http/1.1"]
    origin.page("/a", BODY, FRESH)
    until_hit(node.start(), "/a", BODY)
    return node


def stalled(node, n):
    wait_until(lambda: gauge(node, "send_timeouts_total") == n, "answers to be given up")
    lines = [e for e in node.access_log() if e.get("error") == "send_timeout"]
    return len(lines) == n


def test_windows_that_stay_shut(node):
    """Of a stream, and of the whole connection."""
    with H2(node.address, settings={INITIAL_WINDOW_SIZE: 0}, windows=True) as c:
        streams = [c.request("GET", "/a") for _ in range(5)]
        assert all(c.finish(s).reset is not None for s in streams)
        wait_until(lambda: stalled(node, 5), "the log to say so")
    with H2(node.address, settings={INITIAL_WINDOW_SIZE: 1 << 30}, windows=True) as c:
        c.finish(c.request("GET", "/a"))
        wait_until(lambda: stalled(node, 6), "the log to say so")


def test_a_socket_that_nobody_reads(node):
    with node.connect() as c:
        c.request(target="/a")
        wait_until(lambda: stalled(node, 1), "the log to say so")


def test_requests_of_streams_that_were_reset(origin, make_node):
    """They go on until they hear of it: until then they count as twice as many streams at most."""
    node = make_node(origin, start=False, workers=1, conf={"limits": {"h2": {"streams": 10, "resets_per_minute": 1000}}})
    node.conf["listeners"][0]["protocols"] = ["h2", "http/1.1"]
    origin.page("/a", b"hello", FRESH)
    with H2(node.start().address) as c:
        c.ping()
        burst = b""
        for _ in range(40):
            id = c.new_stream().id
            burst += c.head_frames(id, c.encoder.encode(c.fields(target="/a"))) + c.bytes_of(RST_STREAM, 0, id, b"\0\0\0\x08")
        c.send(burst)  # read in one piece, before any of the requests has had its turn
        c.ping()
        assert gauge(node, "h2_streams_total") == 20
        wait_until(lambda: c.finish(c.request("GET", "/a")).status == 200, "them to have ended")
