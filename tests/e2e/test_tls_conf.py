"""What `brim -t`, a start and a reload say of certificates, keys, tokens and their files."""
import base64
import datetime
import json
import os
import shutil
import subprocess

import pytest

from brimtest import TlsConnection
from brimtest.certs import openssl


class Checker:
    """A configuration with a TLS listener and a site a.test, and a directory for files; told() is what -t says of it."""

    def __init__(self, brim, directory, pair):
        self.brim, self.directory = brim, directory
        self.site = {"hosts": ["a.test"], "origin": "o", "tls": dict(pair.conf) if pair else None}
        self.conf = {
            "user": "", "listeners": [{"address": "127.0.0.1:1", "tls": True}],
            "stores": [{"path": os.path.join(directory, "store"), "size": "64MiB"}],
            "origins": {"o": {"servers": [{"url": "http://127.0.0.1:2"}]}}, "sites": [self.site],
            "admin": {"listen": [f"unix:{directory}/admin.sock"]},
        }

    def write(self, name, text, mode=0o600):
        path = os.path.join(self.directory, name)
        with open(path, "wb") as f:
            f.write(text.encode() if isinstance(text, str) else text)
        os.chmod(path, mode)
        return path

    def run(self):
        if self.site.get("tls") is None:
            self.site.pop("tls", None)
        path = self.write("brim.json", json.dumps(self.conf))
        return subprocess.run([self.brim, "-t", "-c", path], capture_output=True, text=True, timeout=30)

    def told(self, code):
        """The lines, each without the file's name before it."""
        r = self.run()
        assert r.returncode == code, r
        start = os.path.join(self.directory, "brim.json") + ": "
        assert all(line.startswith(start) for line in r.stderr.splitlines()), r.stderr
        return [line.removeprefix(start) for line in r.stderr.splitlines()]

    def faults(self):
        return self.told(1)

    def warnings(self):
        return self.told(0)


@pytest.fixture
def pair(certs):
    return certs.issue("a.test")


@pytest.fixture
def checker(brim, tmp_path, pair):
    return Checker(brim, str(tmp_path), pair)


def read(path):
    with open(path, "rb") as f:
        return f.read()


def test_good_pairs_are_well(checker, certs):
    rsa, ec = certs.issue(["a.test", "*.b.test"], kind="rsa"), certs.issue(["a.test", "*.b.test"])
    checker.site["hosts"] = ["a.test", "*.b.test", "www.b.test"]
    checker.site["tls"] = {"certificate": [rsa.certificate, ec.certificate], "key": [rsa.key, ec.key],
                           "ocsp": [certs.ocsp(rsa), certs.ocsp(ec)], "default": True, "early_data": True,
                           "client": {"verify": "request", "ca": certs.root}}
    checker.conf["origins"]["o"] = {"servers": [{"url": "https://origin.test"}],
                                    "tls": {"ca": certs.root, "server_name": "x.test", **ec.conf}}
    checker.conf["tls"] = {"tickets": {"rotate": "1h", "files": [checker.write("t", os.urandom(80))]}}
    assert checker.warnings() == []


def test_files_that_cannot_be_read(checker, pair):
    tls = checker.site["tls"]

    def said(key, path, what):
        tls.update(pair.conf)
        tls[key] = path
        assert checker.faults() == [f"/sites/0/tls/{key}: {what}"]

    none = os.path.join(checker.directory, "none")
    said("certificate", none, f"can't read {none}: No such file or directory")
    said("key", checker.directory, f"{checker.directory} is not a file")
    fifo = os.path.join(checker.directory, "fifo")
    os.mkfifo(fifo, 0o600)
    said("key", fifo, f"{fifo} is not a file")
    empty = checker.write("empty", "")
    said("certificate", empty, f"{empty} is empty")
    large = checker.write("large", b"x" * (1 << 20) + b"x")
    said("certificate", large, f"{large} is larger than 1 MiB")
    open_key = checker.write("open.key", read(pair.key), 0o644)
    said("key", open_key, f"{open_key} is open to all users of this machine: chmod 600, or 640")
    both = checker.write("both.pem", read(pair.certificate) + read(pair.key))
    said("certificate", both, f"{both} holds a private key, too: put it into a file of its own")


def test_what_is_in_the_files(checker, certs, pair):
    tls = checker.site["tls"]
    other = certs.issue("a.test")

    def said(*lines, **change):
        checker.site["tls"] = tls | change
        assert checker.faults() == list(lines)

    junk = checker.write("junk", os.urandom(3000))
    cut = checker.write("cut.pem", read(pair.certificate)[:-200])
    turned = checker.write("turned.pem", read(certs.intermediate) + read(pair.leaf))
    stranger = checker.write("stranger.pem", read(pair.leaf) + read(other.leaf))
    locked = os.path.join(checker.directory, "locked.key")
    openssl("pkey", "-in", pair.key, "-aes256", "-passout", "pass:x", "-out", locked)
    os.chmod(locked, 0o600)
    at = "/sites/0/tls/"
    broken = "holds no certificate, or a broken one (PEM)"
    order = "its certificate 2 has not issued the one before it: the site's own comes first, then who issued it, and so on"
    said(f"{at}certificate: {junk} {broken}", certificate=junk)
    said(f"{at}certificate: {cut} {broken}", certificate=cut)
    said(f"{at}certificate: {stranger}: {order}", certificate=stranger)
    said(f"{at}certificate: {turned}: {order}", "/sites/0/hosts/0: no certificate of the site or of \"tls.directory\" names a.test",
         certificate=turned)
    said(f"{at}key: {junk} holds no private key without a passphrase (PEM)", key=junk)
    said(f"{at}key: {locked} holds no private key without a passphrase (PEM)", key=locked)
    said(f"{at}key: {other.key} is not the key of {pair.certificate}", key=other.key)
    said(f"{at}ocsp: {junk} is not a successful OCSP response (DER)", ocsp=junk)
    said(f"{at}ocsp: {certs.ocsp(other)} is not about {pair.certificate}", ocsp=certs.ocsp(other))
    said(f"{at}client/ca: {junk} {broken}", client={"verify": "require", "ca": junk})
    said(f"{at}certificate/1: has the same kind of key as another one of the site",
         certificate=[pair.certificate, other.certificate], key=[pair.key, other.key])
    said(f"{at}key: must name one file for each certificate, in their order: 2 in all",
         certificate=[pair.certificate, other.certificate], key=[pair.key])
    old = certs.issue("a.test", digest="sha1")
    said(f"{at}certificate: OpenSSL refuses {old.certificate}: ca md too weak", **old.conf)
    client = certs.issue("a.test", usage="clientAuth")
    said(f"{at}certificate: {client.certificate} is not for TLS servers (keyUsage, extendedKeyUsage)", **client.conf)
    weak = checker.write("weak.key", openssl("genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:1024"))
    openssl("req", "-x509", "-new", "-key", weak, "-subj", "/CN=a.test", "-addext", "subjectAltName=DNS:a.test", "-days", "30",
            "-out", f"{checker.directory}/weak.pem")
    said(f"{at}key: {weak} is too weak a key: RSA needs 2048 bits", certificate=f"{checker.directory}/weak.pem", key=weak)


def test_a_certificate_towards_origins_is_for_clients(checker, certs):
    server, client = certs.issue("me", usage="serverAuth"), certs.issue("me", usage="clientAuth")
    origin = checker.conf["origins"]["o"] = {"servers": [{"url": "https://o.test"}], "tls": server.conf}
    assert checker.faults() == [
        f"/origins/o/tls/certificate: {server.certificate} is not for TLS clients (keyUsage, extendedKeyUsage)"]
    origin["tls"] = client.conf
    assert checker.warnings() == []


def test_what_does_nothing_is_a_warning(checker, certs):
    checker.site["tls"]["client"] = {"ca": certs.root}
    assert checker.warnings() == ['/sites/0/tls/client/ca: warning: no client is asked for a certificate: "verify" is "none"']
    del checker.site["tls"]["client"]
    checker.site["https_redirect"] = True
    assert checker.warnings() == []
    checker.conf["listeners"][0]["tls"] = False
    assert checker.warnings() == ['/sites/0/https_redirect: warning: no listener has TLS, and no proxy of "trusted_proxies" could: '
                                  "who is redirected comes back for ever, or nowhere"]
    checker.conf["trusted_proxies"] = ["10.0.0.0/8"]
    assert checker.warnings() == []


def test_a_chain_that_is_left_out_is_a_warning(checker, certs):
    """Where the certificate says that its issuer's can be had: an issuer that is a root may be known to all clients."""
    pair = certs.issue("a.test", more="authorityInfoAccess=caIssuers;URI:http://ca.test/ca.der")
    checker.site["tls"] = pair.conf
    assert checker.warnings() == []
    checker.site["tls"] = pair.conf | {"certificate": pair.leaf}
    assert checker.warnings() == [
        f"/sites/0/tls/certificate: warning: {pair.leaf} holds the site's certificate alone: who issued it is missing behind it, "
        "and clients that don't know that one will refuse it"]
    checker.site["tls"] = (certs.issue("a.test")).conf
    checker.site["tls"]["certificate"] = checker.site["tls"]["certificate"].replace(".pem", ".leaf.pem")
    assert checker.warnings() == []


def test_every_host_needs_a_name_in_a_certificate(checker, certs):
    directory = os.path.join(checker.directory, "certs")
    os.mkdir(directory)
    more = certs.issue(["c.test", "::1"])
    shutil.copy(more.certificate, f"{directory}/more.crt")
    shutil.copy(more.key, f"{directory}/more.key")
    checker.site["hosts"] = ["a.test", "b.test", "*.a.test", "x.a.test", "c.test", "[::1]", "127.0.0.1"]
    wild = certs.issue(["a.test", "y.a.test"])
    checker.site["tls"] = wild.conf
    checker.conf["tls"] = {"directory": directory}
    none = 'no certificate of the site or of "tls.directory" names'
    assert checker.faults() == [f"/sites/0/hosts/1: {none} b.test", f"/sites/0/hosts/2: {none} *.a.test",
                                f"/sites/0/hosts/3: {none} x.a.test", f"/sites/0/hosts/6: {none} 127.0.0.1"]
    # A site without a certificate of its own may be there for plain HTTP alone.
    del checker.site["tls"]
    assert checker.warnings() == []


def test_a_directory(checker, certs, pair):
    directory = os.path.join(checker.directory, "certs")
    os.mkdir(directory)
    del checker.site["tls"]
    checker.conf["tls"] = {"directory": directory}
    at = "/tls/directory: "
    assert checker.faults() == [f"{at}{directory} holds no certificates (NAME.pem or NAME.crt, with NAME.key)"]
    shutil.copy(pair.certificate, f"{directory}/a.pem")
    assert checker.faults() == [f"{at}{directory}/a.pem has no key: there is no {directory}/a.key"]
    other = certs.issue("b.test")
    shutil.copy(other.key, f"{directory}/a.key")
    assert checker.faults() == [f"{at}{directory}/a.key is not the key of {directory}/a.pem"]
    shutil.copy(pair.key, f"{directory}/a.key")
    shutil.copy(certs.ocsp(other), f"{directory}/a.ocsp")
    assert checker.faults() == [f"{at}{directory}/a.ocsp is not about {directory}/a.pem"]
    shutil.copy(certs.ocsp(pair), f"{directory}/a.ocsp")
    assert checker.warnings() == []
    os.chmod(f"{directory}/a.key", 0o604)
    assert checker.faults() == [f"{at}{directory}/a.key is open to all users of this machine: chmod 600, or 640"]
    checker.conf["tls"]["directory"] = directory + "/none"
    assert checker.faults() == [f"{at}can't read {directory}/none: No such file or directory"]


def test_what_time_has_done_is_a_warning(checker, certs):
    now = datetime.datetime.now(datetime.timezone.utc)
    day = datetime.timedelta(days=1)

    def said(pair, ocsp=None):
        checker.site["tls"] = pair.conf | ({"ocsp": ocsp} if ocsp else {})
        return [line.replace(pair.certificate, "CERT") for line in checker.warnings()]

    gone = certs.issue("a.test", not_before=now - 10 * day, not_after=now - 2 * day)
    assert said(gone) == [f"/sites/0/tls/certificate: warning: CERT has expired on {now - 2 * day:%Y-%m-%d %H:%M} UTC"]
    soon = certs.issue("a.test", not_after=now + 13 * day)
    assert said(soon) == [f"/sites/0/tls/certificate: warning: CERT expires on {now + 13 * day:%Y-%m-%d %H:%M} UTC"]
    later = certs.issue("a.test", not_before=now + day, days=30)
    assert said(later) == [f"/sites/0/tls/certificate: warning: CERT is not valid before {now + day:%Y-%m-%d %H:%M} UTC"]
    assert said(certs.issue("a.test", not_after=now + 15 * day)) == []
    revoked = certs.issue("a.test")
    certs.revoke(revoked)
    ocsp = certs.ocsp(revoked)
    assert said(revoked, ocsp) == [f"/sites/0/tls/ocsp: warning: {ocsp} says that CERT is revoked or unknown"]


def test_a_tls_listener_needs_a_certificate(checker):
    del checker.site["tls"]
    assert checker.faults() == ['/listeners/0/tls: there is no certificate: give a site one ("tls"), or "tls.directory"']


def test_a_plain_way_around_client_certificates(checker, certs, pair):
    checker.site["tls"]["client"] = {"verify": "require", "ca": certs.root}
    assert checker.warnings() == []
    checker.conf["listeners"].append({"address": "127.0.0.1:3"})
    assert checker.warnings() == [
        "/sites/0/tls/client/verify: warning: 127.0.0.1:3 has no TLS and serves the site to clients without a certificate: set "
        '"https_redirect"']
    checker.site["https_redirect"] = True
    assert checker.warnings() == []


def test_tickets_and_tokens(checker):
    short, long = checker.write("short", os.urandom(48)), checker.write("long", os.urandom(80))
    checker.conf["tls"] = {"tickets": {"files": [long, short]}}
    assert checker.faults() == [f"/tls/tickets/files/1: {short} has 48 bytes, a ticket's keys have 80 (openssl rand 80)"]
    del checker.conf["tls"]

    good, same = checker.write("good", "0123456789abcdef\n"), checker.write("same", "0123456789abcdef")
    spaced, brief = checker.write("spaced", "0123456789 abcdef"), checker.write("brief", "0123456789\n")
    public = checker.write("public", "0123456789abcdeg", 0o644)
    checker.conf["admin"]["tokens"] = [
        {"name": "a", "file": good, "role": "admin"}, {"name": "b", "file": same, "role": "read"},
        {"name": "a", "file": checker.write("c", "0123456789abcdefg"), "role": "purge", "sites": ["a.test", "b.test"]},
        {"name": "d", "file": checker.write("d", "0123456789abcdefh"), "role": "admin", "sites": ["a.test"]}]
    assert checker.faults() == [
        "/admin/tokens/1: is the same token as /admin/tokens/0",
        "/admin/tokens/2: has the name of /admin/tokens/0: give each its own",
        '/admin/tokens/2: there is no site "b.test"',
        '/admin/tokens/3: an admin\'s token is for the whole node: leave "sites" out, or give it the role "purge"']
    checker.conf["admin"]["tokens"] = [{"name": n, "file": f, "role": "read"}
                                       for n, f in (("a", spaced), ("b", brief), ("c", public))]
    assert checker.faults() == [
        f"/admin/tokens/0/file: {spaced} must hold one line of printable ASCII without spaces",
        f"/admin/tokens/1/file: {brief} must hold a token of 16 to 1024 characters (openssl rand -hex 32)",
        f"/admin/tokens/2/file: {public} is open to all users of this machine: chmod 600, or 640"]


def test_admin_over_tcp(checker, pair, certs):
    admin = checker.conf["admin"]
    admin.update(listen=["127.0.0.1:9", "10.0.0.1:9"], metrics_listen=["[::1]:10", "*:11", "127.0.0.1:9"])
    no_token = 'anybody could call it: TCP needs a token in "admin.tokens"'
    no_tls = 'can be reached from other machines: it needs "admin.tls"'
    assert checker.faults() == [
        f"/admin/listen/0: {no_token}", f"/admin/listen/1: {no_token}", f"/admin/listen/1: {no_tls}",
        f"/admin/metrics_listen/1: {no_tls}", "/admin/metrics_listen/2: is already /admin/listen/0, which serves metrics, too"]
    admin["metrics_listen"].pop()
    admin["tokens"] = [{"name": "a", "file": checker.write("t", "0123456789abcdef\n"), "role": "admin"}]
    admin["tls"] = {"certificate": pair.certificate}
    assert checker.faults() == ["/admin/tls/key: must name one file for each certificate, in their order: 1 in all",
                                f"/admin/listen/1: {no_tls}", f"/admin/metrics_listen/1: {no_tls}"]
    admin["tls"] = {"certificate": pair.certificate, "key": certs.issue("x.test").key}
    assert checker.faults() == [f"/admin/tls/key: {admin['tls']['key']} is not the key of {pair.certificate}"]
    admin["tls"] = pair.conf
    assert checker.warnings() == []


def secrets_of(*paths):
    """The texts by which a key or token would be known again, as they are and as base64."""
    found = []
    for path in paths:
        contents = read(path)
        found += [contents[40:80], base64.b64encode(contents)[60:100]]
    return found


def memory_of(pid):
    """All that a process could write of."""
    out = []
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as mem:
        for line in maps:
            where, rights = line.split()[:2]
            if not rights.startswith("rw") or "[vvar" in line:
                continue
            begin, end = (int(n, 16) for n in where.split("-"))
            if end - begin > 256 << 20:  # shared pages and address space that is only set aside
                continue
            try:
                mem.seek(begin)
                out.append(mem.read(end - begin))
            except OSError:
                pass
    return b"".join(out)


@pytest.mark.skipif(os.getuid() != 0, reason="reads other processes' memory")
@pytest.mark.perf  # the plain binary: a sanitizer keeps what was freed
def test_who_has_keys(origin, make_node, certs, tmp_path):
    site, admin = certs.issue(["a.test", "*.a.test"]), certs.issue("admin.test")
    token = tmp_path / "token"
    token.write_text("a-token-that-nobody-may-see\n")
    token.chmod(0o600)
    node = make_node(origin, tls=site, conf={"admin": {
        "tls": admin.conf, "tokens": [{"name": "ci", "file": str(token), "role": "read"}]}})
    node.reload({"limits": {"headers": 99}})

    assert node.get("/").status == 404
    keeper, worker = node.pids("keeper")[0], node.pids("worker")[0]
    for known in secrets_of(site.key):
        assert known not in memory_of(keeper), "the keeper has a site's key"
    assert any(known in memory_of(worker) for known in secrets_of(site.key)), "the test can't see keys"
    assert any(known in memory_of(keeper) for known in secrets_of(admin.key)), "the keeper has not the admin's key"
    for pid in (keeper, worker, node.process.pid):
        assert b"a-token-that-nobody-may-see" not in memory_of(pid), "a token outlived its reading"

    shown = node.admin("GET", "/v1/config")
    assert shown.status == 200 and shown.json()["sites"][0]["tls"] == site.conf
    text = node.brimctl("config", "show").stdout.encode() + shown.body
    for known in [b"x-files", b"x-slots", *secrets_of(site.key, site.certificate, admin.key)]:
        assert known not in text


@pytest.mark.skipif(os.getuid() != 0, reason="whose /proc entry it is shows only where the children have another user")
def test_processes_with_keys_are_not_dumpable(origin, make_node, certs):
    def open_to_its_user():
        return {role: os.stat(f"/proc/{node.pids(role)[0]}/environ").st_uid != 0 for role in ("keeper", "worker")}

    node = make_node(origin)
    assert open_to_its_user() == {"keeper": True, "worker": True}
    pair = certs.issue(["a.test", "*.a.test"])
    node.reload(site={"tls": pair.conf})
    assert open_to_its_user()["worker"] is False


def test_reload_reads_the_files_again(origin, make_node, certs, tmp_path):
    pair, other = certs.issue(["a.test", "*.a.test"]), certs.issue(["a.test", "*.a.test"])
    mine = {"certificate": str(tmp_path / "a.pem"), "key": str(tmp_path / "a.key")}

    def put(certificate, key):
        shutil.copy(certificate, mine["certificate"])
        shutil.copy(key, mine["key"])

    put(pair.certificate, pair.key)
    node = make_node(origin, site={"tls": mine})
    put(other.certificate, pair.key)
    fault = node.reload(ok=False)
    assert fault["fault"].endswith(f"/sites/0/tls/key: {mine['key']} is not the key of {mine['certificate']}")
    put(other.certificate, other.key)
    node.reload()

    soon = certs.issue(["a.test", "*.a.test"], days=3)
    put(soon.certificate, soon.key)
    mark = len(node.stderr())
    node.reload()
    assert "/sites/0/tls/certificate: warning: " in node.wait_log("configuration_warning", after=mark)["what"]


def test_what_a_reload_may_change(origin, make_node, certs):
    pair = certs.issue(["a.test", "*.a.test"])
    node = make_node(origin)
    origin.page("/", b"hello\n")
    listener = {"address": node.address, "proxy_protocol": {"from": ["10.0.0.0/8"]}, "protocols": ["http/1.1"], "tls": True}
    node.reload({"listeners": [listener], "tls": {"tickets": {"rotate": "1h"}}}, site={"tls": pair.conf})
    with TlsConnection(node.address, certs.root) as c:
        c.request()
        assert c.response().body == b"hello\n"
    node.reload({"listeners": [{"address": node.address}]}, site={"tls": None})
    assert node.get("/").body == b"hello\n"
    refused = node.reload({"admin": {"metrics_listen": ["127.0.0.1:9"]}}, ok=False)
    assert "/admin/metrics_listen: a reload can't change it" in refused["fault"]
