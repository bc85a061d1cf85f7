"""The admin API on its Unix socket: purges, framing, and what it tells."""
import json
import os
import time

import pytest

from brimtest import Connection, fetch, wait_until

FRESH = {"Cache-Control": "max-age=3600"}


@pytest.fixture
def stored(origin, make_node):
    """A node with two sites and an object of each in it."""
    node = make_node(origin)
    node.conf["sites"].append({"name": "b", "hosts": ["b.test", "c.test"], "origin": "o"})
    node.reload()
    origin.page("/a", b"hello", FRESH)
    for host in ("a.test", "b.test", "c.test"):
        warm(node, host=host)
    return node


def warm(node, target="/a", headers=None, host="a.test"):
    """Asks until it is committed: who comes a moment after the first may still be one who waited with it."""
    wait_until(lambda: node.get(target, headers, host=host).committed, f"{host}{target} to be stored")


def hits(node):
    """Looks without fetching, so that what is gone stays so."""
    return {h for h in ("a.test", "b.test", "c.test")
            if node.get("/a", {"Cache-Control": "only-if-cached"}, host=h).hit}


# --- purges


@pytest.mark.parametrize("body, left", [
    ({"urls": ["http://a.test/a"]}, {"b.test", "c.test"}),
    ({"urls": ["https://a.test/a", "c.test/a"]}, {"b.test"}),
    ({"urls": ["A.Test:80/%61"]}, {"b.test", "c.test"}),
    ({"urls": ["http://a.test/other", "http://a.test/a?q"]}, {"a.test", "b.test", "c.test"}),
    ({"hosts": ["b.test"]}, {"a.test", "c.test"}),
    ({"sites": ["b"]}, {"a.test"}),
    ({"sites": ["a"], "hosts": ["c.test"]}, {"b.test"}),
    ({"all": True}, set()),
    ({"urls": ["http://a.test/a"], "all": False}, {"b.test", "c.test"}),
])
def test_a_purge_names_what_it_says(stored, body, left):
    r = stored.admin("POST", "/v1/purge", body)
    assert r.status == 200 and r.json()["purge"] > 0, r
    assert hits(stored) == left


def test_purges_are_numbered(stored):
    assert stored.purge("/a")["purge"] < stored.purge("/a")["purge"] < stored.purge_all()["purge"]


def test_a_soft_purge_makes_stale(origin, stored):
    origin.page("/a", b"hello", FRESH | {"ETag": '"1"'})
    stored.purge_all()
    assert not stored.get("/a").hit
    warm(stored)
    stored.purge("/a", soft=True)
    before = origin.count("/a")
    r = stored.get("/a")
    assert r.body == b"hello" and "fwd=stale" in r.cache
    assert origin.count("/a") == before + 1
    assert origin.last("/a").get("If-None-Match") == '"1"'


def test_a_purge_reaches_all_keys_that_rules_give(origin, make_node):
    rules = [{"match": {"cookie": ["plain"]}, "cache": {"key": {"query": "none"}}}]
    node = make_node(origin, site={"rules": rules})
    origin.page("/a", b"hello", FRESH)
    for headers in ({}, {"Cookie": "plain=1"}):
        warm(node, "/a?q", headers)
    node.purge("/a?q")
    for headers in ({}, {"Cookie": "plain=1"}):
        assert not node.get("/a?q", headers).hit


WRONG = [
    ({"urls": ["http://nobody.example/"]}, "/urls/0", "no site"),
    ({"urls": ["http://a.test/", 1]}, "/urls/1", "string"),
    ({"urls": ["ftp://a.test/"]}, "/urls/0", "http"),
    ({"urls": ["http://a.test/%zz"]}, "/urls/0", "URL"),
    ({"urls": [""]}, "/urls/0", "URL"),
    ({"urls": ["/a"]}, "/urls/0", "URL"),
    ({"urls": "http://a.test/"}, "/urls", "list"),
    ({"hosts": ["nobody.example"]}, "/hosts/0", "no site"),
    ({"hosts": ["a.test:80"]}, "/hosts/0", "port"),
    ({"sites": ["nobody"]}, "/sites/0", "no such site"),
    ({"url": ["http://a.test/"]}, "/url", "unknown"),
    ({"urls": ["http://a.test/"], "soft": "yes"}, "/soft", "true or false"),
    ({"tags": ["t"], "site": "nobody"}, "/site", "no such site"),
    ({"tags": ["t", "a b"]}, "/tags/1", "not one tag"),
    ({"tags": ["t", ""]}, "/tags/1", "not one tag"),
    ({"tags": "t"}, "/tags", "list of strings"),
    ({"site": "a", "urls": ["http://a.test/"]}, "/site", "there are none"),
    ({"site": 3, "tags": ["t"]}, "/site", "name of a site"),
    ({"prefixes": ["http://a.test/", "nobody.test/"]}, "/prefixes/1", "no site serves this host"),
    ({"prefixes": ["http://a.test/" + "x" * 5000]}, "/prefixes/0", "longer than 4095"),
    ({"prefixes": ["ftp://a.test/"]}, "/prefixes/0", "not an http or https URL"),
    ({"hosts": ["a.test:81"]}, "/hosts/0", "without a port"),
    ({"urls": ["http://a.test/"], "dry_run": 1}, "/dry_run", "true or false"),
    ({}, "", "names nothing"),
    ({"urls": []}, "", "names nothing"),
    ({"all": False}, "", "names nothing"),
    ([], "", "object"),
]


@pytest.mark.parametrize("body, pointer, word", WRONG, ids=[json.dumps(w[0]) for w in WRONG])
def test_a_wrong_purge_is_400_and_purges_nothing(stored, body, pointer, word):
    r = stored.admin("POST", "/v1/purge", body)
    error = r.json()["error"]
    assert r.status == 400 and error["pointer"] == pointer and word in error["message"], r
    assert len(hits(stored)) == 3


def raw_purge(node, data, *lines):
    with Connection(node.admin_address) as c:
        c.send("\r\n".join(["POST /v1/purge HTTP/1.1", "Host: localhost", *lines, "", ""]).encode() + data)
        return c.response()


def test_strict_json(node):
    for text, pointer in ((b'{"all": true, "all": false}', "/all"), (b'{"all": true} x', ""), (b"", ""),
                          (b'{"all": true', ""), (b'{"urls": ["http://a.test/\xff"]}', "")):
        r = raw_purge(node, text, f"Content-Length: {len(text)}")
        assert r.status == 400 and r.json()["error"]["pointer"] == pointer, (text, r)


def test_many_urls_at_once(stored):
    urls = [f"http://a.test/{n}" for n in range(3000)] + ["http://a.test/a"]
    r = stored.admin("POST", "/v1/purge", {"urls": urls})
    assert r.status == 200, r
    assert hits(stored) == {"b.test", "c.test"}
    r = stored.admin("POST", "/v1/purge", {"urls": [f"http://a.test/{n}" for n in range(10001)]})
    assert r.status == 400 and r.json()["error"]["pointer"] == "/urls/10000"


# --- HTTP


def test_paths_and_methods(node):
    for method, path, status, allow in (
            ("GET", "/x", 404, None), ("GET", "/v1/nothing", 404, None), ("GET", "/v1/purge", 405, "POST"),
            ("POST", "/v1/status", 405, "GET, HEAD"), ("DELETE", "/healthz", 405, "GET, HEAD")):
        r = node.admin(method, path)
        assert (r.status, r.get("Allow")) == (status, allow)
        assert r.json()["error"]["message"]
    head = fetch(node.admin_address, "/v1/status", "HEAD", host="localhost")
    assert head.status == 200 and head.body == b"" and int(head.get("Content-Length")) > 0


def test_framing_that_it_does_not_take(node):
    assert raw_purge(node, b"0\r\n\r\n", "Transfer-Encoding: chunked").status == 411
    assert raw_purge(node, b"", f"Content-Length: {(4 << 20) + 1}").status == 413
    assert raw_purge(node, b"", "Content-Length: 1", "Content-Length: 2").status == 400
    assert raw_purge(node, b"", "X : y").status == 400
    assert raw_purge(node, b"", "X: " + "y" * 20000).status == 431


def test_keep_alive_and_pipelining(node):
    with Connection(node.admin_address) as c:
        body = b'{"all": true}'
        one = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
        two = b"POST /v1/purge HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        c.send(one + two + one)
        assert [c.response().status for _ in range(3)] == [200, 200, 200]
        c.send(two[:-3])
        c.send(two[-3:])
        assert c.response().json()["purge"] > 0


def test_expect_continue(node):
    with Connection(node.admin_address) as c:
        c.send(b"POST /v1/purge HTTP/1.1\r\nHost: localhost\r\nContent-Length: 13\r\nExpect: 100-continue\r\n\r\n")
        assert c.receive(25) == b"HTTP/1.1 100 Continue\r\n\r\n"
        c.send(b'{"all": true}')
        assert c.response().status == 200


def test_a_head_that_does_not_come_is_not_awaited(node):
    begin = time.monotonic()
    with Connection(node.admin_address) as silent, Connection(node.admin_address) as half:
        half.send(b"GET /healthz HT")
        assert silent.closed() and half.closed()
    assert 4 < time.monotonic() - begin


def test_connections_are_limited_and_given_back(node):
    connections = [Connection(node.admin_address) for _ in range(64)]
    with Connection(node.admin_address) as beyond:
        assert beyond.closed()
    for c in connections:
        c.close()
    wait_until(lambda: answers(node), "room for a connection")


def answers(node):
    try:
        return node.admin("GET", "/healthz").status == 200
    except (OSError, AssertionError):
        return False


def test_the_socket_has_the_mode(node):
    assert os.stat(node.admin_path).st_mode & 0o7777 == 0o660


# --- what it tells


def test_status(node):
    s = node.status()
    assert s["name"] == "brim" and s["uptime"] >= 0 and s["generation"] == 1 and s["reload"] is None
    assert [p["role"] for p in s["processes"]] == ["master", "keeper", "worker", "worker"]
    assert s["processes"][0]["pid"] == node.process.pid
    assert s["stores"][0]["name"] == "s" and s["stores"][0]["state"] == "open"
    assert s["stores"][0]["size_bytes"] == 256 << 20


def test_stats_and_metrics(stored):
    site = stored.stats()["sites"]["b"]
    assert stored.stats()["stores"][0]["name"] == "s"
    assert json.dumps(site)
    r = stored.admin("GET", "/metrics")
    assert r.get("Content-Type").startswith("application/openmetrics-text")
    metrics = stored.metrics()
    assert metrics["brim_generation"] == 2
    assert metrics['brim_store_size_bytes{store="s"}'] == 256 << 20
    assert metrics['brim_restarts_total{role="keeper"}'] == 0
    families = [line.split()[2] for line in r.body.decode().splitlines() if line.startswith("# TYPE")]
    assert len(families) == len(set(families))


def test_health(node):
    assert node.admin("GET", "/healthz").body == b"ok\n"
    assert node.admin("GET", "/readyz").body == b"ready\n"


def test_object(origin, node, clock):
    origin.page("/a", b"hello", {"Cache-Control": "max-age=60", "ETag": '"1"', "X-Odd": "caf\xe9"})
    o = node.object("/a")
    assert (o["url"], o["site"], o["stored"], o["next"]) == ("http://a.test/a", "a", False, "miss")
    node.get("/a")
    o = wait_until(lambda: (o := node.object("/a"))["stored"] and o, "the object to be committed")
    v = o["variants"][0]
    assert (o["next"], v["status"], v["lifetime"], v["lifetime_by"], v["purged"]) == ("hit", 200, 60, "max-age of Cache-Control", "no")
    assert v["body"]["bytes"] == 5 and v["store"] == "s" and v["url"] == "http://a.test/a"
    assert ["ETag", '"1"'] in v["fields"] and ["X-Odd", "caf\xe9"] in v["fields"]
    assert 0 <= v["age"] <= 2 and 58 <= v["ttl"] <= 60
    clock.advance(100)
    o = node.object("/a")
    assert o["next"] == "revalidate" and o["variants"][0]["ttl"] < 0
    node.get("/a")
    node.purge("/a", soft=True)
    assert node.object("/a")["variants"][0]["purged"] == "soft"
    node.purge("/a")
    o = node.object("/a")
    assert o["next"] == "miss" and all(v["purged"] == "hard" for v in o["variants"])


def test_object_by_variants(origin, node):
    @origin.route("/v")
    def _(x):
        x.reply(x.request.get("Accept-Language", "-").encode(), FRESH | {"Vary": "Accept-Language"})
    for language in ("de", "fr"):
        node.get("/v", {"Accept-Language": language})
    o = wait_until(lambda: len((o := node.object("/v"))["variants"]) == 2 and o, "both variants")
    assert o["vary"] == ["accept-language"]


def test_object_with_more_variants_than_a_turn_shows(origin, node):
    origin.page("/many", b"x", {**FRESH, "Vary": "X-A"})
    for i in range(40):
        warm(node, "/many", {"X-A": str(i)})
    assert len(node.object("/many")["variants"]) == 40


def test_object_of_a_bypassed_url(origin, make_node):
    node = make_node(origin, site={"rules": [{"match": {"path": "/b*"}, "cache": {"bypass": True}}]})
    assert node.object("/b")["next"] == "bypass"


def test_object_wants_a_url(node):
    for query, status in (("", 400), ("?url=", 400), ("?url=http://nobody.example/", 400), ("?url=%zz", 400),
                          ("?url=http%3A%2F%2Fa.test%2F", 200), ("?url=a.test/x", 200)):
        assert node.admin("GET", "/v1/object" + query).status == status, query


def test_config(node):
    shown = node.admin("GET", "/v1/config").json()
    assert shown["sites"][0]["hosts"] == ["a.test", "*.a.test"] and "x-slots" not in shown
    assert node.admin("POST", "/v1/config/check", shown).json() == {"ok": True}
    shown["workers"] = 7
    r = node.admin("POST", "/v1/config/check", shown)
    assert r.status == 400 and r.json()["error"]["pointer"] == "/workers"
    shown["workers"], shown["sites"][0]["origin"] = 2, "none"
    r = node.admin("POST", "/v1/config/check", shown)
    assert r.status == 400 and "/sites/0/origin" in json.dumps(r.json()["faults"])
    assert node.status()["generation"] == 1


def test_a_config_with_a_nul(node):
    """Not the end of what is checked."""
    text = b'{"sites": []}\0' + b" " * 4000
    r = fetch(node.admin_address, "/v1/config/check", "POST", {"Content-Type": "application/json"}, text, host="localhost")
    assert r.status == 400 and r.json()["faults"], r
