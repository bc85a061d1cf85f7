"""Fixtures. Each test gets its own clock, origin and nodes; what they saw is shown when it fails."""
import os
import signal
import tempfile

import pytest

from brimtest import Certs, Clock, Node, Origin
from brimtest.node import binary
from brimtest.wait import PATIENCE

PLAIN_MARKS = ("perf", "strace", "soak")
KTLS = bool(os.environ.get("BRIM_KTLS"))  # said by who runs us on a kernel that has it (make vm)
collect_ignore = [] if KTLS else ["test_ktls.py", "test_ktls_origin.py"]


def pytest_collection_modifyitems(items):
    for item in items:
        if item.get_closest_marker("long") and not os.environ.get("LONG"):
            item.add_marker(pytest.mark.skip(reason="long: make test-long"))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    """A test that hangs fails by itself, so that its fixtures still end their processes."""
    mark = item.get_closest_marker("limit")
    seconds = int((mark.args[0] if mark else 100) * PATIENCE)

    def late(signum, frame):
        raise AssertionError(f"the test took over {seconds} s")

    signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    yield
    signal.alarm(0)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    if report.failed:
        for node in getattr(item, "nodes", []):
            text = node.stderr() or node.last_words
            report.sections.append((f"log of {node.conf['name']} in {node.directory}", text[-20000:]))
        for origin in getattr(item, "origins", []):
            report.sections.append(("requests to the origin", "\n".join(map(repr, origin.requests[-50:]))))


def program(node):
    """Of a test or a file of them: the sanitized one where there is one, unless something is measured."""
    plain = binary("BRIM_BIN", "build/brim-test")
    if os.environ.get("BRIM_SANITIZED_BIN") and not any(map(node.get_closest_marker, PLAIN_MARKS)):
        return binary("BRIM_SANITIZED_BIN", "")
    return plain


@pytest.fixture
def brim(request):
    return program(request.node)


@pytest.fixture
def clock():
    with tempfile.NamedTemporaryFile(prefix="brim-clock-") as f:
        os.chmod(f.name, 0o644)
        clock = Clock(f.name)
        yield clock
        clock.close()


@pytest.fixture(scope="session")
def certs():
    """A certificate authority (see Certs); its files are there until the tests end."""
    certs = Certs()
    yield certs
    certs.close()


@pytest.fixture
def make_origin(request, clock):
    """A function that starts origins."""
    origins = request.node.origins = []

    def make(**kw):
        origins.append(Origin(clock, **kw))
        return origins[-1]
    yield make
    for o in origins:
        o.stop()
    assert not [f for o in origins for f in o.faults], "\n".join(f for o in origins for f in o.faults)


@pytest.fixture
def origin(make_origin):
    return make_origin()


@pytest.fixture
def make_node(request, brim, clock):
    """A function that makes nodes (see Node) and starts them, unless start=False."""
    nodes = request.node.nodes = []

    def make(origin=None, start=True, **kw):
        node = Node(brim, origin, clock=clock, **kw)
        nodes.append(node)
        return node.start() if start else node
    yield make
    errors = []
    for node in reversed(nodes):
        try:
            node.close()
        except Exception as e:  # the others must be ended too
            errors.append(e)
    if errors:
        raise errors[0]


@pytest.fixture
def node(origin, make_node):
    """A node of two workers before the origin."""
    return make_node(origin)


@pytest.fixture(scope="module")
def shared_tls(request, certs):
    """An origin and a node of one worker with TLS before it, for all tests of a file (see tls_node). For files that also run
    on a slow machine, where starting a node for each of their tests would take most of the time."""
    origin = Origin()
    node = Node(program(request.node), origin, tls=certs.issue("a.test"), workers=1)
    try:
        yield origin, node.start()
    finally:
        node.close()
        origin.stop()
        assert not origin.faults, "\n".join(origin.faults)


@pytest.fixture
def tls_node(request, shared_tls):
    """The file's node; its .origin. What one test stores and scripts is there in the next."""
    origin, node = shared_tls
    request.node.origins, request.node.nodes = [origin], [node]
    node.origin = origin
    return node


@pytest.fixture
def chain(origin, make_node):
    """Two nodes in a row: (edge, shield). The shield is before the origin, the edge before the shield."""
    shield = make_node(origin, name="shield", workers=1, conf={"downstream": ["127.0.0.1"]})
    edge = make_node(shield, name="edge", workers=1)
    return edge, shield
