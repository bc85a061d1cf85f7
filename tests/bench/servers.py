"""The servers of the bench: the origin, nginx and Brim as caches, the floors.

Each has a new directory of its own every time it starts, and is one group of processes that stop() ends.
"""
import fcntl
import grp
import json
import os
import pwd
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

from processes import Group, place

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAMS = os.path.join(ROOT, "build/bench")
SERVER_CORE, LOAD_CORE = 0, 1
USER = "nobody"
GROUP = grp.getgrgid(pwd.getpwnam(USER).pw_gid).gr_name
ORIGIN_PORT = 8000
SIZES = {"1k": 1 << 10, "100k": 100 << 10, "10m": 10 << 20, "1g": 1 << 30}
STORE_BYTES = 8 << 30
MEBIBYTE = os.urandom(1 << 20)


def spread_directories(path):
    """Has ext4 place each directory made in path far from others (README: traps). Elsewhere it does nothing."""
    fd = os.open(path, os.O_RDONLY)
    try:
        flags, = struct.unpack("l", fcntl.ioctl(fd, 0x80086601, struct.pack("l", 0)))  # FS_IOC_GETFLAGS
        fcntl.ioctl(fd, 0x40086602, struct.pack("l", flags | 0x20000))  # FS_IOC_SETFLAGS, FS_TOPDIR_FL
    except OSError:
        pass
    finally:
        os.close(fd)


def make_certificate(directory):
    """What all servers show: ECDSA on P-256."""
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30",
                    "-subj", "/CN=bench.test", "-addext", "subjectAltName=DNS:bench.test", "-out", f"{directory}/certificate.pem",
                    "-keyout", f"{directory}/key.pem"], check=True, stderr=subprocess.DEVNULL)


class Server:
    """One server: start() gives it a new directory, stop() ends all its processes and removes it."""

    kind = core = command = None
    store_bytes = STORE_BYTES
    ktls = True

    def __init__(self, name, port, parent, core=SERVER_CORE):
        self.name, self.port, self.parent, self.core = name, port, parent, core
        self.tls_port = port + 100
        self.group = self.process = self.directory = None

    def prepare(self):
        """Sets the command, and lays out the directory."""

    def start(self):
        self.group = self.group or Group(self.name)
        self.directory = tempfile.mkdtemp(prefix=self.name + "-", dir=self.parent)
        os.chmod(self.directory, 0o755)
        self.prepare()
        with open(f"{self.directory}/output", "wb") as output:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                                            start_new_session=True, preexec_fn=lambda: place(self.core, self.group))
        self.group.session = self.process.pid
        for _ in range(500):
            try:
                return socket.create_connection(("127.0.0.1", self.port), 1).close()
            except OSError:
                if self.process.poll() is not None:
                    break
                time.sleep(0.02)
        sys.exit(f"bench: {self.name} doesn't serve:\n{self.output()}")

    def output(self):
        with open(f"{self.directory}/output", errors="replace") as f:
            return f.read()[-2000:]

    def stop(self):
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            print(f"bench: {self.name} had to be killed", file=sys.stderr)
        for pid in self.group.pids():
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        self.process.wait()
        self.process = None
        shutil.rmtree(self.directory, ignore_errors=True)

    def forget(self):
        """What it has stored, where it can't tell old from new itself."""


class Nginx(Server):
    def configure(self, http, worker_connections=4096):
        with open(f"{self.directory}/nginx.conf", "w") as f:
            f.write(f"""
                daemon off; worker_processes 1; user {USER} {GROUP}; worker_rlimit_nofile 20000;
                pid {self.directory}/pid; error_log {self.directory}/output error;
                events {{ worker_connections {worker_connections}; }}
                http {{
                    access_log off; sendfile on; tcp_nodelay on; aio off;
                    keepalive_timeout 600; keepalive_requests 1000000000;
                    default_type application/octet-stream;
                    open_file_cache max=20000 inactive=300s; open_file_cache_valid 300s;
                    {"".join(f"{kind}_temp_path {self.directory}/{kind};" for kind in
                             ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))}
                    {http}
                }}""")
        self.command = ["nginx", "-c", f"{self.directory}/nginx.conf", "-e", f"{self.directory}/output"]


class Origin(Nginx):
    """/hit/SIZE/ANYTHING may be stored for a day, /pass/SIZE/ANYTHING not at all."""

    sizes = SIZES

    def prepare(self):
        for name, size in self.sizes.items():
            write_file(f"{self.directory}/{name}", size)
        self.configure(f"""
            tcp_nopush off;
            server {{
                listen 127.0.0.1:{self.port} backlog=1024; root {self.directory};
                location /hit/ {{ rewrite ^/hit/([^/]+)/ /$1 break; add_header Cache-Control "public, max-age=86400"; }}
                location /pass/ {{ rewrite ^/pass/([^/]+)/ /$1 break; add_header Cache-Control "no-store"; }}
            }}""")


class CachingNginx(Nginx):
    """As one would run it for speed; buffers and whether tcp_nopush is on by measurement."""

    kind = "nginx"

    def __init__(self, *args, tcp_nopush, **kw):
        super().__init__(*args, **kw)
        self.tcp_nopush = tcp_nopush

    def prepare(self):
        self.configure(f"""
            tcp_nopush {self.tcp_nopush}; server_tokens off; reset_timedout_connection on;
            proxy_cache_path {self.directory}/store levels=1:2 keys_zone=z:64m max_size={self.store_bytes} inactive=1d
                use_temp_path=off;
            upstream origin {{ server 127.0.0.1:{ORIGIN_PORT}; keepalive 256; keepalive_requests 1000000000; }}
            ssl_certificate {self.parent}/certificate.pem; ssl_certificate_key {self.parent}/key.pem;
            ssl_protocols TLSv1.2 TLSv1.3; ssl_conf_command Ciphersuites TLS_AES_128_GCM_SHA256; {"ssl_conf_command Options KTLS;" if self.ktls else ""}
            ssl_session_cache shared:s:10m; http2_max_concurrent_streams 128;
            server {{
                listen 127.0.0.1:{self.port} backlog=1024;
                listen 127.0.0.1:{self.tls_port} ssl http2 backlog=1024;
                proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host $host;
                proxy_buffer_size 16k; proxy_buffers 16 64k; proxy_busy_buffers_size 256k; proxy_max_temp_file_size 0;
                add_header Cache-Status "nginx; $upstream_cache_status";
                location /hit/ {{ proxy_pass http://origin; proxy_cache z; proxy_cache_key $request_uri; }}
                location /pass/ {{ proxy_pass http://origin; }}
            }}""")


class Brim(Server):
    kind = "brim"

    def __init__(self, *args, program, **kw):
        super().__init__(*args, **kw)
        self.program = program

    def prepare(self):
        self.command = [self.program, "-c", f"{self.directory}/brim.json"]
        user = pwd.getpwnam(USER)
        store = f"{self.directory}/store"
        os.mkdir(store, 0o750)
        os.chown(store, user.pw_uid, user.pw_gid)
        with open(f"{self.directory}/brim.json", "w") as f:
            json.dump({
                "workers": 1, "user": USER,
                "listeners": [{"address": f"127.0.0.1:{self.port}"}, {"address": f"127.0.0.1:{self.tls_port}", "tls": True}],
                "stores": [{"path": store, "size": self.store_bytes}],
                "origins": {"origin": {"servers": [{"url": f"http://127.0.0.1:{ORIGIN_PORT}"}],
                                       "keepalive": {"max_idle": 256}}},
                "sites": [{"hosts": ["*"], "origin": "origin",
                           "tls": {"certificate": f"{self.parent}/certificate.pem", "key": f"{self.parent}/key.pem"}}],
                "admin": {"listen": [f"unix:{self.directory}/admin.sock"]},
            }, f)


class Mini(Server):
    kind = "floor"

    def __init__(self, *args, origin):
        super().__init__(*args)
        self.origin = origin

    def prepare(self):
        self.command = [f"{PROGRAMS}/mini", str(self.port), self.origin.directory]


class Floor(Server):
    kind = "floor"

    def __init__(self, *args, way):
        super().__init__(*args)
        self.way = way

    def prepare(self):
        os.mkdir(f"{self.directory}/store")
        self.command = [f"{PROGRAMS}/floor", self.way, str(self.port), str(ORIGIN_PORT), f"{self.directory}/store"]

    def forget(self):
        for name in os.listdir(f"{self.directory}/store"):
            os.unlink(f"{self.directory}/store/{name}")


def write_file(path, size):
    with open(path, "wb") as f:
        os.fchmod(f.fileno(), 0o644)
        for _ in range(size >> 20):
            f.write(MEBIBYTE)
        f.write(MEBIBYTE[:size & len(MEBIBYTE) - 1])
