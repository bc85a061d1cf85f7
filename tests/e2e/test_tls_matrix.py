"""Every pair of suite, version of HTTP, size and method, byte for byte: as a miss and as a hit. HTTP/2 by curl. With TLS in user space here, by the
kernel in the guest of tests/vm; this file doesn't know."""
import collections
import itertools

import pytest

from brimtest import pattern, wait_until
from brimtest.curl import Transfer, curl, tls_options
from brimtest.openssl import OpenSslConnection
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
        assert r.complete, what
        if self.method == "RANGE" and self.size:
            assert r.status == 206 and r.get("Content-Range") == f"bytes {self.first}-{self.last}/{self.size}", what
            assert r.body == self.body[self.first:self.last + 1], what
        elif self.method == "RANGE":
            assert r.status in (200, 416) and r.body == b"", what
        else:
            assert r.status == 200 and int(r.get("Content-Length")) == self.size, what
            assert r.body == (b"" if self.method == "HEAD" else self.body), what


def by_libssl(node, cases, version, suite):
    with OpenSslConnection(node.tls_address, version=version, suite=suite) as c:
        assert (c.version, c.suite) == (f"TLSv{version}", suite)
        answers = []
        for case in cases:
            t = case.transfer()
            c.request(t.method, t.target, {"Range": f"bytes={t.range}"} if t.range else None, t.body)
            answers.append(c.response(t.method))
    return answers


def by_curl(node, certs, cases, version, suite):
    answers = curl(node.tls_address, certs.root, [c.transfer() for c in cases], tls_options(version, suite), timeout=120)
    assert sum(r.connects for r in answers) == 1, "the connection was closed in between"
    assert {r.http_version for r in answers} == {"2"}
    return answers


def check_cases(node, certs, suite, cases):
    """Misses, then hits; each of the two rounds on one connection. All of one version of HTTP."""
    for case in cases:
        case.serve(node.origin)

    def round_of(cases):
        if cases[0].http == "1.1":
            answers = by_libssl(node, cases, *SUITES[suite])
        else:
            answers = by_curl(node, certs, cases, *SUITES[suite])
        for case, r in zip(cases, answers):
            case.check(r)
        return answers

    round_of(cases)
    cached = [c for c in cases if c.method != "POST"]
    if not cached:
        return
    for case in cached:
        if case.method != "GET":
            node.get(case.target, into=len)
        wait_until(lambda: node.request("HEAD", case.target).committed, f"{case.target} to be stored")
    for case, r in zip(cached, round_of(cached)):
        assert r.hit, f"{case.target}: {r}"


@pytest.mark.parametrize("suite", SUITES)
def test_pairs(tls_node, certs, suite):
    for http in HTTP:
        check_cases(tls_node, certs, suite, [Case(*case[1:]) for case in CASES if case[:2] == (suite, http)])
        tls_node.purge_all()


@pytest.mark.parametrize("suite, http", [("1.2-aes128", "1.1"), ("1.3-aes128", "2")])
def test_a_large_body(tls_node, certs, suite, http):
    check_cases(tls_node, certs, suite, [Case(http, 16 << 20, "GET")])


LARGEST = 100 << 20


def methods_for(size, suite, http):
    """All; but on a slow machine (the guest does some 3 MB/s) the largest body once a suite, over each version of HTTP in turn."""
    if size < LARGEST or PATIENCE == 1:
        return METHODS
    return ["GET"] if (list(SUITES).index(suite) + HTTP.index(http)) % 2 == 0 else []


@pytest.mark.long
@pytest.mark.limit(1200)
@pytest.mark.parametrize("http", HTTP)
@pytest.mark.parametrize("suite", SUITES)
def test_all(make_node, origin, certs, suite, http):
    node = make_node(origin, tls=certs.issue("a.test"), size="2GiB")
    node.origin = origin
    for size in [*SIZES, 16 << 20, LARGEST]:
        cases = [Case(http, size, method) for method in methods_for(size, suite, http)]
        if cases:
            check_cases(node, certs, suite, cases)
        node.purge_all()
