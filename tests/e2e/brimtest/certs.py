"""Certificates of our own, made by the openssl program: a root, an intermediate under it, and what that one issues.

    certs.root                              the root's certificate: what clients trust
    pair = certs.issue(["a.test", "*.b.test"], kind="rsa")
    pair.certificate, pair.key              paths; the certificate's file holds the intermediate's, too
    certs.ocsp(pair)                        path of a response (DER): good, or revoked after certs.revoke(pair)

`openssl ca` and not `x509 -req`: it takes any two dates, and keeps the index that OCSP answers are made from.
"""
import datetime
import ipaddress
import os
import subprocess
import tempfile

CONFIG = """
[ca]
default_ca = issuer
[issuer]
database = {0}/index.txt
serial = {0}/serial
new_certs_dir = {0}/issued
default_md = sha256
policy = any
copy_extensions = none
unique_subject = no
email_in_dn = no
rand_serial = yes
[any]
commonName = supplied
[req]
distinguished_name = name
[name]
"""


class Pair:
    """A certificate and its key: paths of PEM files."""

    def __init__(self, names, certificate, key, leaf):
        self.names, self.certificate, self.key = names, certificate, key
        self.leaf = leaf  # the certificate without its chain

    @property
    def conf(self):
        """As a site's or an origin's "tls" has it."""
        return {"certificate": self.certificate, "key": self.key}

    def serial(self):
        return openssl("x509", "-in", self.leaf, "-noout", "-serial").split("=")[1].strip()


def openssl(*args, **kw):
    done = subprocess.run(["openssl", *args], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, **kw)
    assert done.returncode == 0, f"openssl {' '.join(args)}:\n{done.stderr}"
    return done.stdout


def date(when):
    return when.strftime("%Y%m%d%H%M%SZ")


def alternative(name):
    try:
        return f"IP:{ipaddress.ip_address(name)}"
    except ValueError:
        return f"DNS:{name}"


class Certs:
    def __init__(self, kind="ec"):
        self._holder = tempfile.TemporaryDirectory(prefix="brim-certs-")
        self.directory = self._holder.name
        os.chmod(self.directory, 0o755)
        os.mkdir(self._path("issued"))
        open(self._path("index.txt"), "w").close()
        with open(self._path("config"), "w") as f:
            f.write(CONFIG.format(self.directory))
        self.count = 0
        self.root, self.root_key = self._path("root.pem"), self._make_key("root.key", kind)
        openssl("req", "-x509", "-new", "-key", self.root_key, "-subj", "/CN=Test root", "-days", "3650", "-out", self.root,
                "-config", self._path("config"), "-addext", "basicConstraints=critical,CA:TRUE",
                "-addext", "keyUsage=critical,keyCertSign,cRLSign")
        self.intermediate, self.intermediate_key = self._path("intermediate.pem"), self._make_key("intermediate.key", kind)
        self._sign(self.intermediate_key, self.intermediate, "Test intermediate", self.root, self.root_key,
                   "basicConstraints=critical,CA:TRUE,pathlen:0\nkeyUsage=critical,keyCertSign,cRLSign\n")

    def close(self):
        self._holder.cleanup()

    def _path(self, name):
        return os.path.join(self.directory, name)

    def _make_key(self, name, kind):
        what = {"ec": ["EC", "-pkeyopt", "ec_paramgen_curve:P-256"], "rsa": ["RSA", "-pkeyopt", "rsa_keygen_bits:2048"]}[kind]
        openssl("genpkey", "-algorithm", *what, "-out", self._path(name))
        os.chmod(self._path(name), 0o600)
        return self._path(name)

    def _sign(self, key, out, name, issuer, issuer_key, extensions, start=None, end=None, digest="sha256"):
        now = datetime.datetime.now(datetime.timezone.utc)
        start, end = start or now - datetime.timedelta(hours=1), end or now + datetime.timedelta(days=3650)
        with open(out + ".ext", "w") as f:
            f.write("subjectKeyIdentifier=hash\nauthorityKeyIdentifier=keyid\n" + extensions)
        openssl("req", "-new", "-key", key, "-subj", f"/CN={name[:60]}", "-out", out + ".csr", "-config", self._path("config"))
        openssl("ca", "-batch", "-notext", "-config", self._path("config"), "-in", out + ".csr", "-cert", issuer, "-keyfile",
                issuer_key, "-startdate", date(start), "-enddate", date(end), "-extfile", out + ".ext", "-out", out, "-md", digest)

    def issue(self, names, kind="ec", days=90, not_before=None, not_after=None, usage="serverAuth,clientAuth", digest="sha256", more=""):
        """A Pair for host names and addresses (or one). not_before, not_after: datetimes; else from now, for that many days.
        more: lines of extensions."""
        names = [names] if isinstance(names, str) else list(names)
        self.count += 1
        stem = self._path(f"{self.count}-{names[0].replace('*', '_').replace(':', '.')}")
        key = self._make_key(os.path.basename(stem) + ".key", kind)
        end = not_after or (not_before or datetime.datetime.now(datetime.timezone.utc)) + datetime.timedelta(days=days)
        self._sign(key, stem + ".leaf.pem", names[0], self.intermediate, self.intermediate_key,
                   "basicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature\n"
                   f"extendedKeyUsage={usage}\nsubjectAltName={','.join(map(alternative, names))}\n{more}\n", not_before, end, digest)
        with open(stem + ".pem", "w") as out:
            for part in (stem + ".leaf.pem", self.intermediate):
                with open(part) as f:
                    out.write(f.read())
        return Pair(names, stem + ".pem", key, stem + ".leaf.pem")

    def revoke(self, pair):
        openssl("ca", "-config", self._path("config"), "-cert", self.intermediate, "-keyfile", self.intermediate_key,
                "-revoke", pair.leaf)

    def ocsp(self, pair, days=7):
        """Path of an OCSP response for the pair, as its issuer signs it now."""
        out = pair.leaf + ".ocsp"
        openssl("ocsp", "-index", self._path("index.txt"), "-CA", self.intermediate, "-rsigner", self.intermediate,
                "-rkey", self.intermediate_key, "-issuer", self.intermediate, "-cert", pair.leaf, "-ndays", str(days),
                "-respout", out)
        return out
