"""The admin API over TCP: who may do what; draining; reloads that only try."""
import json
import os
import secrets
import signal
import socket
import threading

import pytest

from brimtest import Connection, TlsConnection, fetch, wait_until
from brimtest.node import free_port

FRESH = {"Cache-Control": "max-age=3600"}


# --- draining


def ask(connection):
    connection.request("GET", "/a")
    return connection.response()


def refused(node):
    try:
        with socket.create_connection(("127.0.0.1", node.port), 5):
            return False
    except ConnectionRefusedError:
        return True


def test_a_drained_node_takes_no_connection_until_it_resumes(origin, node):
    origin.page("/a", b"hello", FRESH)
    with node.connect() as kept, node.connect() as untouched:
        assert ask(kept).status == 200
        r = node.admin("POST", "/v1/drain")
        assert r.status == 200 and r.json()["draining"] is True, r
        assert all(refused(node) for _ in range(8))
        assert kept.closed()
        assert ask(untouched).get("Connection") == "close"  # taken before: it gets its answer
    assert node.admin("GET", "/readyz").status == 503 and node.status()["draining"] is True
    assert node.admin("GET", "/healthz").status == 200
    assert node.admin("POST", "/v1/drain").status == 200  # again: nothing changes
    r = node.admin("POST", "/v1/resume")
    assert r.status == 200 and r.json()["draining"] is False
    assert [node.get("/a").status for _ in range(8)] == [200] * 8
    with node.connect() as kept:
        assert ask(kept).status == ask(kept).status == 200
    assert node.admin("GET", "/readyz").status == 200
    changes = [e for e in node.log("admin_change")]
    assert [e["call"] for e in changes] == ["/v1/drain", "/v1/drain", "/v1/resume"]
    assert {e["who"] for e in changes} == {f"uid:{os.getuid()}"}


def test_a_request_under_way_is_finished_by_a_drained_node(origin, node):
    gate = threading.Event()

    @origin.route("/slow")
    def _(x):
        gate.wait(20)
        x.reply(b"done")
    with node.connect() as c:
        c.send(b"GET /slow HTTP/1.1\r\nHost: a.test\r\n\r\n")
        wait_until(lambda: origin.count("/slow"), "the request to arrive")
        assert node.admin("POST", "/v1/drain").json()["connections"] == 1
        gate.set()
        assert c.response().body == b"done"


def test_a_worker_that_starts_in_a_drained_node_takes_none_either(node):
    node.admin("POST", "/v1/drain")
    pid = node.kill("worker", 0)
    node.wait_replaced("worker", pid)
    assert node.admin("POST", "/v1/drain").status == 200  # answers once it obeys, too
    assert all(refused(node) for _ in range(8))
    pid = node.kill("worker", 1)
    node.admin("POST", "/v1/resume")
    wait_until(lambda: node.admin("GET", "/readyz").status == 200, "all workers to be back")
    for _ in range(8):
        node.get("/")


def test_a_drained_node_ends_in_order(node):
    node.admin("POST", "/v1/drain")
    node.stop()


# --- reload


def test_a_reload_can_be_tried(node):
    r = node.admin("POST", "/v1/reload?dry_run")
    assert r.status == 200 and r.json() == {"generation": 1, "dry_run": True}
    node.conf["sites"][0]["cache"] = {"default_ttl": "1h"}
    node.write_conf()
    assert node.admin("POST", "/v1/reload?dry_run=true").status == 200
    assert node.status()["generation"] == 1
    assert node.admin("POST", "/v1/reload?dry_run=0").json() == {"generation": 2, "dry_run": False}
    node.conf["workers"] = 7
    node.write_conf()
    for path in ("/v1/reload?dry_run=1", "/v1/reload"):
        r = node.admin("POST", path)
        assert r.status == 400 and r.json()["error"]["pointer"] == "/workers", r
    assert node.status()["generation"] == 2
    assert node.admin("POST", "/v1/reload?dry_run=maybe").status == 400


def large_candidate(node):
    """It takes a second to check, and is fine."""
    rules = [{"match": {"path": f"/a{i}*"}, "cache": {"ttl": "1s"}} for i in range(60)]
    sites = [{"name": f"s{n}", "hosts": [f"s{n}.test"], "origin": "o", "rules": rules} for n in range(900)]
    return json.dumps(node.conf | {"sites": sites}, separators=(",", ":")).encode()


def begin_check(node, body):
    c = Connection(node.admin_address)
    c.request("POST", "/v1/config/check", {"Content-Type": "application/json"}, body, host="localhost")
    return c


def checked_elsewhere(node):
    return node.admin("POST", "/v1/config/check", node.conf).status == 503


def test_a_large_candidate_keeps_nobody(node):
    """Others are answered while it is checked: that another check is refused shows that it still is."""
    with begin_check(node, large_candidate(node)) as large:
        wait_until(lambda: checked_elsewhere(node), "the large one to be checked while we ask")
        assert large.response().json() == {"ok": True}
    assert node.admin("POST", "/v1/config/check", node.conf).json() == {"ok": True}


def test_a_check_whose_client_leaves_and_whose_node_ends(node):
    with begin_check(node, large_candidate(node)):
        wait_until(lambda: checked_elsewhere(node), "it to be checked")
    wait_until(lambda: not checked_elsewhere(node), "the check that nobody waits for to end")
    with begin_check(node, large_candidate(node)):
        wait_until(lambda: checked_elsewhere(node), "it to be checked")
        node.stop()


def test_the_first_thousand_faults_are_told(node):
    site = node.conf["sites"][0] | {f"k{i}": 0 for i in range(5000)}
    r = node.admin("POST", "/v1/config/check", node.conf | {"sites": [site]})
    assert r.status == 400 and len(r.json()["faults"]) == 1000, r


def test_a_new_keepers_reload_is_not_answered_by_its_predecessors(origin, make_node):
    """The first waits for a worker that is stopped when its keeper dies; the second asks for a file that is wrong by then."""
    node = make_node(origin, workers=2)
    node.may_crash = True
    log = node.store + "/other.log"
    node.conf["log"] = {"access": {"path": log}}
    node.write_conf()
    worker, keeper = node.pids("worker")[0], node.pids("keeper")[0]
    os.kill(worker, signal.SIGSTOP)
    try:
        with Connection(node.admin_address) as first:
            first.request("POST", "/v1/reload", host="localhost")
            wait_until(lambda: os.path.exists(log), "the master to have read the file")
            os.kill(keeper, signal.SIGKILL)
        node.wait_replaced("keeper", keeper)
        node.conf["workers"] = 7
        node.write_conf()
        answers = []
        asks = threading.Thread(target=lambda: answers.append(node.admin("POST", "/v1/reload")))
        asks.start()
        node.status()  # the keeper took the call before this one
    finally:
        os.kill(worker, signal.SIGCONT)
    asks.join()
    assert answers[0].status == 400 and answers[0].json()["error"]["pointer"] == "/workers", answers


# --- TCP and tokens


ROLES = {"reader": "read", "purger": "purge", "ruler": "admin", "tenant": "purge"}


def make_guarded(origin, make_node, tmp_path, listen="127.0.0.1", **admin):
    """A node whose admin API is on TCP, too, with a token for each role; node.bearer(name) asks with one."""
    tokens = {name: secrets.token_hex(16) for name in ROLES}
    listed = []
    for name, role in ROLES.items():
        path = tmp_path / f"{name}.token"
        path.write_text(tokens[name] + "\n")
        path.chmod(0o600)
        listed.append({"name": name, "file": str(path), "role": role})
        if name == "tenant":
            listed[-1]["sites"] = ["a"]
    ports = [free_port() for _ in range(2)]
    node = make_node(origin, start=False)
    node.conf["sites"].append({"name": "b", "hosts": ["b.test"], "origin": "o"})
    node.conf["admin"] |= {"listen": [node.admin_address, f"{listen}:{ports[0]}"], "tokens": listed,
                           "metrics_listen": [f"{listen}:{ports[1]}"], "hosts": ["brim.example"]} | admin
    node.start()
    node.tcp, node.metrics_address = (f"127.0.0.1:{port}" for port in ports)
    node.tokens, node.token_file = tokens, lambda name: str(tmp_path / f"{name}.token")

    def bearer(name, method, path, body=None, host="localhost", **headers):
        fields = {"Authorization": f"Bearer {tokens.get(name, name)}"} if name else {}
        return fetch(node.tcp, path, method, fields | headers, body, host=host)
    node.bearer = bearer
    return node


@pytest.fixture
def guarded(origin, make_node, tmp_path):
    return make_guarded(origin, make_node, tmp_path)


READS = ["/v1/status", "/v1/stats", "/v1/object?url=http://a.test/", "/metrics", "/v1/config"]
PURGE = b'{"urls": ["http://a.test/"]}'


def test_a_token_bounds_what_is_done(guarded):
    for path in READS:
        for name, status in ((None, 401), ("nonsense-nonsense", 401), ("reader", 200), ("purger", 200), ("ruler", 200)):
            r = guarded.bearer(name, "GET", path)
            assert r.status == status, (name, path, r)
            assert (status == 401) == (r.get("WWW-Authenticate") is not None)
    for name, status in ((None, 401), ("reader", 403), ("purger", 200), ("ruler", 200)):
        assert guarded.bearer(name, "POST", "/v1/purge", PURGE).status == status, name
    for path in ("/v1/reload?dry_run", "/v1/resume"):
        for name, status in ((None, 401), ("reader", 403), ("purger", 403), ("ruler", 200)):
            assert guarded.bearer(name, "POST", path).status == status, (name, path)


def test_without_a_token(guarded):
    for path, status in (("/", 200), ("/healthz", 200), ("/readyz", 200), ("/v1/nothing", 404)):
        assert guarded.bearer(None, "GET", path).status == status
    page = guarded.bearer(None, "GET", "/")
    assert page.get("Content-Type").startswith("text/html") and "default-src 'none'" in page.get("Content-Security-Policy")


def test_a_token_of_sites_sees_no_other(guarded):
    assert guarded.bearer("tenant", "POST", "/v1/purge", PURGE).status == 200
    assert guarded.bearer("tenant", "GET", "/v1/object?url=http://a.test/").status == 200
    assert guarded.bearer("tenant", "GET", "/v1/object?url=http://b.test/").status == 403
    assert list(guarded.bearer("tenant", "GET", "/v1/stats").json()["sites"]) == ["a"]
    for path in ("/metrics", "/v1/config"):
        assert guarded.bearer("tenant", "GET", path).status == 403


def test_a_token_of_sites_is_not_told_what_is_wrong_with_others(guarded):
    guarded.conf["sites"][1]["hosts"] = ["a.test"]
    guarded.write_conf()
    assert guarded.bearer("ruler", "POST", "/v1/reload").status == 400
    assert "/sites/1/hosts" in guarded.bearer("reader", "GET", "/v1/status").json()["reload"]["fault"]
    told = guarded.bearer("tenant", "GET", "/v1/status").json()["reload"]
    assert told["ok"] is False and "fault" not in told


def test_a_token_of_sites_purges_no_other(guarded):
    for body in (b'{"urls": ["http://b.test/"]}', b'{"urls": ["http://a.test/", "http://b.test/"]}', b'{"sites": ["b"]}',
                 b'{"hosts": ["b.test"]}', b'{"all": true}'):
        assert guarded.bearer("tenant", "POST", "/v1/purge", body).status == 403, body


def test_tags_of_all_sites_are_for_the_role_admin(guarded):
    for name, body, status in (("tenant", b'{"tags": ["t"]}', 403), ("purger", b'{"tags": ["t"]}', 403), ("ruler", b'{"tags": ["t"]}', 200),
                               ("tenant", b'{"tags": ["t"], "site": "b"}', 403), ("tenant", b'{"tags": ["t"], "site": "a"}', 200),
                               ("purger", b'{"tags": ["t"], "site": "b"}', 200), ("purger", b'{"all": true}', 200)):
        assert guarded.bearer(name, "POST", "/v1/purge", body).status == status, (name, body)


def test_tokens_change_by_a_reload(guarded):
    path = guarded.token_file("ruler")
    new = secrets.token_hex(16)
    with open(path, "w") as f:
        f.write(new)
    assert guarded.bearer("ruler", "POST", "/v1/reload").status == 200
    assert guarded.bearer("ruler", "GET", "/v1/status").status == 401
    assert guarded.bearer(new, "GET", "/v1/status").status == 200


def test_metrics_listen_serves_three_paths(guarded):
    for path, status in (("/metrics", 200), ("/healthz", 200), ("/readyz", 200), ("/", 404), ("/v1/status", 404),
                         ("/v1/purge", 404)):
        assert fetch(guarded.metrics_address, path, host="localhost").status == status, path


@pytest.mark.parametrize("host, status", [
    ("localhost", 200), ("127.0.0.1:1", 200), ("[::1]", 200), ("Brim.Example:9000", 200), ("evil.example", 421),
    ("localhost.evil.example", 421)])
def test_host_is_a_name_of_ours(guarded, host, status):
    assert guarded.bearer("reader", "GET", "/v1/status", host=host).status == status
    assert fetch(guarded.metrics_address, "/healthz", host=host).status == status
    assert fetch(guarded.admin_address, "/healthz", host=host).status == status


def test_no_page_of_another_origin_gets_in(guarded):
    assert guarded.bearer("reader", "GET", "/v1/status", Origin="http://localhost").status == 200
    for origin in ("http://evil.example", "null", "http://localhost:1"):
        assert guarded.bearer("reader", "GET", "/v1/status", Origin=origin).status == 403
        assert guarded.bearer(None, "GET", "/healthz", Origin=origin).status == 403
    r = guarded.bearer("reader", "OPTIONS", "/v1/status", **{"Access-Control-Request-Method": "GET"})
    assert r.status == 405 and not any(name.lower().startswith("access-control") for name, _ in r.headers)


def test_changes_and_refusals_are_in_the_log(guarded):
    guarded.bearer("purger", "POST", "/v1/purge", PURGE)
    guarded.bearer("purger", "POST", "/v1/purge", b"{}")
    guarded.bearer("secret-of-nobody", "POST", "/v1/purge", PURGE)
    guarded.bearer("reader", "POST", "/v1/purge", PURGE)
    guarded.bearer("reader", "GET", "/v1/status")
    done, wrong = guarded.log("admin_change")
    assert (done["who"], done["call"], done["status"]) == ("token:purger", "/v1/purge", "200")
    assert done["from"].startswith("127.0.0.1:") and done["purge"] != "0" and done["items"] == "1" and done["soft"] == "false"
    assert wrong["status"] == "400" and wrong["error"]
    refused = guarded.log("admin_refused")
    assert refused[0]["who"] == "nobody" and refused[0]["status"] == "401"
    assert "secret-of-nobody" not in guarded.stderr()


def test_the_log_tells_what_was_purged_without_queries(node):
    assert node.admin("POST", "/v1/purge", {"soft": True, "urls": ["http://a.test/x?token=hush", "http://a.test/z"], "tags": ["t"], "site": "a"}).status == 200
    assert node.admin("POST", "/v1/purge", {"all": True, "dry_run": True}).status == 200
    names, everything = node.log("admin_change")
    assert (names["items"], names["urls"], names["tags"], names["site"], names["first"], names["soft"]) == ("3", "2", "1", "a", "http://a.test/x", "true")
    assert "hush" not in node.stderr()
    assert (everything["all"], everything["items"], everything["dry_run"]) == ("true", "1", "true") and "first" not in everything


def test_strangers_cannot_lock_out_who_sits_at_the_machine(guarded):
    strangers = [Connection(guarded.tcp) for _ in range(48)]
    try:
        with Connection(guarded.tcp) as beyond:
            assert beyond.closed()
        assert guarded.admin("GET", "/healthz").status == 200
    finally:
        for c in strangers:
            c.close()


def test_from_afar_it_speaks_tls(origin, make_node, tmp_path, certs):
    pair = certs.issue(["brim.example"])
    node = make_guarded(origin, make_node, tmp_path, "0.0.0.0", tls=pair.conf)

    def ask(path, address=node.tcp, token="reader"):
        with TlsConnection(address, ca=certs.root, name="brim.example") as c:
            c.request("GET", path, {"Authorization": f"Bearer {node.tokens[token]}"}, host="brim.example")
            return c.response(), c.sock.getpeercert()["serialNumber"]
    r, serial = ask("/v1/status")
    assert r.status == 200 and r.json()["generation"] == 1
    assert ask("/metrics", node.metrics_address)[0].status == 200
    with Connection(node.tcp) as plain:
        plain.send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert not plain.sock.recv(4096).startswith(b"HTTP")
    node.conf["admin"]["tls"] = certs.issue(["brim.example"]).conf
    node.reload()
    assert ask("/v1/status")[1] != serial


def test_unknown_parameters_and_bodies_nobody_takes(node):
    r = node.admin("GET", "/v1/object?url=http://a.test/&uri=x")
    assert r.status == 400 and r.json()["error"]["pointer"] == "?uri"
    assert node.admin("GET", "/v1/status?x=1").status == 400
    assert node.admin("POST", "/v1/reload", {}).status == 400
    assert node.admin("GET", "/v1/status", {}).status == 400


# --- listing


def listed(node, query="", limit=100):
    """All pages of /v1/objects; the most that a page held."""
    found, cursor = [], ""
    for _ in range(1000):
        r = node.admin("GET", f"/v1/objects?limit={limit}{query}{cursor}")
        assert r.status == 200, r
        page = r.json()
        assert len(page["objects"]) <= limit
        found += page["objects"]
        if page["cursor"] is None:
            return found
        cursor = f"&cursor={page['cursor']}"
    raise AssertionError("it does not end")


@pytest.fixture
def filled(origin, make_node):
    """Two sites with 20 objects each."""
    node = make_node(origin)
    node.conf["sites"].append({"name": "b", "hosts": ["b.test"], "origin": "o"})
    node.reload()
    for n in range(20):
        origin.page(f"/{n % 2}/{n}", b"x" * n, FRESH)
        for host in ("a.test", "b.test"):
            node.get(f"/{n % 2}/{n}", host=host)
    wait_until(lambda: node.status()["stores"][0]["objects"] == 40, "all to be committed")
    return node


def test_objects_are_listed_in_pages(filled):
    everything = listed(filled, limit=1000)
    assert {o["url"] for o in everything} == {f"http://{h}.test/{n % 2}/{n}" for h in "ab" for n in range(20)}
    assert len(everything) == 40
    for limit in (1, 7, 40):
        assert [o["url"] for o in listed(filled, limit=limit)] == [o["url"] for o in everything]
    o = next(o for o in everything if o["url"] == "http://b.test/1/5")
    assert (o["site"], o["status"], o["bytes"], o["purged"], o["tags"]) == ("b", 200, 5, "no", 0)
    assert 3500 < o["ttl"] <= 3600 and 0 <= o["age"] < 100


def test_objects_by_site_and_prefix(filled):
    assert {o["site"] for o in listed(filled, "&site=b", 3)} == {"b"} and len(listed(filled, "&site=b")) == 20
    for prefix, count in (("http://A.test/", 20), ("a.test/1/", 10), ("a.test", 20), ("a.test/%31/1", 6), ("c.test/", 0),
                          ("https://a.test/", 0)):
        assert len(listed(filled, f"&prefix={prefix.replace('%', '%25')}", 3)) == count, prefix
    assert len(listed(filled, "&prefix=a.test/&site=b")) == 0


def test_a_list_says_what_was_purged_and_forgets_what_is_gone(origin, filled):
    filled.purge("/1/1", soft=True)
    assert [o["url"] for o in listed(filled) if o["purged"] == "soft"] == ["http://a.test/1/1"]
    filled.purge("/1/3")
    assert not [o for o in listed(filled) if o["url"] == "http://a.test/1/3" and o["purged"] == "no"]
    origin.page("/1/3", b"again", FRESH)
    filled.get("/1/3")
    wait_until(lambda: [o["bytes"] for o in listed(filled) if o["url"] == "http://a.test/1/3" and o["purged"] == "no"] == [5],
               "the new one")
    assert len(listed(filled)) <= 40


def test_a_list_survives_a_restart(filled):
    before = sorted(o["url"] for o in listed(filled))
    filled.restart()
    assert sorted(o["url"] for o in listed(filled, limit=9)) == before


@pytest.mark.parametrize("query, pointer", [
    ("limit=0", "?limit"), ("limit=1001", "?limit"), ("limit=x", "?limit"), ("limit=", "?limit"), ("cursor=", "?cursor"),
    ("cursor=1", "?cursor"), ("cursor=0.1.zz", "?cursor"), ("cursor=0.01.0", "?cursor"), ("site=nobody", "?site"),
    ("prefix=a.test/%25zz", "?prefix"), ("x=1", "?x"), ("limit=1&limit=2", "?limit")])
def test_what_a_list_refuses(node, query, pointer):
    r = node.admin("GET", f"/v1/objects?{query}")
    assert r.status == 400 and r.json()["error"]["pointer"] == pointer, r


def test_a_cursor_from_nowhere_finds_nothing_wrong(filled):
    for cursor in ("0.1.3", "0.ffffffff.ffffffffffffffff", "ffffffff.0.0", "7.1.0"):
        assert filled.admin("GET", f"/v1/objects?cursor={cursor}").status == 200


def test_a_token_of_sites_lists_no_other(origin, guarded):
    origin.page("/a", b"x", FRESH)
    for host in ("a.test", "b.test"):
        guarded.get("/a", host=host)
    wait_until(lambda: guarded.status()["stores"][0]["objects"] == 2, "both to be committed")
    found = guarded.bearer("tenant", "GET", "/v1/objects").json()["objects"]
    assert [o["site"] for o in found] == ["a"]
    assert guarded.bearer("tenant", "GET", "/v1/objects?site=b").status == 403
    assert guarded.bearer("reader", "GET", "/v1/objects?site=b").json()["objects"][0]["url"] == "http://b.test/a"
