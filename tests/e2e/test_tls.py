"""TLS towards clients: handshakes and what is chosen in them, payload each way, tickets, what the connection may ask for."""
import os
import socket
import ssl
import subprocess
import threading
import time

import pytest

from brimtest import FRESH, TlsConnection, feed, pattern
from brimtest.curl import Transfer, curl
from brimtest.feed import Feed
from brimtest.look import until_hit
from brimtest.openssl import OpenSslConnection
from brimtest.tls import client_context
from brimtest.wait import wait_until

KIB, MIB = 1 << 10, 1 << 20
SUITES = {"1.3 AES": ("1.3", "TLS_AES_128_GCM_SHA256"), "1.3 ChaCha": ("1.3", "TLS_CHACHA20_POLY1305_SHA256"),
          "1.2 AES": ("1.2", "ECDHE-ECDSA-AES128-GCM-SHA256"), "1.2 ChaCha": ("1.2", "ECDHE-ECDSA-CHACHA20-POLY1305")}


@pytest.fixture
def pair(certs):
    return certs.issue(["a.test", "*.a.test"])


@pytest.fixture
def tls(origin, make_node, pair):
    """A node whose site a.test has a certificate; two workers."""
    return make_node(origin, tls=pair)


def failures(node):
    return node.stats()["tls"]["failures"]


# --- payload

@pytest.mark.parametrize("suite", SUITES)
def test_bodies_come_whole(tls, origin, suite):
    """Hits and misses of sizes around a record's, several on one connection, then a HEAD, a range, and bodies of clients."""
    sizes = [0, 1, 1300, 16 * KIB - 1, 16 * KIB, 16 * KIB + 1, 100 * KIB, 3 * MIB]
    for n in sizes:
        origin.page(f"/{n}", pattern(n, n), FRESH)
    version, name = SUITES[suite]
    with OpenSslConnection(tls.tls_address, version=version, suite=name) as c:
        assert (c.version, c.suite) == ("TLSv" + version, name)
        for n in sizes:
            for _ in range(2):
                c.request(target=f"/{n}")
                r = c.response()
                assert r.complete and r.body == pattern(n, n), (n, r.error)
        c.request("HEAD", f"/{MIB * 3}")
        assert c.response("HEAD").get("Content-Length") == str(3 * MIB)
        c.request(target=f"/{3 * MIB}", headers={"Range": "bytes=1000000-1999999"})
        r = c.response()
        assert r.status == 206 and r.body == pattern(3 * MIB, 3 * MIB)[1000000:2000000]


@pytest.mark.parametrize("version", ["1.2", "1.3"])
@pytest.mark.parametrize("framing", ["length", "chunked", "close"])
def test_a_relay(tls, origin, certs, version, framing):
    body = pattern(700 * KIB)
    feed(origin, "/a", body, framing, {"Cache-Control": "no-store"})
    with tls.connect_tls(certs.root, version=version) as c:
        for _ in range(2):
            c.request(target="/a")
            r = c.response()
            assert r.complete and r.body == body


@pytest.mark.ktls
@pytest.mark.parametrize("version", ["1.2", "1.3"])
def test_a_request_body(tls, origin, certs, version):
    body = pattern(2 * MIB)

    @origin.route("/form", early=True)
    def form(x):
        x.reply(x.read_body())
    with tls.connect_tls(certs.root, version=version) as c:
        c.request("POST", "/form", body=body)
        assert c.response().body == body
        c.request("POST", "/form", {"Expect": "100-continue"}, body=b"short")
        assert c.response().body == b"short"


def test_a_request_body_that_is_cut(tls, origin, certs):
    """FIN without close_notify in the middle of a body: the origin must not take it for whole."""
    c = OpenSslConnection(tls.tls_address)
    c.send("POST /cut HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n400\r\n" + "x" * 512)
    c.fin()
    try:
        data = c.until_closed()
    except ConnectionError:
        data = b""
    assert b" 200 " not in data
    c.close()


@pytest.mark.ktls
@pytest.mark.parametrize("version", ["1.2", "1.3"])
def test_a_body_until_the_close_ends_with_a_notice(tls, origin, certs, version):
    """HTTP/1.0, length unknown: a cut stream must look cut, a whole one whole."""
    body = pattern(300 * KIB)
    feed(origin, "/a", body, "chunked", {"Cache-Control": "no-store"})
    with tls.connect_tls(certs.root, version=version) as c:
        c.request(target="/a", version="HTTP/1.0")
        r = c.response()
        assert r.framing == "close" and r.complete and r.body == body


def test_what_is_idle_ends_with_a_notice(origin, make_node, certs, pair):
    """At the idle timeout, and after the client's own notice."""
    origin.page("/a", b"hello", FRESH)
    node = make_node(origin, tls=pair, conf={"limits": {"idle_timeout": "1s"}})
    with node.connect_tls(certs.root) as c:
        c.request(target="/a")
        assert c.response().body == b"hello"
        assert c.until_closed() == b""
    c = OpenSslConnection(node.tls_address)
    c.request(target="/a")
    c.half_close()
    assert c.response().body == b"hello" and c.until_closed() == b""
    c.close()


def test_a_broken_body_looks_broken(tls, origin, certs):
    @origin.route("/a")
    def broken(x):
        f = Feed(x, 200 * KIB, "length", {"Cache-Control": "no-store"})
        f.send(pattern(100 * KIB))
        f.break_off()
    with tls.connect_tls(certs.root) as c:
        c.request(target="/a", version="HTTP/1.0")
        assert not c.response().complete


@pytest.mark.ktls
def test_pipelined_requests_in_one_record(tls, origin, certs):
    """What lies decrypted in memory raises no event."""
    for name in "abc":
        origin.page(f"/{name}", name.encode() * 10, FRESH)
    with tls.connect_tls(certs.root) as c:
        c.send("".join(f"GET /{name} HTTP/1.1\r\nHost: a.test\r\n\r\n" for name in "abcabcabc"))
        assert [c.response().body for _ in range(9)] == [name.encode() * 10 for name in "abcabcabc"]


def test_a_head_in_many_records(tls, origin, certs):
    origin.page("/a", b"hello", FRESH)
    with tls.connect_tls(certs.root) as c:
        for byte in b"GET /a HTTP/1.1\r\nHost: a.test\r\n\r\n":
            c.send(bytes([byte]))
        assert c.response().body == b"hello"


@pytest.mark.parametrize("version", ["1.2", "1.3"])
def test_a_slow_reader(tls, origin, certs, version):
    """What the socket doesn't take is kept, in order, and others are served meanwhile."""
    body = pattern(4 * MIB)
    origin.page("/a", body, FRESH)
    tls.get("/a")
    until_hit(tls, "/a", body)
    with TlsConnection(tls.tls_address, certs.root, version=version, receive_buffer=4096) as slow:
        slow.request(target="/a")
        for _ in range(5):
            with tls.connect_tls(certs.root, version=version) as c:
                c.request(target="/a")
                assert c.response().body == body
        r = slow.response()
        assert r.complete and r.body == body


def test_a_client_that_leaves(tls, origin, certs):
    origin.page("/a", pattern(4 * MIB), FRESH)
    for _ in range(3):
        c = TlsConnection(tls.tls_address, certs.root, receive_buffer=4096)
        c.request(target="/a")
        c.receive(10000)
        c.close()
    with tls.connect_tls(certs.root) as c:
        c.request(target="/a")
        assert c.response().complete


def test_the_log_tells_of_tls(tls, origin, certs):
    origin.page("/a", b"hello", FRESH)
    for version in ("1.1", "2"):
        r, = curl(tls.tls_address, certs.root, [Transfer("/a", http=version)])
        assert r.body == b"hello" and r.http_version == version
    lines = tls.access_log(2)
    assert {line["protocol"] for line in lines} == {"HTTP/1.1", "HTTP/2.0"}, lines
    assert all(line["tls"].startswith("TLSv1.3 TLS_") for line in lines), lines
    assert origin.requests[0].get("X-Forwarded-Proto") == "https"


# --- what is chosen

def handshake(node, context, name="a.test", session=None):
    """A connection, or the error as text."""
    try:
        return TlsConnection(node.tls_address, context=context, name=name, session=session)
    except (ssl.SSLError, ConnectionError) as e:
        return str(e)


def test_names(origin, make_node, certs, tmp_path):
    """Exact before wildcard; a site's own before the directory's; unknown or no name: the default site, or refusal."""
    directory = tmp_path / "certs"
    directory.mkdir(mode=0o755)
    tmp_path.chmod(0o755)
    for stem, names in (("b", ["b.test"]), ("wild", ["*.b.test"])):
        p = certs.issue(names)
        (directory / f"{stem}.pem").write_bytes(open(p.certificate, "rb").read())
        (directory / f"{stem}.key").write_bytes(open(p.key, "rb").read())
        (directory / f"{stem}.key").chmod(0o600)
    own = certs.issue(["a.test", "*.a.test"])
    node = make_node(origin, tls=own, start=False, conf={"tls": {"directory": str(directory)}})
    node.conf["sites"].append({"name": "b", "hosts": ["b.test", "*.b.test"], "origin": "o"})
    node.start()
    context = client_context(certs.root)

    def names(name):
        c = handshake(node, context, name)
        if isinstance(c, str):
            return c
        with c:
            return [v for _, v in c.sock.getpeercert()["subjectAltName"]]
    assert names("a.test") == names("x.a.test") == names("A.Test") == ["a.test", "*.a.test"]
    assert names("b.test") == ["b.test"] and names("x.b.test") == ["*.b.test"]
    assert "UNRECOGNIZED_NAME" in names("c.test").upper()
    anyone = client_context(None)
    assert "UNRECOGNIZED_NAME" in str(handshake(node, anyone, None)).upper()
    wait_until(lambda: failures(node).get("unrecognized_name") == 2)  # counted when the alert is out

    node.reload(site={"tls": {**own.conf, "default": True}})
    for name in (None, "c.test"):
        c = handshake(node, client_context(None), name)
        assert not isinstance(c, str), c
        c.close()


def test_the_kind_of_key_follows_the_client(origin, make_node, certs):
    ec, rsa = certs.issue("a.test"), certs.issue("a.test", kind="rsa")
    node = make_node(origin, tls=ec, start=False)
    node.conf["sites"][0] = {**node.conf["sites"][0], "hosts": ["a.test"], "tls": {
        "certificate": [ec.certificate, rsa.certificate], "key": [ec.key, rsa.key]}}
    node.start()
    for suite in ("ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-GCM-SHA256"):
        with node.connect_tls(certs.root, version="1.2", ciphers=suite) as c:
            assert c.sock.cipher()[0] == suite


def test_alpn(tls, certs):
    def chosen(*offer):
        c = handshake(tls, client_context(certs.root, alpn=offer))
        if isinstance(c, str):
            return c
        with c:
            return c.sock.selected_alpn_protocol()
    assert chosen("h2", "http/1.1") == chosen("http/1.1", "h2") == "h2"
    assert chosen("http/1.1") == "http/1.1"
    assert chosen() is None
    assert "NO_APPLICATION_PROTOCOL" in chosen("spdy/3").upper().replace(" ", "_")


def test_old_versions_and_plain_http_are_refused(tls, certs):
    with socket.create_connection(("127.0.0.1", tls.tls_port), 20) as s:
        s.sendall(b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n")
        s.settimeout(20)
        assert b"HTTP" not in s.recv(1000)
    done = subprocess.run(["openssl", "s_client", "-connect", tls.tls_address, "-servername", "a.test", "-tls1_1", "-cipher", "ALL:@SECLEVEL=0"],
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    assert b"Cipher is (NONE)" in done.stdout + done.stderr
    assert failures(tls).keys() >= {"not_tls", "version"}


def test_ocsp_is_stapled(origin, make_node, certs, pair):
    node = make_node(origin, tls=pair, site={"tls": {"ocsp": certs.ocsp(pair)}})
    told = subprocess.run(["openssl", "s_client", "-connect", node.tls_address, "-servername", "a.test", "-status"],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60).stdout
    assert "OCSP Response Status: successful" in told and "Cert Status: good" in told


@pytest.mark.parametrize("version", ["1.2", "1.3"])
def test_client_certificates(origin, make_node, certs, pair, version):
    """Required, requested; a certificate of nobody that is known; and the way around by another site's handshake."""
    origin.page("/a", b"hello", FRESH)
    node = make_node(origin, tls=pair, start=False)
    other = certs.issue(["b.test", "a.test"])
    node.conf["sites"].append({"name": "b", "hosts": ["b.test"], "origin": "o", "tls": other.conf})
    node.conf["sites"][0]["tls"]["client"] = {"verify": "require", "ca": certs.root}
    node.start()

    def get(name, host, **kw):
        try:
            with TlsConnection(node.tls_address, certs.root, name=name, version=version, **kw) as c:
                c.request(target="/a", host=host)
                return c.response().status
        except (ssl.SSLError, ConnectionError):
            return None
    mine = certs.issue("someone", usage="clientAuth")
    assert get("a.test", "a.test") is None
    assert get("a.test", "a.test", certificate=mine) == 200
    assert get("b.test", "a.test") == 421, "a site that wants client certificates is asked for by its own name alone"
    assert failures(node)["no_client_certificate"] >= 1


def test_client_certificates_wanted_since_a_reload(origin, make_node, certs, pair):
    """A connection that is open was asked for none: it serves the site no more."""
    origin.page("/a", b"hello", FRESH)
    node = make_node(origin, tls=pair)
    with node.connect_tls(certs.root) as before:
        before.request(target="/a")
        assert before.response().status == 200
        node.reload(site={"tls": {**pair.conf, "client": {"verify": "require", "ca": certs.root}}})
        before.request(target="/a")
        assert before.response().status == 421


def test_what_is_counted(tls, origin, certs):
    """Connections by who seals, failures by reason, and when certificates end."""
    origin.page("/a", b"hello", FRESH)
    with tls.connect_tls(certs.root, version="1.3") as c:
        c.request(target="/a")
        c.response()
    assert isinstance(handshake(tls, client_context(certs.root), "c.test"), str)
    wait_until(lambda: failures(tls).get("unrecognized_name"))
    stats, metrics = tls.stats()["tls"], tls.metrics()
    assert sum(c["count"] for c in stats["connections"]) == 1 == sum(h["count"] for h in stats["handshakes"])
    told = tls.status()["tls"]
    (cipher, sealed), = told["ciphers"].items()
    assert sealed == told["connections"] and sum(sealed.values()) == 1 and cipher == stats["connections"][0]["cipher"]
    shown = tls.brimctl("status").stdout
    assert f"  {cipher}: {sealed['kernel']} connections sealed by the kernel, {sealed['program']} by the program\n" in shown
    assert metrics['brim_tls_handshakes_total{version="1.3",kind="full"}'] == 1
    assert metrics['brim_tls_handshake_failures_total{reason="unrecognized_name"}'] == 1
    left = metrics['brim_tls_certificate_expiry_timestamp_seconds{site="a"}'] - time.time()
    assert 80 * 86400 < left < 100 * 86400


def test_another_host_on_the_same_connection(origin, make_node, certs):
    """What the certificate names is served, all else gets 421."""
    origin.page("/a", b"hello", FRESH)
    node = make_node(origin, tls=certs.issue(["a.test", "b.test"]), start=False)
    node.conf["sites"][0]["hosts"] = ["a.test"]
    for name in "bc":
        node.conf["sites"].append({"name": name, "hosts": [f"{name}.test"], "origin": "o", "tls": certs.issue(f"{name}.test").conf})
    node.start()
    with node.connect_tls(certs.root) as c:
        for host, status in (("a.test", 200), ("b.test", 200), ("c.test", 421), ("d.test", 421), ("a.test", 200)):
            c.request(target="/a", host=host)
            assert c.response().status == status, host


# --- sessions

def resumes(node, context, session, times=12):
    """How many of so many connections, over all workers, resumed it."""
    count = 0
    for _ in range(times):
        with TlsConnection(node.tls_address, context=context, session=session) as c:
            count += c.sock.session_reused
            c.request(target="/a")
            c.response()
    return count


@pytest.mark.parametrize("version", ["1.2", "1.3"])
def test_tickets(tls, origin, certs, clock, version):
    """Any worker takes them, and a reload doesn't spoil them. (Rotation: test_tls_choice.py.)"""
    origin.page("/a", b"hello", FRESH)
    context = client_context(certs.root, version=version)
    with TlsConnection(tls.tls_address, context=context) as c:
        c.request(target="/a")
        c.response()
        session = c.sock.session
    assert resumes(tls, context, session) == 12
    tls.reload(change={"tls": {"tickets": {"rotate": "1h"}}})
    assert resumes(tls, context, session) == 12
    handshakes = {(h["version"], h["kind"]): h["count"] for h in tls.stats()["tls"]["handshakes"]}
    assert handshakes[version, "resumed"] >= 24


def test_who_uses_a_ticket_gets_the_next(tls, origin, certs):
    """Clients use each ticket of TLS 1.3 once: whoever comes back again and again resumes each time."""
    origin.page("/a", b"hello", FRESH)
    context = client_context(certs.root, version="1.3")
    session, seen = None, set()
    for visit in range(4):
        with TlsConnection(tls.tls_address, context=context, session=session) as c:
            c.request(target="/a")
            c.response()
            assert c.sock.session_reused == (visit > 0)
            session = c.sock.session
        seen.add(session.id)
    assert len(seen) == 4, "a session's id is made of its ticket"


def test_tickets_by_file(origin, make_node, certs, pair, tmp_path):
    """Two nodes with the same keys are one to their clients; the second file's key still opens."""
    tmp_path.chmod(0o755)
    old, new = tmp_path / "old", tmp_path / "new"
    for f in (old, new):
        f.write_bytes(os.urandom(80))
        f.chmod(0o600)
    origin.page("/a", b"hello", FRESH)
    first = make_node(origin, tls=pair, workers=1, conf={"tls": {"tickets": {"files": [str(old)]}}})
    second = make_node(origin, tls=pair, workers=1, conf={"tls": {"tickets": {"files": [str(new), str(old)]}}})
    context = client_context(certs.root)
    with TlsConnection(first.tls_address, context=context) as c:
        c.request(target="/a")
        c.response()
        session = c.sock.session
    assert resumes(second, context, session, 1) == 1


def test_new_certificates_after_a_reload(tls, origin, certs):
    """New connections get the new one; what is open goes on."""
    origin.page("/a", b"hello", FRESH)
    with tls.connect_tls(certs.root) as before:
        fresh = certs.issue(["a.test", "*.a.test"])
        tls.reload(site={"tls": fresh.conf})
        with tls.connect_tls(certs.root) as after:
            assert after.sock.getpeercert()["serialNumber"].lstrip("0") == fresh.serial().lstrip("0")
        before.request(target="/a")
        assert before.response().body == b"hello"


def put(directory, stem, pair, key=None):
    for suffix, source in (("pem", pair.certificate), ("key", key or pair.key)):
        path = directory / f"{stem}.{suffix}"
        path.write_bytes(open(source, "rb").read())
        path.chmod(0o600)


def test_a_reload_takes_what_changed_in_the_directory(origin, make_node, certs, tmp_path):
    """What stays is taken over, read already (a, b) or not (c); what is replaced, new or gone is so at once."""
    tmp_path.chmod(0o755)
    directory = tmp_path / "certs"
    directory.mkdir(mode=0o755)
    pairs = {name: certs.issue(f"{name}.test") for name in "abcdx"}
    for name in "abcx":
        put(directory, name, pairs[name])
    node = make_node(origin, tls=pairs["a"], workers=2, conf={"tls": {"directory": str(directory)}})
    node.conf["sites"][0]["hosts"] = ["a.test"]
    node.conf["sites"] += [{"name": n, "hosts": [f"{n}.test"], "origin": "o"} for n in "bc"]
    node.reload()
    context = client_context(certs.root)

    def serial(name):
        with handshake(node, context, f"{name}.test") as c:
            return c.sock.getpeercert()["serialNumber"].lstrip("0")

    def expect(**wanted):
        for name, pair in wanted.items():
            assert serial(name) == pair.serial().lstrip("0"), name

    expect(a=pairs["a"], b=pairs["b"])
    renewed = certs.issue("b.test")
    put(directory, "b", renewed)
    put(directory, "d", pairs["d"])
    (directory / "x.pem").unlink()
    (directory / "x.key").unlink()
    node.conf["sites"].append({"name": "d", "hosts": ["d.test"], "origin": "o"})
    node.reload()
    expect(a=pairs["a"], b=renewed, c=pairs["c"], d=pairs["d"])
    node.reload()
    expect(a=pairs["a"], b=renewed, c=pairs["c"], d=pairs["d"])


# --- early data

def s_client(node, *options, early=None, send=b"", directory=None):
    """What openssl s_client says and receives. early: sent as early data of the session in «directory»."""
    args = ["openssl", "s_client", "-connect", node.tls_address, "-servername", "a.test", "-tls1_3", "-ign_eof", *options]
    if early is not None:
        path = os.path.join(directory, "early")
        with open(path, "wb") as f:
            f.write(early)
        args += ["-sess_in", os.path.join(directory, "session"), "-early_data", path]
    return subprocess.run(args, input=send, capture_output=True, timeout=60).stdout


def get(target="/a", method="GET", close=True):
    return (f"{method} {target} HTTP/1.1\r\nHost: a.test\r\nContent-Length: 0\r\n" + ("Connection: close\r\n" if close else "") +
            "\r\n").encode()


@pytest.fixture
def early(origin, make_node, pair, tmp_path):
    """Does a request as early data on a session of its own; what the client then sees."""
    node = make_node(origin, tls=pair, workers=1, site={"tls": {"early_data": True}})

    def send(request, behind=b""):
        s_client(node, "-sess_out", str(tmp_path / "session"), send=get("/session"))
        return s_client(node, early=request, send=behind, directory=str(tmp_path))
    send.node = node
    return send


@pytest.mark.ktls
def test_early_data_of_safe_methods(origin, early):
    origin.page("/a", b"stored", FRESH)
    origin.page("/b", b"relayed", {"Cache-Control": "no-store"})
    for target, body in (("/a", b"stored"), ("/b", b"relayed"), ("/a", b"stored")):
        told = early(get(target))
        assert b"Early data was accepted" in told and body in told
    assert [origin.last(t).get("Early-Data") for t in ("/a", "/b")] == ["1", "1"]
    assert origin.last("/session").get("Early-Data") is None


def test_early_data_of_other_methods(origin, early):
    told = early(get("/a", "POST"))
    assert b"Early data was accepted" in told and b"HTTP/1.1 425 Too Early" in told
    assert not origin.count("/a")


def test_what_follows_early_data(origin, early):
    """The handshake ends, and the connection is one like others."""
    origin.page("/a", b"stored" * 10000, FRESH)
    told = early(get("/a", close=False), behind=get("/a", "POST", close=False) + get("/a"))
    assert b"Early data was accepted" in told and told.count(b"HTTP/1.1 200") == 3


def test_no_early_data_where_no_site_wants_it(tls, tmp_path, origin):
    s_client(tls, "-sess_out", str(tmp_path / "session"), send=get("/session"))
    told = s_client(tls, early=get("/a"), send=get("/b"), directory=str(tmp_path))
    assert b"Early data was accepted" not in told
    assert not origin.count("/a")


def test_reloads_under_load(tls, origin, certs):
    """Certificates change again and again while clients come, go and stay: nobody notices."""
    origin.page("/a", pattern(50 * KIB), FRESH)
    pairs = [certs.issue(["a.test", "*.a.test"]) for _ in range(2)]
    done, faults, served = threading.Event(), [], [0, 0]

    def visit(i):
        context = client_context(certs.root)
        try:
            while not done.is_set():
                with TlsConnection(tls.tls_address, context=context) as c:
                    for _ in range(5):
                        c.request(target="/a")
                        assert c.response().body == pattern(50 * KIB)
                        served[i] += 1
        except (AssertionError, OSError) as e:
            faults.append(e)
    visitors = [threading.Thread(target=visit, args=(i,)) for i in range(2)]
    for v in visitors:
        v.start()
    for i in range(4):
        tls.reload(site={"tls": pairs[i % 2].conf})
    done.set()
    for v in visitors:
        v.join()
    assert not faults and min(served) > 0
