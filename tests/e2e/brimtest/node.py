"""One running node: brim in the foreground, with a directory of its own.

The directory lies in $TMPDIR or /var/tmp (a disk, since splice and sync are what is tested) and
holds brim.json, store/, admin.sock, access.log and stderr. As root the node drops to «nobody».
"""
import collections
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time

from .client import Connection, fetch
from .tls import TlsConnection
from .wait import PATIENCE, wait_until

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
USER = "nobody"
SANITIZER_REPORT = re.compile(r"ERROR: \w+Sanitizer|runtime error: |WARNING: ThreadSanitizer")
KNOWN_FILES = {"brim.json", "store", "admin.sock", "access.log", "stderr", "sites.d"}


def binary(variable, default):
    return os.path.join(ROOT, os.environ.get(variable) or default)


given_ports = collections.deque(maxlen=256)  # a node asks for several before it binds the first


def free_port():
    """A port below the kernel's ephemeral range, so that no outgoing connection takes it meanwhile, and from a range of
    this test process's own, so that no other one's node does while ours is down."""
    number = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 8
    while True:
        port = random.SystemRandom().randrange(10000 + 2700 * number, 10000 + 2700 * (number + 1))
        if port in given_ports:
            continue
        with socket.socket() as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                s.bind(("127.0.0.1", port))
                given_ports.append(port)
                return port
            except OSError:
                continue


def merged(base, change):
    """change over base: objects key by key, all else replaced; None removes a key."""
    if not isinstance(base, dict) or not isinstance(change, dict):
        return change
    out = dict(base)
    for key, value in change.items():
        if value is None:
            out.pop(key, None)
        else:
            out[key] = merged(base[key], value) if key in base else value
    return out


class StartFailed(AssertionError):
    pass


class Node:
    """origin: an Origin or a URL. site, origin_conf and conf are merged over the configuration that
    default_conf makes (site over its only site, origin_conf over its only origin, conf over all).
    tls: a Pair (see Certs), the site's: there is a second listener then, on tls_address, with these protocols.
    args: start with these arguments instead of -c (a --listen of a free port is added)."""

    def __init__(self, brim, origin=None, site=None, origin_conf=None, conf=None, workers=2, size="256MiB",
                 name="brim", args=None, clock=None, env=None, wrapper=(), tls=None,
                 protocols=("h2", "http/1.1")):
        self.brim, self.clock, self.args, self.wrapper = brim, clock, args, list(wrapper)
        self.env = env or {}
        self.directory = tempfile.mkdtemp(prefix="brim-test-", dir=os.environ.get("TMPDIR") or "/var/tmp")
        self.store = os.path.join(self.directory, "store")
        os.mkdir(self.store, 0o750)
        os.chmod(self.directory, 0o755)
        self._give(self.directory, self.store)
        self.admin_path = os.path.join(self.store if args is not None else self.directory, "admin.sock")
        self.admin_address = "unix:" + self.admin_path
        self.config_path = os.path.join(self.directory, "brim.json")
        self.access_path = os.path.join(self.directory, "access.log")
        self.stderr_path = os.path.join(self.directory, "stderr")
        self.process = None
        self.last_words = ""
        self.may_crash = False  # a test that kills or breaks children says so
        self.port = free_port()
        url = getattr(origin, "url", origin)
        self.conf = self.default_conf(name, url, workers, size)
        self.tls_port = free_port() if tls else None
        if tls:
            self.conf["listeners"].append({"address": self.tls_address, "tls": True, "protocols": list(protocols)})
            self.conf["sites"][0] |= {"tls": tls.conf, "hosts": tls.names}
        if site:
            self.conf["sites"][0] = merged(self.conf["sites"][0], site)
        if origin_conf:
            self.conf["origins"]["o"] = merged(self.conf["origins"]["o"], origin_conf)
        self.conf = merged(self.conf, conf or {})

    def _give(self, *paths):
        if os.getuid() == 0:
            for path in paths:
                shutil.chown(path, USER)

    def default_conf(self, name, url, workers, size):
        conf = {
            "name": name, "workers": workers, "shutdown_timeout": "5s",
            "listeners": [{"address": f"127.0.0.1:{self.port}"}],
            "stores": [{"name": "s", "path": self.store, "size": size}],
            "origins": {"o": {"servers": [{"url": url}]}},
            "sites": [{"name": "a", "hosts": ["a.test", "*.a.test"], "origin": "o"}],
            "admin": {"listen": [self.admin_address]},
            "log": {"access": {"path": self.access_path}, "error": {"path": "stderr", "level": "info"}},
        }
        if os.getuid() == 0:
            conf["user"] = USER
        return conf

    # --- life

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    @property
    def tls_address(self):
        return f"127.0.0.1:{self.tls_port}"

    @property
    def url(self):
        return f"http://{self.address}"

    def command(self):
        if self.args is None:
            return [*self.wrapper, self.brim, "-c", self.config_path]
        return [*self.wrapper, self.brim, *self.args, "--listen", self.address, "--store", self.store]

    def start(self, ready=True, timeout=30):
        """Starts it and waits until it is ready for traffic. Where another has its port: on another one, unless it was there
        before (what is stored bears the port), and then again until the other is gone."""
        before = self.process is not None
        deadline = time.monotonic() + 60 * PATIENCE
        while time.monotonic() < deadline:
            self.write_conf()
            mark = len(self.stderr())
            self.spawn()
            if not ready:
                return self
            try:
                self.wait_ready(timeout)
                return self
            except StartFailed:
                if not re.search("[Aa]ddress already in use|EADDRINUSE", self.stderr()[mark:]):
                    raise
                if not before:
                    self._other_port()
        raise AssertionError("no free port")

    def _other_port(self):
        text = json.dumps(self.conf)
        for name in ("port", "tls_port"):
            old = getattr(self, name)
            if old is not None:
                setattr(self, name, free_port())
                text = text.replace(f'"127.0.0.1:{old}"', f'"127.0.0.1:{getattr(self, name)}"')
        self.conf = json.loads(text)

    def spawn(self):
        env = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")} | self.env
        env["BRIM_TEST_NODE"] = self.directory  # by which what is left over is found
        if self.clock is not None:
            env["BRIM_TEST_CLOCK"] = self.clock.path
        with open(self.stderr_path, "ab") as out:
            self.process = subprocess.Popen(
                self.command(), cwd=self.directory, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                start_new_session=True)

    def wait_ready(self, timeout=30):
        def ready():
            if self.process.poll() is not None:
                raise StartFailed(f"brim ended with {self.process.returncode} at start:\n{self.stderr()[-4000:]}")
            try:
                return self.admin("GET", "/readyz", timeout=5).status == 200
            except (OSError, AssertionError):
                return False
        wait_until(ready, "the node to be ready", timeout)

    def stop(self, sig=signal.SIGINT, code=0, timeout=30):
        """Signals the master and waits for its end."""
        if self.process.poll() is None:
            self.process.send_signal(sig)
        self.wait_end(code, timeout)

    def wait_end(self, code=0, timeout=30):
        try:
            got = self.process.wait(timeout * PATIENCE)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"brim did not end within {timeout} s; left: {self.leftovers()}") from None
        assert code is None or got == code, f"brim ended with {got}, not {code}"
        wait_until(lambda: not self.leftovers(), "all processes to end", timeout)

    def restart(self, sig=signal.SIGINT):
        self.stop(sig)
        return self.start()

    def kill_all(self):
        """kill -9 of every process of the node at once, as near as one can."""
        pids = self.leftovers()
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        self.process.wait(30 * PATIENCE)
        wait_until(lambda: not self.leftovers(), "all processes to end")

    def leftovers(self):
        """Pids of this node's processes that still run."""
        mark = b"BRIM_TEST_NODE=" + os.fsencode(self.directory) + b"\0"
        found = []
        for entry in os.listdir("/proc"):
            if not entry.isdigit():
                continue
            try:
                with open(f"/proc/{entry}/environ", "rb") as f:
                    if mark not in f.read():
                        continue
                with open(f"/proc/{entry}/stat") as f:
                    if f.read().rpartition(")")[2].split()[0] != "Z":
                        found.append(int(entry))
            except OSError:
                continue
        return found

    def close(self):
        """Ends it in whatever state it is and looks for what it left. Called by the fixture."""
        try:
            if self.process is not None:
                if self.process.poll() is None:
                    self.stop()
                self.check()
        finally:
            for pid in self.leftovers():
                os.kill(pid, signal.SIGKILL)
            if self.process is not None:
                self.process.wait(30 * PATIENCE)
            self.last_words = self.stderr()  # for the report of a test that fails in its teardown
            if not os.environ.get("BRIM_KEEP"):
                shutil.rmtree(self.directory, ignore_errors=True)

    def check(self):
        """Asserts that nothing went wrong unseen."""
        text = self.stderr()
        assert not SANITIZER_REPORT.search(text), "a sanitizer's report:\n" + text
        if not self.may_crash:
            assert "check_failed" not in text, "an assertion failed:\n" + text
            assert not [e for e in self.log() if e["event"] == "child_died"], "a child died:\n" + text
        strange = set(os.listdir(self.directory)) - KNOWN_FILES
        assert not strange, f"files were left: {strange}"

    # --- configuration

    def write_conf(self):
        """Replaces the file in one step, as editors do."""
        with open(self.config_path + ".new", "w") as f:
            json.dump(self.conf, f, indent=1)
        os.rename(self.config_path + ".new", self.config_path)

    def reload(self, change=None, site=None, ok=True, timeout=30):
        """Merges the changes into the file, sends HUP and waits for the outcome, which it returns."""
        if site:
            self.conf["sites"][0] = merged(self.conf["sites"][0], site)
        self.conf = merged(self.conf, change or {})
        self.write_conf()
        mark = len(self.stderr())
        self.process.send_signal(signal.SIGHUP)
        wanted = "reload_done" if ok else "reload_failed"
        return self.wait_log(wanted, after=mark, timeout=timeout)

    # --- traffic

    def connect(self, timeout=30):
        return Connection(self.address, timeout)

    def connect_tls(self, ca=None, **kw):
        """A connection to tls_address (see TlsConnection)."""
        return TlsConnection(self.tls_address, ca, **kw)

    def get(self, target="/", headers=None, **kw):
        return fetch(self.address, target, headers=headers, **kw)

    def request(self, method, target="/", headers=None, body=None, **kw):
        return fetch(self.address, target, method, headers, body, **kw)

    # --- administration

    def admin(self, method, path, body=None, timeout=30):
        headers = {"Content-Type": "application/json"} if body is not None else {}
        data = json.dumps(body).encode() if body is not None else None
        return fetch(self.admin_address, path, method, headers, data, host="localhost", timeout=timeout)

    def _admin_json(self, method, path, body=None):
        r = self.admin(method, path, body)
        assert r.status == 200 and r.complete, f"{method} {path}: {r}"
        return r.json()

    def purge(self, target, host="a.test", soft=False):
        """By URL: a path of the default site, or a whole URL."""
        url = target if "://" in target else f"http://{host}{target}"
        return self._admin_json("POST", "/v1/purge", {"urls": [url]} | ({"soft": True} if soft else {}))

    def purge_all(self):
        return self._admin_json("POST", "/v1/purge", {"all": True})

    def status(self):
        return self._admin_json("GET", "/v1/status")

    def stats(self):
        return self._admin_json("GET", "/v1/stats")

    def object(self, target, host="a.test"):
        return self._admin_json("GET", f"/v1/object?url=http://{host}{target}")

    def metrics(self):
        """{'brim_name{label="x"}': value}, without the comment lines."""
        r = self.admin("GET", "/metrics")
        assert r.status == 200 and r.body.endswith(b"# EOF\n"), r
        lines = [line.rsplit(" ", 1) for line in r.body.decode().splitlines() if not line.startswith("#")]
        return {name: float(value) for name, value in lines}

    def brimctl(self, *args, timeout=30):
        return subprocess.run([binary("BRIMCTL_BIN", "build/brimctl"), "-s", self.admin_address, *args],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=timeout * PATIENCE)

    def pids(self, role):
        """Pids by role, in the order of slots: master, worker, keeper."""
        return [p["pid"] for p in self.status()["processes"] if p["role"] == role]

    def kill(self, role, index=0, sig=signal.SIGKILL):
        """Signals a process by role; returns its pid."""
        pid = self.process.pid if role == "master" else self.pids(role)[index]
        self.may_crash = True
        os.kill(pid, sig)
        return pid

    def wait_replaced(self, role, pid, timeout=30):
        """Waits until a killed child has a successor."""
        def replaced():
            try:
                pids = self.pids(role)
            except (OSError, AssertionError):
                return False
            return pids if pid not in pids and all(pids) else False
        return wait_until(replaced, f"a new {role}", timeout)

    # --- logs

    def stderr(self):
        try:
            with open(self.stderr_path, encoding="utf-8", errors="replace") as f:
                return f.read()
        except FileNotFoundError:
            return ""

    def log(self, event=None, after=0):
        """The error log's lines as dicts: time, level, process, event and each key."""
        out = []
        for line in self.stderr()[after:].splitlines():
            parts = line.split(" ", 4)
            if len(parts) < 4 or parts[1] not in ("error", "warn", "info", "debug"):
                continue
            entry = dict(zip(("time", "level", "process", "event"), parts))
            for key, value in re.findall(r'(\w+)=("(?:\\.|[^"\\])*"|\S*)', parts[4] if len(parts) > 4 else ""):
                entry[key] = value[1:-1] if value.startswith('"') else value
            if event is None or entry["event"] == event:
                out.append(entry)
        return out

    def wait_log(self, event, after=0, timeout=30):
        return wait_until(lambda: self.log(event, after), f"log event {event}", timeout)[-1]

    def access_log(self, n=0, timeout=30):
        """The access log's lines as objects, once there are at least n."""
        def lines():
            try:
                with open(self.access_path) as f:
                    found = [json.loads(line) for line in f if line.endswith("\n")]
            except FileNotFoundError:
                found = []
            return (found,) if len(found) >= n else None
        return wait_until(lines, f"{n} access log lines", timeout)[0]

    # --- resources, for tests that count

    def descriptors(self, pid):
        return len(os.listdir(f"/proc/{pid}/fd"))

    def store_bytes(self):
        """What the store takes on disk."""
        total = 0
        for at, _, names in os.walk(self.store):
            for name in names:
                try:
                    total += os.lstat(os.path.join(at, name)).st_blocks * 512
                except FileNotFoundError:
                    pass
        return total
