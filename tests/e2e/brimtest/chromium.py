"""Headless Chromium, driven by its DevTools protocol over a websocket (RFC 6455; text frames are all it needs)."""
import base64
import json
import os
import signal
import socket
import struct
import subprocess
import tempfile
import urllib.request

from .wait import PATIENCE, wait_until


class WebSocket:
    def __init__(self, url):
        host, _, path = url.removeprefix("ws://").partition("/")
        name, port = host.split(":")
        self.socket = socket.create_connection((name, int(port)), 60 * PATIENCE)
        self.socket.sendall(f"GET /{path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                            f"Sec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}\r\n"
                            "Sec-WebSocket-Version: 13\r\n\r\n".encode())
        self.file = self.socket.makefile("rb")
        assert b" 101 " in self.file.readline()
        while self.file.readline() != b"\r\n":
            pass

    def send(self, text):
        data, mask = text.encode(), os.urandom(4)
        head = b"\x81" + (bytes([128 | len(data)]) if len(data) < 126 else
                          struct.pack("!BH", 254, len(data)) if len(data) < 65536 else struct.pack("!BQ", 255, len(data)))
        self.socket.sendall(head + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(data)))

    def receive(self):
        text = b""
        while True:
            first, n = self.file.read(2)
            n = n if n < 126 else struct.unpack("!H", self.file.read(2))[0] if n == 126 else \
                struct.unpack("!Q", self.file.read(8))[0]
            text += self.file.read(n)
            if first & 128:
                return text.decode()

    def close(self):
        self.file.close()
        self.socket.close()


class Chromium:
    """A browser with one page. «said» collects what pages write to the console, and their errors."""

    def __init__(self, width=1280, height=1500):
        self.profile = tempfile.TemporaryDirectory(prefix="brim-chromium-", ignore_cleanup_errors=True)
        self.said, self.number = [], 0
        self.process = subprocess.Popen(
            ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--disable-background-networking", "--disable-extensions", "--remote-debugging-port=0",
             f"--window-size={width},{height}", f"--user-data-dir={self.profile.name}", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
            env=os.environ | {"HOME": self.profile.name})
        try:
            self.page = WebSocket(wait_until(self._page, "the browser to start", timeout=60))
            for domain in ("Page", "Runtime", "Log"):
                self.do(domain + ".enable")
        except BaseException:
            self.close()
            raise

    def _page(self):
        assert self.process.poll() is None, f"the browser ended: {self.process.returncode}"
        try:
            with open(os.path.join(self.profile.name, "DevToolsActivePort")) as f:
                port = int(f.readline())
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list", timeout=20) as r:
                return next((t["webSocketDebuggerUrl"] for t in json.load(r) if t["type"] == "page"), None)
        except (OSError, ValueError):
            return None

    def do(self, method, **params):
        self.number += 1
        self.page.send(json.dumps({"id": self.number, "method": method, "params": params}))
        while True:
            m = json.loads(self.page.receive())
            if m.get("id") == self.number:
                assert "error" not in m, (method, m["error"])
                return m["result"]
            if m.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled"):
                self.said.append(m["params"])

    def run(self, script):
        """The value of an expression in the page."""
        r = self.do("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in r, r["exceptionDetails"]
        return r["result"].get("value")

    def wait(self, script, timeout=30):
        return wait_until(lambda: self.run(script), script, timeout)

    def screenshot(self, path):
        data = self.do("Page.captureScreenshot", captureBeyondViewport=True)["data"]
        with open(path, "wb") as f:
            f.write(base64.b64decode(data))

    def close(self):
        if hasattr(self, "page"):
            self.page.close()
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.profile.cleanup()
