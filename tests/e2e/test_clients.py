"""Clients that others wrote: what they make of the node over TLS. (curl with every suite: test_tls_matrix.py.)"""
import json
import os
import re
import struct
import subprocess
import tempfile
import threading
import xml.etree.ElementTree

import pytest

from brimtest import FRESH, pattern, wait_until
from brimtest.curl import Transfer, curl
from brimtest.look import until_hit
from brimtest.wait import PATIENCE

PAGE = pattern(100_000, seed=3)


@pytest.fixture
def node(origin, make_node, certs):
    """Serves /a, which is stored; its certificate is also for clients that name nobody."""
    node = make_node(origin, tls=certs.issue("a.test"), site={"tls": {"default": True}})
    origin.page("/a", PAGE, FRESH)
    until_hit(node, "/a", PAGE)
    return node


def run(*command, timeout=40, **kw):
    done = subprocess.run([str(word) for word in command], capture_output=True, timeout=timeout * PATIENCE, **kw)
    return done.stdout.decode(errors="replace") + done.stderr.decode(errors="replace")


# --- curl


@pytest.mark.parametrize("http", ["1.1", "2"])
def test_curl_side_by_side(origin, node, certs, tmp_path, http):
    """Thirty transfers at once, of hits and misses; over HTTP/2 on one connection."""
    for i in range(15):
        origin.page(f"/{i}", PAGE[i:], FRESH)
    targets = [f"/{i}" for i in range(15)] + ["/a"] * 15
    config = [f'cacert = "{certs.root}"', f'connect-to = "a.test:443:{node.tls_address}"', "parallel", "parallel-max = 30",
              "http2" if http == "2" else "http1.1", *(["parallel-immediate"] if http == "1.1" else []),
              'write-out = "%{http_code} %{http_version} %{num_connects}\\n"']
    for i, target in enumerate(targets):
        config += [f'url = "https://a.test{target}"', f'output = "{tmp_path}/{i}"']
    done = subprocess.run(["curl", "-q", "-sS", "-K", "-"], input="\n".join(config), capture_output=True, text=True, timeout=40 * PATIENCE)
    lines = [line.split() for line in done.stdout.splitlines()]
    assert len(lines) == len(targets) and {(code, version) for code, version, _ in lines} == {("200", http)}, lines
    for i in range(len(targets)):
        assert (tmp_path / str(i)).read_bytes() == (PAGE[i:] if i < 15 else PAGE), targets[i]
    if http == "2":
        assert sum(int(n) for _, _, n in lines) == 1


def test_curl_uploads(origin, node, certs):
    """A body that waits for 100 (Continue), and one that is met with an early answer."""
    body = pattern(3 << 20, seed=5)

    @origin.route("/keep")
    def _(x):
        x.reply(b"%d" % len(x.request.body), {"Cache-Control": "no-store"})
        assert x.request.body == body
    for http in ("1.1", "2"):
        r, = curl(node.tls_address, certs.root, [Transfer("/keep", "PUT", http, body=body)])
        assert (r.status, r.body, r.http_version) == (200, b"%d" % len(body), http)


def test_curl_uploads_too_much(origin, make_node, certs):
    """The answer comes while it sends, and it sees that one (by HTTP/2, a reset behind it would make it a failure)."""
    node = make_node(origin, tls=certs.issue("a.test"), site={"max_request_body": "1KiB"})
    for size in (10_000, 200_000, 3_000_000):
        for r in curl(node.tls_address, certs.root, [Transfer("/up", "POST", "2", body=bytes(size))] * 3):
            assert (r.status, r.http_version) == (413, "2"), (size, r.error)


# --- nghttp, h2load


def test_nghttp(origin, node):
    for i in range(20):
        origin.page(f"/n{i}", PAGE[i:], FRESH)
    text = run("nghttp", "-nsy", "-H", ":authority: a.test", *(f"https://{node.tls_address}/n{i}" for i in range(20)),
               f"https://{node.tls_address}/none")
    rows = re.findall(r"^ *\d+ +\S+ +\S+ +\S+ +(\d+) +\S+ +/(\S+)$", text, re.M)
    assert sorted(rows) == sorted([("200", f"n{i}") for i in range(20)] + [("404", "none")]), text


def test_nghttp_many_of_one(node):
    text = run("nghttp", "-nsy", "-m", "100", "-H", ":authority: a.test", f"https://{node.tls_address}/a")
    assert len(re.findall(r" 200 +\S+ /a$", text, re.M)) == 100, text


@pytest.mark.parametrize("http", [(), ("--h1",)], ids=["2", "1.1"])
def test_h2load(node, http):
    text = run("h2load", "-n", "2000", "-c", "8", *(http or ("-m", "16")), f"--connect-to={node.tls_address}", "https://a.test/a")
    assert re.search(r"requests: 2000 total, 2000 started, 2000 done, 2000 succeeded, 0 failed, 0 errored, 0 timeout", text), text
    assert re.search(rf"traffic: .*\(({2000 * len(PAGE)})\) data", text), text
    assert f"Application protocol: {'http/1.1' if http else 'h2'}" in text


def test_certificates_change_under_load(origin, make_node, certs):
    """Five reloads, each with another certificate, beside new connections and old ones: none is refused or broken off, and
    who comes after a reload's end sees the new one."""
    pairs = [certs.issue("a.test", kind="rsa" if i % 2 else "ec") for i in range(6)]
    node = make_node(origin, tls=pairs[0])
    origin.page("/a", PAGE, FRESH)
    until_hit(node, "/a", PAGE)
    over, served, faults = threading.Event(), [], []

    def come_and_go():
        try:
            while not over.is_set():
                with node.connect_tls(certs.root) as c:
                    for _ in range(3):
                        c.request(target="/a")
                        assert c.response().body == PAGE
                served.append(serial(c))
        except Exception as e:
            faults.append(e)
    threads = [threading.Thread(target=come_and_go) for _ in range(3)]
    load = subprocess.Popen(["h2load", "-n", "3000", "-c", "4", "-m", "8", f"--connect-to={node.tls_address}", "https://a.test/a"],
                            stdout=subprocess.PIPE, text=True)
    for t in threads:
        t.start()
    try:
        for pair in pairs[1:]:
            mark = len(served)
            wait_until(lambda: len(served) > mark or faults, "a connection between two reloads", timeout=30)
            node.reload(site={"tls": pair.conf}, timeout=30)
            with node.connect_tls(certs.root) as c:
                assert serial(c) == pair.serial().lstrip("0")
    finally:
        over.set()
        for t in threads:
            t.join()
        text, _ = load.communicate(timeout=60)
    assert not faults, faults
    assert len(set(served)) >= 5
    assert re.search(r"3000 succeeded, 0 failed, 0 errored, 0 timeout", text), text


def serial(connection):
    return connection.certificate["serialNumber"].lstrip("0")


# --- openssl


def s_client(node, certs, *options):
    return ["openssl", "s_client", "-connect", node.tls_address, "-servername", "a.test", "-CAfile", certs.root,
            "-verify_return_error", *options]


@pytest.mark.parametrize("version", ["tls1_2", "tls1_3"])
def test_s_client(node, certs, version):
    text = run(*s_client(node, certs, f"-{version}", "-alpn", "h2,http/1.1"), input=b"Q\n")
    assert "Verification: OK" in text and re.search(r"ALPN protocol: h2$", text, re.M), text
    text = run(*s_client(node, certs, f"-{version}", "-alpn", "http/1.1", "-quiet"),
               input=b"GET /a HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n")
    assert "HTTP/1.1 200" in text and "; hit" in text, text[:500]


def test_s_client_takes_up_a_session(node, certs, tmp_path):
    for version in ("tls1_2", "tls1_3"):
        session = f"{tmp_path}/{version}"
        ask = b"GET /a HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n"
        first = run(*s_client(node, certs, f"-{version}", "-ign_eof", "-sess_out", session), input=ask)
        again = run(*s_client(node, certs, f"-{version}", "-ign_eof", "-sess_in", session), input=ask)
        assert "New, " in first and "Reused, " in again, again[-2000:]


@pytest.mark.ktls
def test_s_client_changes_keys(node, certs):
    """k: its own; K: the node's, too, which kTLS can't follow: it may close, but sends nothing that can't be read."""
    for command in ("k", "K"):
        seen = changes_keys(s_client(node, certs, "-tls1_3"), command)
        assert b"bad record mac" not in seen and b"decryption failed" not in seen, bytes(seen[-3000:])
        if command == "k":
            assert b"HTTP/1.1 200" in seen and PAGE[-1000:] in seen


def changes_keys(client, command):
    """All that the client says."""
    client = subprocess.Popen(client, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    seen = bytearray()

    def until(what):
        while what not in seen:
            data = os.read(client.stdout.fileno(), 1 << 16)
            assert data, bytes(seen)
            seen.extend(data)

    def say(line):
        client.stdin.write(line)
        client.stdin.flush()
    try:
        until(b"\n---\n")
        say(command.encode() + b"\n")
        until(b"KEYUPDATE")
        say(b"GET /a HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n")
        while data := os.read(client.stdout.fileno(), 1 << 16):  # until the node closes
            seen.extend(data)
    finally:
        client.kill()
        client.wait()
    return seen


# --- sslscan


def test_sslscan_finds_nothing(node):
    text = subprocess.run(["sslscan", "--xml=-", "--sni-name=a.test", node.tls_address], capture_output=True, text=True,
                          timeout=60 * PATIENCE).stdout
    scan = xml.etree.ElementTree.fromstring(text).find("ssltest")
    enabled = {(p.get("type"), p.get("version")) for p in scan.findall("protocol") if p.get("enabled") == "1"}
    assert enabled == {("tls", "1.2"), ("tls", "1.3")}, text
    assert {h.get("vulnerable") for h in scan.findall("heartbleed")} == {"0"}, text
    assert all(r.get("supported") == "0" or r.get("secure") == "1" for r in scan.findall("renegotiation")), text
    assert not [c for c in scan.findall("compression") if c.get("supported") == "1"], text
    assert not [f for f in scan.findall("fallback") if f.get("supported") == "0"], text
    ciphers = [(c.get("sslversion"), c.get("cipher"), c.get("strength")) for c in scan.findall("cipher")]
    assert {c[0] for c in ciphers} == {"TLSv1.2", "TLSv1.3"} and {c[2] for c in ciphers} <= {"strong", "acceptable"}, ciphers
    for version, name, _ in ciphers:  # forward secrecy and authenticated encryption, nothing else
        assert version == "TLSv1.3" or re.fullmatch(r"ECDHE-\w+-(AES\d+-GCM-SHA\d+|CHACHA20-POLY1305|AES\d+-CCM)", name), name
    assert not [g for g in scan.findall("group") if int(g.get("bits")) < 112], text


# --- a browser

GALLERY = b"""<!doctype html><title>gallery</title><link rel="icon" href="data:,"><body><video id="v" preload="metadata" muted></video><script>
const report = (what) => fetch("/report", { method: "POST", body: JSON.stringify(what) });
const loaded = (i) => new Promise((resolve) => {
	const image = new Image();
	image.onload = () => resolve(image.naturalWidth === 1 + i % 50);
	image.onerror = () => resolve(false);
	image.src = "/image/" + i + ".bmp";
	document.body.append(image);
});
const event = (on, name) => new Promise((resolve) => on.addEventListener(name, resolve, { once: true }));
(async () => {
	const images = await Promise.all(Array.from({ length: 200 }, (_, i) => loaded(i)));
	const video = document.getElementById("v"), positions = [];
	const ready = event(video, "loadedmetadata");
	video.src = "/film.wav";
	await ready;
	for (const at of [0.9, 0.2, 0.6]) {
		const seeked = event(video, "seeked");
		video.currentTime = at * video.duration;
		await seeked;
		positions.push(video.currentTime / video.duration);
	}
	// Empty: a request that the player gave up when it was to seek.
	const protocols = [...new Set(performance.getEntriesByType("resource").map((e) => e.nextHopProtocol).filter(Boolean))];
	report({ images: images.filter(Boolean).length, positions, protocols, error: video.error && video.error.message });
})().catch((e) => report({ error: String(e) }));
</script>"""


def bitmap(width):
    """A BMP of one row."""
    row = bytes((x * 3 % 256) for x in range(width * 3)) + bytes(-width * 3 % 4)
    return struct.pack("<2sIIIIiiHHIIiiII", b"BM", 54 + len(row), 0, 54, 40, width, 1, 1, 24, 0, len(row), 2835, 2835, 0, 0) + row


def wave(seconds, rate=48_000):
    """Noise: what a <video> element plays without any codec."""
    samples = pattern(seconds * rate * 4)
    return struct.pack("<4sI4s4sIHHIIHH4sI", b"RIFF", 36 + len(samples), b"WAVE", b"fmt ", 16, 1, 2, rate, rate * 4, 4, 16, b"data",
                       len(samples)) + samples


@pytest.mark.limit(240)
def test_chromium(origin, node):
    """A page with two hundred images, and a film in which it seeks; twice, so that the second comes from the cache."""
    film = wave(120)
    origin.page("/", GALLERY, FRESH | {"Content-Type": "text/html"})
    for i in range(200):
        origin.page(f"/image/{i}.bmp", bitmap(1 + i % 50), FRESH | {"Content-Type": "image/bmp"})

    @origin.route("/film.wav")
    def _(x):
        x.reply(film, FRESH | {"Content-Type": "audio/wav", "ETag": '"f"', "Accept-Ranges": "bytes"})

    @origin.route("/report")
    def _(x):
        x.reply(b"", {"Cache-Control": "no-store"})
    until_hit(node, "/film.wav", film)
    for turn in range(1, 3):
        with tempfile.TemporaryDirectory(prefix="brim-chromium-", ignore_cleanup_errors=True) as profile:
            browser = subprocess.Popen(
                ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                 "--disable-background-networking", "--ignore-certificate-errors", f"--user-data-dir={profile}",
                 f"--host-resolver-rules=MAP a.test {node.tls_address}", "https://a.test/"],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
                env=os.environ | {"HOME": profile})
            try:
                report = json.loads(origin.wait_for(turn, "/report", timeout=90).body)
            finally:
                os.killpg(browser.pid, 9)
                browser.wait()
        assert report["images"] == 200 and report["protocols"] == ["h2"] and not report["error"], report
        assert [round(at, 2) for at in report["positions"]] == [0.9, 0.2, 0.6], report
    assert origin.count("/film.wav") == 1 and origin.count("/image/7.bmp") == 1
    lines = wait_until(lambda: [e for e in node.access_log() if e["path"] == "/film.wav" and e["status"] == 206], "parts of the film")
    assert all(e["protocol"].startswith("HTTP/2") for e in lines), lines[:3]
