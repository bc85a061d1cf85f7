"""docs/openapi.json against live answers: every call of it is made, and its answers are what their schemas say."""
import json
import os
import re

import pytest

from brimtest import wait_until
from brimtest.node import ROOT

with open(os.path.join(ROOT, "docs/openapi.json"), encoding="utf-8") as file:
    DOCUMENT = json.load(file)
TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}


def is_type(value, name):
    if name in ("number", "integer"):
        return isinstance(value, (int, float)) and not isinstance(value, bool) and (name == "number" or value == int(value))
    return isinstance(value, TYPES[name])


def faults(value, schema, at=""):
    """What of a value is not as a schema says. The part of JSON Schema that the file uses, and no more."""
    unknown = set(schema) - {"$ref", "anyOf", "type", "enum", "properties", "required", "additionalProperties", "items",
                             "description", "minimum", "maximum", "default"}
    assert not unknown, f"this test can't read {unknown}"
    if "$ref" in schema:
        return faults(value, DOCUMENT["components"]["schemas"][schema["$ref"].rpartition("/")[2]], at)
    if "anyOf" in schema:
        found = [faults(value, each, at) for each in schema["anyOf"]]
        return [] if [] in found else found[0]
    wanted = schema.get("type", [])
    if wanted and not any(is_type(value, t) for t in ([wanted] if isinstance(wanted, str) else wanted)):
        return [f"{at}: {value!r} is no {wanted}"]
    if "enum" in schema and value not in schema["enum"]:
        return [f"{at}: {value!r} is none of {schema['enum']}"]
    found = []
    if isinstance(value, list):
        for n, each in enumerate(value):
            found += faults(each, schema.get("items", {}), f"{at}/{n}")
    if isinstance(value, dict):
        properties, others = schema.get("properties", {}), schema.get("additionalProperties", True)
        found += [f"{at}: {name} is missing" for name in schema.get("required", ()) if name not in value]
        for name, each in value.items():
            if name in properties:
                found += faults(each, properties[name], f"{at}/{name}")
            elif others is False:
                found.append(f"{at}: {name} is not described")
            elif isinstance(others, dict):
                found += faults(each, others, f"{at}/{name}")
    return found


def test_the_validator_finds_faults():
    assert faults({"error": {"pointer": "", "message": "x"}}, {"$ref": "#/components/schemas/Error"}) == []
    for wrong in ({}, {"error": {"pointer": ""}}, {"error": {"pointer": 1, "message": ""}}, {"error": None}, [],
                  {"error": {"pointer": "", "message": "", "more": 1}}):
        assert faults(wrong, {"$ref": "#/components/schemas/Error"}), wrong
    assert faults(None, DOCUMENT["components"]["schemas"]["Status"]["properties"]["reload"]) == []
    assert faults(1.5, {"type": "integer"}) and faults(True, {"type": "integer"})


def check(response, path, method):
    """Is an answer one of those that are described?"""
    described = DOCUMENT["paths"][path][method]["responses"]
    assert str(response.status) in described, (method, path, response)
    content = described[str(response.status)]["content"]
    kind = response.get("Content-Type").partition(";")[0]
    assert kind in content, (method, path, response)
    if kind == "application/json":
        assert faults(response.json(), content[kind]["schema"]) == [], (method, path)


@pytest.fixture
def used(origin, make_node):
    """A node that has seen something of everything."""
    node = make_node(origin)
    origin.page("/a", b"hello", {"Cache-Control": "max-age=3600", "ETag": '"1"', "Vary": "Accept-Language",
                                 "Surrogate-Key": "t"})
    origin.page("/big", b"x" * 3000000, {"Cache-Control": "max-age=3600"})
    for language in ("de", "fr"):
        node.get("/a", {"Accept-Language": language})
    node.get("/big")
    wait_until(lambda: node.status()["stores"][0]["objects"] == 3, "all to be committed")
    return node


BODIES = {"/v1/purge": [({"urls": ["http://a.test/a"]}, 200), ({"tags": ["t"], "site": "a", "soft": True}, 200),
                        ({"all": True, "dry_run": True}, 200), ({"url": []}, 400)],
          "/v1/config/check": [({"sites": 1}, 400)]}
QUERIES = {"/v1/object": [("?url=http://a.test/a", 200), ("?url=http://a.test/big", 200), ("?url=a.test/none", 200), ("", 400)],
           "/v1/objects": [("", 200), ("?limit=1", 200), ("?limit=0", 400)],
           "/v1/reload": [("?dry_run", 200), ("", 200), ("?x", 400)]}


def test_every_call_answers_as_described(used):
    purge = used.purge_all()["purge"]
    used.get("/a")
    for path, item in DOCUMENT["paths"].items():
        (method, operation), = item.items()
        real = path.replace("{sequence}", str(purge))
        if method == "get":
            for query, status in QUERIES.get(path, [("", 200), ("?x=1", 400)]):
                r = used.admin("GET", real + query)
                assert r.status == status, (path, query, r)
                check(r, path, method)
        elif "requestBody" in operation:
            for body, status in BODIES[path]:
                r = used.admin("POST", real, body)
                assert r.status == status, (path, body, r)
                check(r, path, method)
        else:
            for query, status in QUERIES.get(path, [("", 200)]):
                r = used.admin("POST", real + query)
                assert r.status == status, (path, query, r)
                check(r, path, method)
    check(used.admin("POST", "/v1/config/check", used.admin("GET", "/v1/config").json()), "/v1/config/check", "post")
    check(used.admin("GET", "/v1/purge/999999"), "/v1/purge/{sequence}", "get")
    used.conf["workers"] = 7
    used.write_conf()
    check(used.admin("POST", "/v1/reload"), "/v1/reload", "post")
    check(used.admin("GET", "/v1/status"), "/v1/status", "get")


def test_requests_of_the_purge_schema_are_taken(used):
    """Each member of the request's schema is known to the node, with a value of its type."""
    values = {"urls": ["a.test/"], "prefixes": ["a.test/"], "tags": ["t"], "hosts": ["a.test"], "sites": ["a"], "site": "a",
              "all": True, "soft": True, "dry_run": True}
    schema = DOCUMENT["components"]["schemas"]["PurgeRequest"]
    assert faults(values, schema) == [] and set(values) == set(schema["properties"])
    assert used.admin("POST", "/v1/purge", values).status == 200


def test_the_manual_names_every_call():
    with open(os.path.join(ROOT, "docs/admin.md"), encoding="utf-8") as f:
        text = f.read()
    for path, item in DOCUMENT["paths"].items():
        for method in item:
            named = re.escape(f"{method.upper()} {path}".replace("{sequence}", "SEQUENCE"))
            assert re.search(rf"`{named}[`?]", text), f"docs/admin.md doesn't tell of {named}"
