"""What a handshake gives to whom: certificates by what the client can read, stapled responses while they are good, sessions and
early data within their site; and what is told of handshakes that fail."""
import os
import re
import shutil
import socket
import ssl
import subprocess
import threading

import hpack
import pytest

from brimtest import FRESH, Certs, Gate, TlsConnection, wait_until
from brimtest.h2 import END_HEADERS, END_STREAM, GOAWAY, H2, HEADERS, PREFACE, SETTINGS
from brimtest.tls import client_context
from brimtest.wait import PATIENCE

DAY = 86400


@pytest.fixture
def pair(certs):
    return certs.issue(["a.test", "*.a.test"])


def s_client(node, *options, name="a.test", send=b""):
    done = subprocess.run(["openssl", "s_client", "-connect", node.tls_address, "-servername", name, *options], input=send,
                          capture_output=True, timeout=60 * PATIENCE)
    return (done.stdout + done.stderr).decode(errors="replace")


def get(target, host="a.test"):
    return f"GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode()


def status(node, context, name="a.test", target="/a", session=None):
    """What a GET is answered with, and the session; None for a handshake that is refused."""
    try:
        with TlsConnection(node.tls_address, context=context, name=name, session=session) as c:
            c.request(target=target, host=name)
            return c.response().status, c.sock.session
    except (ssl.SSLError, ConnectionError):
        return None, None


def second_site(node, certificate, **tls):
    node.conf["sites"][0]["hosts"] = ["a.test"]
    node.conf["sites"].append({"name": "b", "hosts": ["b.test"], "origin": "o", "tls": certificate.conf | tls})


# --- certificates


@pytest.mark.parametrize("version", ["tls1_2", "tls1_3"])
def test_the_kind_of_key_follows_the_signatures(origin, make_node, certs, version):
    """A client that lacks ECDSA gets the RSA certificate, and the other way round, whichever stands first."""
    ec, rsa = certs.issue("a.test"), certs.issue("a.test", kind="rsa")
    node = make_node(origin, tls=ec, start=False)
    for pairs in ((ec, rsa), (rsa, ec)):
        node.conf["sites"][0]["tls"] = {k: [p.conf[k] for p in pairs] for k in ("certificate", "key")}
        node.start() if node.process is None else node.reload()
        for offer, kind in (("ECDSA+SHA256", "ECDSA"), ("RSA-PSS+SHA256", "RSA-PSS")):
            assert f"Peer signature type: {kind}" in s_client(node, f"-{version}", "-sigalgs", offer)


def named(node, certs, name, sigalgs=None):
    """The names in the certificate that a client of this name gets."""
    told = s_client(node, *(["-sigalgs", sigalgs] if sigalgs else []), name=name)
    assert "BEGIN CERTIFICATE" in told, told
    text = subprocess.run(["openssl", "x509", "-noout", "-ext", "subjectAltName"], input=told, capture_output=True, text=True, timeout=60).stdout
    return sorted(re.findall(r"DNS:([^,\s]+)", text))


def test_of_a_sites_certificates_the_one_that_names_the_host(origin, make_node, certs):
    """Of both kinds, where both do, the client's choice."""
    ec, rsa = certs.issue(["a.test", "both.test"]), certs.issue(["b.test", "both.test"], kind="rsa")
    node = make_node(origin, tls=ec, start=False, workers=1)
    node.conf["sites"][0] |= {"hosts": ["a.test", "b.test", "both.test"],
                              "tls": {k: [p.conf[k] for p in (ec, rsa)] for k in ("certificate", "key")}}
    node.start()
    assert named(node, certs, "a.test") == named(node, certs, "both.test") == ["a.test", "both.test"]
    assert named(node, certs, "b.test") == named(node, certs, "both.test", "RSA-PSS+SHA256") == ["b.test", "both.test"]


def test_the_directory_serves_hosts_that_the_sites_own_lacks(origin, make_node, certs, tmp_path):
    tmp_path.chmod(0o755)
    own, more = certs.issue("a.test"), certs.issue(["b.test", "*.a.test"])
    shutil.copy(more.certificate, tmp_path / "b.pem")
    shutil.copy(more.key, tmp_path / "b.key")
    node = make_node(origin, tls=own, workers=1, site={"hosts": ["a.test", "b.test", "*.a.test"]}, conf={"tls": {"directory": str(tmp_path)}})
    assert named(node, certs, "a.test") == ["a.test"]
    assert named(node, certs, "b.test") == named(node, certs, "x.a.test") == ["*.a.test", "b.test"]


def test_of_two_in_the_directory_the_later_serves(origin, make_node, certs, tmp_path):
    tmp_path.chmod(0o755)
    first, last = certs.issue("b.test", days=20), certs.issue("b.test", days=200)

    def put(stem, p):
        shutil.copy(p.certificate, tmp_path / f"{stem}.pem")
        shutil.copy(p.key, tmp_path / f"{stem}.key")

    for a, b in ((first, last), (last, first)):
        put("a", a)
        put("b", b)
        node = make_node(origin, tls=certs.issue("a.test"), start=False, workers=1, conf={"tls": {"directory": str(tmp_path)}})
        node.conf["sites"].append({"name": "b", "hosts": ["b.test"], "origin": "o"})
        with TlsConnection(node.start().tls_address, certs.root, name="b.test") as c:
            assert c.certificate["serialNumber"].lstrip("0") == last.serial().lstrip("0")


def test_a_reload_that_fails_leaves_the_old_certificate(origin, make_node, certs, tmp_path):
    """Its files are replaced by what is no pair: told with its place, shown by status, and nobody notices."""
    tmp_path.chmod(0o755)
    old, other = certs.issue(["a.test", "*.a.test"]), certs.issue(["a.test", "*.a.test"])
    mine = {"certificate": str(tmp_path / "a.pem"), "key": str(tmp_path / "a.key")}

    def put(certificate, key):
        shutil.copy(certificate, mine["certificate"])
        shutil.copy(key, mine["key"])

    def serial():
        with node.connect_tls(certs.root) as c:
            return c.certificate["serialNumber"].lstrip("0")

    put(old.certificate, old.key)
    node = make_node(origin, tls=old, site={"tls": mine})
    put(other.certificate, old.key)
    node.reload(ok=False)
    wait_until(lambda: node.metrics()["brim_reload_ok"] == 0, "the failure to be counted")
    assert f"{mine['key']} is not the key of {mine['certificate']}" in str(node.status()["reload"])
    assert serial() == old.serial().lstrip("0")
    node.kill("worker")  # nor does a worker that comes now see what is on the disk
    wait_until(lambda: all(p["restarts"] for p in node.status()["processes"] if p["role"] == "worker" and p["slot"] == 0),
               "another worker")
    for _ in range(8):
        assert serial() == old.serial().lstrip("0")
    put(other.certificate, other.key)
    node.reload()
    assert serial() == other.serial().lstrip("0")


def test_a_stapled_response_that_is_too_old_is_left_out(origin, make_node, certs, clock, pair, tmp_path):
    """And a reload takes the one that has been put in its place."""
    tmp_path.chmod(0o755)
    ocsp = tmp_path / "a.ocsp"
    shutil.copy(certs.ocsp(pair, days=3), ocsp)
    node = make_node(origin, tls=pair, site={"tls": {"ocsp": str(ocsp)}})
    good, none = "Cert Status: good", "OCSP response: no response sent"
    assert good in s_client(node, "-status")
    clock.advance(4 * DAY)
    assert none in s_client(node, "-status")
    shutil.copy(certs.ocsp(pair, days=9), ocsp)
    node.reload()
    assert good in s_client(node, "-status")


def test_other_hosts_on_one_connection_of_http2(origin, make_node, certs):
    """Browsers use it for all that the certificate names; 421 sends them away for one request, not for all."""
    origin.page("/a", b"hello", FRESH)
    node = make_node(origin, tls=certs.issue(["a.test", "b.test"]), start=False, workers=1)
    second_site(node, certs.issue("b.test"))
    node.conf["sites"].append({"name": "c", "hosts": ["c.test"], "origin": "o", "tls": certs.issue("c.test").conf})
    node.start()
    with H2(node.tls_address, tls=True, ca=certs.root) as c:
        hosts = ["a.test", "b.test", "c.test", "d.test", "a.test"]
        streams = [c.request("GET", "/a", host=host) for host in hosts]
        c.finish(*streams)
        assert [s.status for s in streams] == [200, 200, 421, 421, 200]


# --- sessions


@pytest.mark.parametrize("version", ["1.2", "1.3"])
def test_a_session_is_its_sites_alone(origin, make_node, certs, version):
    """Else a site without client certificates would be a way into one with them."""
    origin.page("/a", b"hello", FRESH)
    both = certs.issue(["a.test", "b.test"])
    node = make_node(origin, tls=both, start=False, workers=1)
    second_site(node, both)
    node.conf["sites"][0]["tls"] = both.conf | {"client": {"verify": "require", "ca": certs.root}}
    node.start()
    context = client_context(certs.root, version=version)
    served, session = status(node, context, "b.test")
    assert served == 200 and session.has_ticket
    assert status(node, context, "b.test", session=session)[0] == 200
    assert node.metrics()[f'brim_tls_handshakes_total{{version="{version}",kind="resumed"}}'] == 1
    assert status(node, context, "a.test", session=session)[0] is None


@pytest.mark.parametrize("version", ["1.2", "1.3"])
def test_a_session_ends_when_its_site_wants_certificates(origin, make_node, certs, pair, version):
    origin.page("/a", b"hello", FRESH)
    node = make_node(origin, tls=pair, workers=1)
    context = client_context(certs.root, version=version)
    served, session = status(node, context)
    assert served == 200 and session.has_ticket
    node.reload(site={"tls": {"client": {"verify": "require", "ca": certs.root}}})
    assert status(node, context, session=session)[0] is None


@pytest.mark.long
@pytest.mark.limit(300)
def test_ticket_keys_change_by_themselves(origin, make_node, pair, certs):
    """For all workers at once; what the key before sealed is still opened."""
    origin.page("/a", b"hello", FRESH)
    node = make_node(origin, tls=pair, conf={"tls": {"tickets": {"rotate": "1m"}}})

    def key():
        """A ticket begins with its key's name."""
        return re.search(r"TLS session ticket:\s+0000 - ((?:\w\w[ -]){16})", s_client(node, "-tls1_2")).group(1)
    context, first = client_context(certs.root, version="1.2"), key()
    _, session = status(node, context)
    assert {key() for _ in range(6)} == {first}
    wait_until(lambda: key() != first, "another key", timeout=120)
    assert len({key() for _ in range(6)}) == 1
    for _ in range(6):
        with TlsConnection(node.tls_address, context=context, session=session) as c:
            assert c.sock.session_reused


def test_ticket_files_are_rotated_by_a_reload(origin, make_node, pair, certs, tmp_path):
    """A new one in front, the last dropped: what it sealed is opened no more, what the others did is."""
    tmp_path.chmod(0o755)
    origin.page("/a", b"hello", FRESH)
    paths = [tmp_path / name for name in ("first", "second", "third")]
    for path in paths:
        path.write_bytes(os.urandom(80))
        path.chmod(0o600)

    def use(*files):
        return {"tls": {"tickets": {"files": [str(f) for f in files]}}}

    def resumed(session):
        with TlsConnection(node.tls_address, context=context, session=session) as c:
            return c.sock.session_reused

    node = make_node(origin, tls=pair, workers=1, conf=use(paths[0]))
    context = client_context(certs.root, version="1.2")
    _, by_first = status(node, context)
    node.reload(use(paths[1], paths[0]))
    assert resumed(by_first)
    _, by_second = status(node, context)
    node.reload(use(paths[2], paths[1]))
    assert resumed(by_second) and not resumed(by_first)
    paths[1].write_bytes(os.urandom(80))  # its name is the same
    node.reload()
    assert not resumed(by_second)


# --- early data


@pytest.fixture
def early(origin, make_node, certs, tmp_path):
    """A node with a certificate for two sites, of which a.test takes early data. Calls send requests in it."""
    both = certs.issue(["a.test", "b.test"])
    node = make_node(origin, tls=both, start=False, workers=1)
    second_site(node, both)
    node.conf["sites"][0]["tls"] = both.conf | {"early_data": True}
    node.start()
    origin.page("/session")

    def send(request, name="a.test", alpn="http/1.1", options=(), behind=b""):
        file, session = tmp_path / "early", str(tmp_path / "session")
        file.write_bytes(request)
        options = ["-tls1_3", "-ign_eof", "-alpn", alpn, *options]
        s_client(node, *options, "-sess_out", session, name=name, send=get("/session", name) if alpn != "h2" else b"\n" * 30)
        return s_client(node, *options, "-sess_in", session, "-early_data", str(file), name=name, send=behind)
    send.node = node
    return send


def test_early_data_for_another_site_than_was_named(origin, early):
    """The connection's site takes it, the request's doesn't."""
    told = early(get("/a", "b.test"))
    assert "Early data was accepted" in told and "HTTP/1.1 425 Too Early" in told
    assert not origin.count("/a")


def test_early_data_is_not_offered_by_other_sites(origin, early):
    assert "Early data was accepted" not in early(get("/a", "b.test"), name="b.test", behind=get("/b", "b.test"))
    assert not origin.count("/a")


def test_early_data_over_http2(origin, early):
    """The same for streams: marked towards the origin, safe methods alone."""
    origin.page("/a", b"served in time", {"Cache-Control": "no-store"})
    encoder = hpack.Encoder()

    def stream(id, method):
        fields = [(":method", method), (":scheme", "https"), (":authority", "a.test"), (":path", f"/a?{method}")]
        return H2.bytes_of(HEADERS, END_HEADERS | END_STREAM, id, encoder.encode(fields, huffman=False))
    told = early(PREFACE + H2.bytes_of(SETTINGS, 0, 0) + stream(1, "GET") + stream(3, "POST") + H2.bytes_of(GOAWAY, 0, 0, bytes(8)), alpn="h2")
    assert "Early data was accepted" in told and "served in time" in told and "must not come before the handshake is done" in told
    assert origin.last("/a?GET").get("Early-Data") == "1" and not origin.count("/a?POST")


def test_a_second_hello(origin, early, tmp_path):
    """A client that guesses no group of ours is asked again (HelloRetryRequest): what was early is thrown away."""
    origin.page("/a", b"hello", FRESH)
    told = s_client(early.node, "-tls1_3", "-ign_eof", "-groups", "P-521:X25519", send=get("/a"))
    assert "HTTP/1.1 200" in told and "Server Temp Key: X25519" in told
    again = early(get("/b"), options=["-groups", "P-521:X25519"], behind=get("/a"))
    assert "Early data was rejected" in again and "HTTP/1.1 200" in again and not origin.count("/b")


def test_a_425_of_the_origin_is_for_who_was_early(origin, early):
    """Who waits for the same object, and came in order, is not told to come later."""
    asked, gate, told = Gate(), Gate(), []

    @origin.route("/a")
    def _(x):
        if x.request.get("Early-Data") is None:
            return x.reply(b"fine", FRESH)
        asked.open()
        gate.wait()
        x.reply(b"later", status=425)
    first = threading.Thread(target=lambda: told.append(early(get("/a"))))
    first.start()
    asked.wait()
    with early.node.connect() as c:
        c.request(target="/a")
        waits = 'brim_fill_waits_total{site="a"}'
        wait_until(lambda: early.node.metrics()[waits] + early.node.metrics()['brim_followers_total{site="a"}'] >= 1, "it to wait")
        gate.open()
        r = c.response()
        assert (r.status, r.body) == (200, b"fine")
    first.join()
    assert "HTTP/1.1 425" in told[0] and "later" in told[0]


# --- clients' certificates


@pytest.fixture
def stranger():
    """Another authority."""
    certs = Certs()
    yield certs
    certs.close()


@pytest.mark.parametrize("version", ["1.2", "1.3"])
def test_a_certificate_that_is_asked_for(origin, make_node, certs, stranger, pair, version):
    """Who shows none is served; who shows one that isn't good is not, which is counted and told once."""
    origin.page("/a", b"hello", FRESH)
    node = make_node(origin, tls=pair, workers=1, site={"tls": {"client": {"verify": "request", "ca": certs.root}}})

    def served(certificate):
        return status(node, client_context(certs.root, version=version, certificate=certificate))[0] == 200

    assert served(None) and served(certs.issue("me", usage="clientAuth"))
    mark = len(node.stderr())
    bad = {"unknown_ca": stranger.issue("me", usage="clientAuth"), "certificate": certs.issue("me", usage="serverAuth"),
           "certificate_expired": certs.issue("me", not_before=ago(9), not_after=ago(2))}
    for reason, certificate in bad.items():
        assert not served(certificate), reason
        wait_until(lambda reason=reason: node.stats()["tls"]["failures"].get(reason) == 1, f"{reason} to be counted")
    told = [(e["site"], e["reason"], e["peer"].split(":")[0]) for e in node.log("handshake_failed", after=mark)]
    assert told == [("a", "unknown_ca", "127.0.0.1")], "once a minute"


def ago(days):
    import datetime
    return datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(days=days)


def test_failures_have_reasons(origin, make_node, certs, pair):
    """What an operator reads of them, by what clients do."""
    node = make_node(origin, tls=pair, workers=1, conf={"limits": {"header_timeout": "1s"}})
    counted = {}

    def failed(reason):
        counted[reason] = counted.get(reason, 0) + 1
        wait_until(lambda: node.stats()["tls"]["failures"] == counted, f"{counted} to be counted, not {node.stats()['tls']['failures']}")

    for version in ("1.2", "1.3"):
        with pytest.raises(ssl.SSLError):  # one that doesn't trust us
            TlsConnection(node.tls_address, pair.certificate, version=version)
        failed("alert_unknown_ca")
    s_client(node, "-tls1_1", "-cipher", "ALL:@SECLEVEL=0")
    failed("version")
    s_client(node, "-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-SHA256")
    failed("no_shared_cipher")
    s_client(node, "-tls1_2", "-sigalgs", "RSA+SHA256")
    failed("no_shared_cipher")
    s_client(node, "-tls1_3", "-groups", "P-521")
    failed("no_shared_group")
    s_client(node, "-alpn", "spdy/3")
    failed("no_application_protocol")
    s_client(node, name="nobody.test")
    failed("unrecognized_name")
    for said, reason in ((b"GET / HTTP/1.1\r\n\r\n", "not_tls"), (b"SSH-2.0-OpenSSH_9.2\r\n", "not_tls"), (b"", "closed")):
        with socket.create_connection(("127.0.0.1", node.tls_port), 30) as s:
            s.sendall(said)
            s.shutdown(socket.SHUT_WR)
            while s.recv(1000):
                pass
        failed(reason)
    with socket.create_connection(("127.0.0.1", node.tls_port), 30) as s:
        assert s.recv(1000) == b""
    failed("timeout")
    lines = [k for k in node.metrics() if k.startswith("brim_tls_handshake_failures_total{")]
    assert len(lines) == len(counted)


def test_who_stands_in_the_file_is_trusted(origin, make_node, certs, pair):
    """An intermediate authority, or a client's own certificate: it needn't be a root, as with an origin's."""
    origin.page("/a", b"hello", FRESH)
    me, other = certs.issue("me", usage="clientAuth"), certs.issue("other", usage="clientAuth")
    node = make_node(origin, tls=pair, workers=1, site={"tls": {"client": {"verify": "require", "ca": certs.intermediate}}})

    def served(certificate):
        return status(node, client_context(certs.root, version="1.2", certificate=certificate))[0] == 200

    assert served(me) and served(other)
    node.reload(site={"tls": {"client": {"ca": me.leaf}}})
    assert served(me) and not served(other)


@pytest.mark.skipif(os.getuid() != 0, reason="whose /proc entry it is shows only where the children have another user")
def test_no_process_is_dumpable_where_keys_were_read(origin, make_node, pair):
    """The keeper, too: it was forked of a master that had keys."""
    node = make_node(origin, tls=pair)
    for role in ("keeper", "worker"):
        for pid in node.pids(role):
            assert os.stat(f"/proc/{pid}/environ").st_uid == 0, role
