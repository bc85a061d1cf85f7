"""What the freshness verdict makes of answers, through the whole node. Every case of it is in tests/unit/cache/verdict_*_test.c."""
import os
import subprocess

import pytest

FRESH = {"Cache-Control": "max-age=60"}
CONFORMANCE = os.path.join(os.path.dirname(__file__), "..", "conformance.json")


def test_the_conformance_suites_configuration_is_valid(brim):
    r = subprocess.run([brim, "-t", "-c", CONFORMANCE], capture_output=True, text=True, timeout=60)
    assert (r.returncode, r.stderr) == (0, "")


def test_405_is_kept_by_heuristic_only_where_the_site_says_all(origin, make_node):
    origin.page("/a", b"no", {"Last-Modified": origin.date(-100_000)}, 405)
    for heuristic, hits in ((True, False), ("all", True)):
        node = make_node(origin, site={"cache": {"heuristic": heuristic}})
        node.get("/a")
        assert node.get("/a").hit is hits


def test_the_first_valid_targeted_field_replaces_cache_control(origin, make_node, clock):
    node = make_node(origin, site={"cache": {"targeted": ["Edge-Cache-Control", "CDN-Cache-Control"]}})
    origin.page("/a", b"a", {"Edge-Cache-Control": "&&", "CDN-Cache-Control": "max-age=10", "Cache-Control": "no-store"})
    origin.page("/b", b"b", {"CDN-Cache-Control": "no-store", "Cache-Control": "max-age=60"})
    node.get("/a")
    hit = node.get("/a")
    assert hit.hit and hit.get("CDN-Cache-Control") == "max-age=10" and hit.get("Cache-Control") == "no-store"
    clock.advance(11)
    assert not node.get("/a").hit
    node.get("/b")
    assert not node.get("/b").hit


@pytest.mark.parametrize("age, hits", {"10": True, "61": False, "0,99": True, "99,0": False, "0, 0": False,
                                       "x": False, "-1": False, "": False}.items())
def test_an_age_that_cannot_be_read_is_not_young(origin, node, age, hits):
    origin.page("/a", b"a", dict(FRESH, Age=age))
    node.get("/a")
    assert node.get("/a").hit is hits


def test_a_page_where_a_file_is_promised_is_not_kept_by_a_rule(origin, make_node):
    rule = {"match": {"path": "*.css"}, "cache": {"ttl": "1h"}}
    node = make_node(origin, site={"rules": [rule]})
    for path in ("/account/x.css", "/account%3fx.css", "/account/x.cs%73"):
        origin.page(path.replace("%73", "s").replace("%3f", "%3F"), b"mine", {"Content-Type": "text/html"})
        node.get(path)
        again = node.get(path)
        assert again.body == b"mine" and not again.hit
    origin.page("/style.css", b"a{}", {"Content-Type": "text/css"})
    node.get("/style.css")
    assert node.get("/style.css").hit


def test_blanks_in_lists_make_no_variants(origin, node):
    origin.page("/a", b"a", dict(FRESH, Vary="Foo, Accept-Language"))
    node.get("/a", {"Foo": "1,2", "Accept-Language": "en, de;q=0.5"})
    assert node.get("/a", {"Foo": "1 , 2", "Accept-Language": "EN,de; q=0.5"}).hit
    assert not node.get("/a", {"Foo": "1,2", "Accept-Language": "de, en;q=0.5"}).hit
    assert not node.get("/a", {"Foo": "12", "Accept-Language": "en, de;q=0.5"}).hit


def test_acme_challenges_are_not_kept(origin, node):
    origin.page("/.well-known/acme-challenge/t", b"key", FRESH)
    for _ in range(2):
        r = node.get("/.well-known/acme-challenge/t")
        assert r.body == b"key" and not r.hit
