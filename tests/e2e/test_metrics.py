"""Metrics: what is counted, in both forms; and what is written about them in docs/ holds."""
import json
import os
import re
import subprocess
import threading

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from brimtest import fetch, wait_until

DOCS = os.path.join(os.path.dirname(__file__), "..", "..", "docs")
FRESH = {"Cache-Control": "max-age=3600"}


def doc(name):
    with open(os.path.join(DOCS, name)) as f:
        return f.read()


def metrics(node, accept="application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"):
    return fetch(node.admin_address, "/metrics", headers={"Accept": accept} if accept else None, host="localhost")


def promtool(*args, text=None):
    r = subprocess.run(["promtool", *args], input=text, capture_output=True, timeout=60)
    return r.returncode, (r.stdout + r.stderr).decode()


@pytest.fixture
def busy(origin, make_node):
    """A node that has something to tell of each kind that can be had cheaply."""
    node = make_node(origin, workers=1, site={"purge_from": ["127.0.0.0/8"]})
    origin.page("/a", b"hello", FRESH)
    origin.page("/p", b"hello", {"Cache-Control": "no-store"})
    for target in ("/a", "/a", "/p", "/absent"):
        node.get(target)

    @origin.route("/broken")
    def _(x):
        x.reset()
    assert node.get("/broken").status == 502
    assert node.request("PURGE", "/a", {"Soft-Purge": "1"}).status == 200
    node.purge("/a")
    node.admin("POST", "/v1/purge", {"tags": ["x", "y"]})
    node.reload()
    return node


def test_openmetrics_is_valid(busy):
    r = metrics(busy)
    assert r.get("Content-Type") == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    assert r.body.endswith(b"\n# EOF\n")
    families = list(text_string_to_metric_families(r.body.decode()))  # strict: raises
    assert len({f.name for f in families}) == len(families) > 50
    for f in families:
        assert f.name.startswith("brim_") and f.documentation, f
        assert not f.unit or f.name.endswith("_" + f.unit)
        assert f.unit or not re.search("_(bytes|seconds)$", f.name), f.name
        keys = [(s.name, tuple(sorted(s.labels.items()))) for s in f.samples]
        assert len(keys) == len(set(keys)), f.name


def test_the_older_form_passes_promtool(busy):
    r = metrics(busy, accept="*/*")
    assert r.get("Content-Type") == "text/plain; version=0.0.4; charset=utf-8"
    assert promtool("check", "metrics", text=r.body) == (0, "")


def test_both_forms_say_the_same(busy):
    def samples(accept):
        lines = metrics(busy, accept).body.decode().splitlines()
        return [line.split(" ")[0] for line in lines if not line.startswith("#")]
    assert samples("application/openmetrics-text") == samples("text/plain") == samples(None)


def test_what_happened_is_counted(busy):
    m = busy.metrics()

    def of(name, **labels):
        return sum(v for k, v in m.items() if k.split("{")[0] == name
                   and all(f'{a}="{b}"' in k for a, b in labels.items()))
    assert of("brim_requests_total", cache="hit", **{"class": "2xx"}) == 1
    assert of("brim_requests_total", cache="miss", **{"class": "2xx"}) == 1
    assert of("brim_requests_total", cache="error", **{"class": "5xx"}) == 1
    assert of("brim_origin_errors_total") >= 1 and of("brim_origin_errors_total", type="connection_refused") == 0
    assert of("brim_origin_time_to_first_byte_seconds_count") == of("brim_origin_requests_total") - \
        of("brim_origin_errors_total")
    assert of("brim_time_to_first_byte_seconds_count") >= 5
    assert of("brim_fills_total") >= 1 and of("brim_fills_broken_total") == 0
    assert of("brim_purged_scopes_total", scope="url", mode="soft") >= 1
    assert of("brim_purged_scopes_total", scope="url", mode="hard") >= 1
    assert of("brim_purged_scopes_total", scope="tag_of_all_sites", mode="hard") == 2
    assert of("brim_reloads_total", result="done") == 1 and of("brim_reloads_total", result="failed") == 0
    assert of("brim_reload_ok") == 1 and of("brim_reload_timestamp_seconds") > 0
    assert of("brim_process_up") == 2 and of("brim_store_in_service") == 1
    assert of("brim_build_info") == 1 and of("brim_draining") == 0


def test_followers_are_counted(origin, make_node):
    node = make_node(origin, workers=1)
    go = threading.Event()

    @origin.route("/slow")
    def _(x):
        go.wait(30)
        x.reply(b"slow", FRESH)
    threads = [threading.Thread(target=node.get, args=("/slow",)) for _ in range(3)]
    for t in threads:
        t.start()

    def total(name):
        return sum(v for k, v in node.metrics().items() if k.startswith(f"brim_{name}_total{{"))
    wait_until(lambda: total("fill_waits") >= 2, "two requests wait for the first")
    go.set()
    for t in threads:
        t.join()
    wait_until(lambda: total("followers") == 2, "both were served from it")
    assert total("origin_requests") == 1 and total("fills") == 1


# --- documents


def documented():
    """{name: (type, labels)} of docs/metrics.md."""
    rows = re.findall(r"^\| `(brim_\w+)` \| (\w+) \| ([\w, ]*) \| (.+) \|$", doc("metrics.md"), re.M)
    assert len(rows) == len({r[0] for r in rows})
    return {name: (kind, set(filter(None, labels.split(", "))), text) for name, kind, labels, text in rows}


def test_the_table_holds(busy):
    table = documented()
    families = list(text_string_to_metric_families(metrics(busy).body.decode()))
    suffix = {"counter": "_total", "info": "_info"}
    told = {f.name + suffix.get(f.type, ""): (f.type, f.documentation) for f in families}
    assert {n: (kind, text) for n, (kind, _, text) in table.items()} == told
    for f in families:
        labels = table[f.name + suffix.get(f.type, "")][1]
        for s in f.samples:
            assert set(s.labels) - {"le"} <= labels, s
            assert set(s.labels) - {"le"} == labels or labels == {"role", "slot"}, s


def names_in(expr):
    return set(re.findall(r"\bbrim_\w+", expr))


def known(name):
    table = documented()
    base = re.sub("_(bucket|count|sum)$", "", name)
    return name in table or (base in table and table[base][0] == "histogram")


def test_the_dashboard_shows_what_exists():
    board = json.loads(doc("grafana.json"))
    exprs = [t["expr"] for p in board["panels"] for t in p["targets"]]
    exprs += [v["definition"] for v in board["templating"]["list"] if "definition" in v]
    assert len(exprs) > 30
    for expr in exprs:
        assert names_in(expr) and all(map(known, names_in(expr))), expr
    queries = [e.replace("$__rate_interval", "5m") for e in exprs if "label_values" not in e]
    rules = "groups:\n- name: g\n  rules:\n" + "".join(
        f"  - record: r{i}\n    expr: {json.dumps(q)}\n" for i, q in enumerate(queries))
    code, out = promtool("check", "rules", "/dev/stdin", text=rules.encode())
    assert code == 0, out
    ids = [p["id"] for p in board["panels"]]
    assert len(ids) == len(set(ids))


def test_alerts_are_valid_and_each_has_an_entry_in_the_runbook():
    code, out = promtool("check", "rules", os.path.join(DOCS, "alerts.yml"))
    assert code == 0, out
    text = doc("alerts.yml")
    alerts = re.findall(r"^  - alert: (\w+)$", text, re.M)
    for expr in re.findall(r"^    expr: '(.*)'$", text, re.M):
        assert all(map(known, names_in(expr))), expr
    assert all(f"RUNBOOK.md#{a.lower()}'" in text for a in alerts)
    entries = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", doc("RUNBOOK.md"), re.M | re.S))
    assert list(entries) == alerts and len(alerts) == text.count("expr:")
    for name, entry in entries.items():
        assert all(f"**{word}**" in entry for word in ("Means", "Look", "Do")), name
