"""Debian's nginx as an origin: a real server before a real tree of files."""
import os
import shutil
import signal
import subprocess
import tempfile

from .client import Connection
from .node import free_port
from .wait import wait_until

CONF = """
daemon off; master_process off; {user}
pid {dir}/pid; error_log {dir}/error.log warn;
events {{ worker_connections 1024; }}
http {{
	access_log off; sendfile on; tcp_nopush on; keepalive_requests 100000;
	default_type application/octet-stream;
	client_body_temp_path {dir}/t1; proxy_temp_path {dir}/t2; fastcgi_temp_path {dir}/t3;
	uwsgi_temp_path {dir}/t4; scgi_temp_path {dir}/t5;
	server {{
		listen 127.0.0.1:{port} {ssl} backlog=1024;
		{certificate}
		root {tree}; index no-such-name; autoindex on; expires 1h;
	}}
}}
"""


class Nginx:
    """Serves the directory «tree», with listings, everything fresh for an hour. One process.
    tls: a Pair (see Certs), and then by kTLS where the kernel has it."""

    def __init__(self, tls=None):
        self.tls = tls
        self.directory = tempfile.mkdtemp(prefix="brim-nginx-", dir=os.environ.get("TMPDIR") or "/var/tmp")
        self.tree = os.path.join(self.directory, "tree")
        os.mkdir(self.tree)
        self.process = None

    def start(self):
        self.port = free_port()
        self.url = f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"
        certificate = (f"ssl_certificate {self.tls.certificate}; ssl_certificate_key {self.tls.key}; "
                       "ssl_protocols TLSv1.2 TLSv1.3; ssl_conf_command Options KTLS;"
                       if self.tls else "")
        path = os.path.join(self.directory, "nginx.conf")
        with open(path, "w") as f:
            f.write(CONF.format(dir=self.directory, tree=self.tree, port=self.port,
                                user="user root;" if os.getuid() == 0 else "",
                                ssl="ssl" if self.tls else "", certificate=certificate))
        self.process = subprocess.Popen(
            ["nginx", "-p", self.directory, "-c", path, "-e", os.path.join(self.directory, "error.log")],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        def up():
            assert self.process.poll() is None, "nginx ended:\n" + self.errors()
            try:
                with Connection(("127.0.0.1", self.port)) as c:
                    if self.tls is None:
                        c.request()
                    return self.tls or c.response().status == 200
            except OSError:
                return False
        wait_until(up, "nginx")
        return self

    def errors(self):
        try:
            with open(os.path.join(self.directory, "error.log")) as f:
                return f.read()
        except FileNotFoundError:
            return ""

    def stop(self):
        try:
            if self.process is not None and self.process.poll() is None:
                self.process.send_signal(signal.SIGTERM)
                self.process.wait(30)
        finally:
            if self.process is not None and self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            shutil.rmtree(self.directory, ignore_errors=True)
