"""Every pair of suite, version of HTTP, size and method, byte for byte: as a miss and as a hit. With TLS in user space here, by the
kernel in the guest of tests/vm; this file doesn't know."""
import collections
import itertools

import pytest

from brimtest import pattern
from brimtest.curl import Transfer, curl, tls_options
from brimtest.look import until_hit
from brimtest.wait import PATIENCE

pytestmark = pytest.mark.ktls

RECORD = 16 << 10  # the most that a TLS record holds
SUITES = {
    "1.3-aes128": ("1.3", "TLS_AES_128_GCM_SHA256"),
    "1.3-aes256": ("1.3", "TLS_AES_256_GCM_SHA384"),
    "1.3-chacha": ("1.3", "TLS_CHACHA20_POLY1305_SHA256"),
    "1.2-aes128": ("1.2", "ECDHE-ECDSA-AES128-GCM-SHA256"),
    "1.2-aes256": ("1.2", "ECDHE-ECDSA-AES256-GCM-SHA384"),
    "1.2-chacha": ("1.2", "ECDHE-ECDSA-CHACHA20-POLY1305"),
}
HTTP = ["1.1", "2"]
SIZES = [0, 1, RECORD - 1, RECORD, RECORD + 1, 1 << 20]
METHODS = ["GET", "HEAD", "RANGE", "POST"]
FRESH = {"Cache-Control": "max-age=3600", "ETag": '"v1"'}


def pairwise(*factors):
    """Few cases that hold every pair of values of any two factors, with the values used alike; always the same ones."""
    def pairs(case):
        return set(itertools.combinations(enumerate(case), 2))
    product = [(case, pairs(case)) for case in itertools.product(*factors)]
    left, chosen, used = set().union(*(p for _, p in product)), [], collections.Counter()
    while left:
        case, covered = max(product, key=lambda entry: (len(entry[1] & left), -sum(used[v] for v in enumerate(entry[0]))))
        chosen.append(case)
        used.update(enumerate(case))
        left -= covered
    return chosen


CASES = pairwise(SUITES, HTTP, SIZES, METHODS)


class Case:
    """One request and what its answer must be."""

    def __init__(self, http, size, method):
        self.http, self.size, self.method = http, size, method
        self.target = f"/{method.lower()}-{size}-{http}"
        self.body = pattern(size, seed=size)
        # Begins and ends within records.
        self.first, self.last = size // 3, max(size // 3, size - 2)

    def transfer(self):
        if self.method == "POST":
            return Transfer(self.target, "POST", self.http, body=self.body)
        if self.method == "RANGE":
            return Transfer(self.target, http=self.http, range=f"{self.first}-{self.last}")
        return Transfer(self.target, self.method, self.http)

    def serve(self, origin):
        @origin.route(self.target)
        def _(x):
            if x.request.method == "POST":
                x.reply(x.request.body, {"Cache-Control": "no-store"})
            elif x.request.get("Range") and self.size:
                x.reply(self.body[self.first:self.last + 1],
                        FRESH | {"Content-Range": f"bytes {self.first}-{self.last}/{self.size}"}, 206)
            else:
                x.reply(self.body, FRESH)

    def check(self, r):
        what = f"{self.target}: {r}"
        assert r.complete and r.http_version == self.http, what
        if self.method == "RANGE" and self.size:
            assert r.status == 206 and r.get("Content-Range") == f"bytes {self.first}-{self.last}/{self.size}", what
            assert r.body == self.body[self.first:self.last + 1], what
        elif self.method == "RANGE":
            assert r.status in (200, 416) and r.body == b"", what
        else:
            assert r.status == 200 and int(r.get("Content-Length")) == self.size, what
            assert r.body == (b"" if self.method == "HEAD" else self.body), what


def check_cases(origin, node, certs, suite, cases):
    """Misses, then hits; each of the two rounds on one connection. All of one version of HTTP."""
    for case in cases:
        case.serve(origin)

    def round_of(cases):
        answers = curl(node.tls_address, certs.root, [c.transfer() for c in cases], tls_options(*SUITES[suite]), timeout=120)
        for case, r in zip(cases, answers):
            case.check(r)
        assert sum(r.connects for r in answers) == 1, "the connection was closed in between"
        return answers

    round_of(cases)
    cached = [c for c in cases if c.method != "POST"]
    if not cached:
        return
    for case in cached:
        until_hit(node, case.target, case.body)
    for case, r in zip(cached, round_of(cached)):
        assert r.hit, f"{case.target}: {r}"


@pytest.fixture
def node(origin, make_node, certs):
    return make_node(origin, tls=certs.issue("a.test"), workers=1)


@pytest.mark.limit(120)
def test_pairs(origin, node, certs):
    for suite, http in itertools.product(SUITES, HTTP):
        check_cases(origin, node, certs, suite, [Case(*case[1:]) for case in CASES if case[:2] == (suite, http)])
        node.purge_all()


@pytest.mark.parametrize("suite, http", [("1.2-aes128", "1.1"), ("1.3-aes128", "2")])
def test_a_large_body(origin, node, certs, suite, http):
    check_cases(origin, node, certs, suite, [Case(http, 16 << 20, "GET")])


@pytest.mark.long
@pytest.mark.limit(1200)
@pytest.mark.parametrize("http", HTTP)
@pytest.mark.parametrize("suite", SUITES)
def test_all(origin, make_node, certs, suite, http):
    """On a slow machine (the guest does some 3 MB/s) without the largest."""
    sizes = [*SIZES, 16 << 20, *([100 << 20] if PATIENCE == 1 else [])]
    node = make_node(origin, tls=certs.issue("a.test"), size="2GiB")
    for size in sizes:
        check_cases(origin, node, certs, suite, [Case(http, size, method) for method in METHODS])
        node.purge_all()
