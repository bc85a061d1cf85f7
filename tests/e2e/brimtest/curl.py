"""curl as the client: any suite, HTTP/1.1 and 2, several transfers in one process and so on one connection."""
import json
import os
import subprocess
import tempfile

from .client import Response
from .wait import PATIENCE

HTTP = {"1.1": "http1.1", "2": "http2"}  # as curl's options say


class Transfer:
    """One request. http: "1.1" or "2". body: what is sent. range: "0-99"."""

    def __init__(self, target, method="GET", http="1.1", body=None, range=None, headers=()):
        self.target, self.method, self.http, self.body, self.range, self.headers = target, method, http, body, range, headers

    def __repr__(self):
        return f"{self.method} {self.target} {self.range or ''} over {self.http}"


def tls_options(version, suite):
    """Curl's options for one version of TLS and one suite, in OpenSSL's words."""
    return [f"tlsv{version}", f'tls-max = "{version}"', f'{"tls13-ciphers" if version == "1.3" else "ciphers"} = "{suite}"']


def curl(address, ca, transfers, options=(), name="a.test", timeout=30):
    """Does the transfers one after the other; a Response for each, with .http_version and .connects (new connections).
    options: lines of a curl configuration for each of them."""
    with tempfile.TemporaryDirectory(prefix="brim-curl-") as d:
        sections = [section(d, i, t, [f'connect-to = "{name}:443:{address}"', f'cacert = "{ca}"', *options], name)
                    for i, t in enumerate(transfers)]
        done = subprocess.run(["curl", "-q", "-sS", "-K", "-"], input="\nnext\n".join(sections).encode(), capture_output=True,
                              timeout=timeout * PATIENCE)
        facts = [json.loads(line) for line in done.stdout.splitlines()]
        assert len(facts) == len(transfers), f"{done.stderr.decode()}\n{done.stdout.decode()}"
        return [result(d, i, t, f) for i, (t, f) in enumerate(zip(transfers, facts))]


def section(d, i, t, common, name):
    lines = [f'url = "https://{name}{t.target}"', HTTP[t.http], f'output = "{d}/{i}.body"', f'dump-header = "{d}/{i}.head"',
             'write-out = "%{json}\\n"', *common, *(f'header = "{h}"' for h in t.headers)]
    if t.method == "HEAD":
        lines.append("head")
    elif t.method != "GET":
        lines.append(f'request = "{t.method}"')
    if t.body is not None:
        with open(f"{d}/{i}.request", "wb") as f:
            f.write(t.body)
        lines.append(f'data-binary = "@{d}/{i}.request"')
    if t.range:
        lines.append(f'range = "{t.range}"')
    return "\n".join(lines)


def result(d, i, transfer, facts):
    head = read(f"{d}/{i}.head").decode("latin-1").split("\r\n\r\n")
    status, *fields = (head[-2] if len(head) > 1 else head[0]).split("\r\n")
    r = Response("HTTP/" + facts["http_version"], facts["response_code"], status.partition(" ")[2],
                 [(k, v.strip()) for k, _, v in (line.partition(":") for line in fields if line)])
    r.body = b"" if transfer.method == "HEAD" else read(f"{d}/{i}.body")
    r.length = len(r.body)
    r.complete, r.error = facts["exitcode"] == 0, facts["errormsg"]
    r.http_version, r.connects = facts["http_version"], facts["num_connects"]
    return r


def read(path):
    if not os.path.exists(path):
        return b""
    with open(path, "rb") as f:
        return f.read()
