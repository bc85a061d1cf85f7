"""The status page, in a headless Chromium."""
import base64
import hashlib
import json
import os
import re
import threading

import pytest

from brimtest import fetch, wait_until
from brimtest.chromium import Chromium
from brimtest.node import free_port

TOKEN = "0123456789abcdef0123456789abcdef"
FRESH = {"Cache-Control": "max-age=3600"}


@pytest.fixture
def guarded(origin, make_node, tmp_path):
    """A node whose admin API is on TCP, too: (node, address)."""
    file = tmp_path / "token"
    file.write_text(TOKEN)
    file.chmod(0o600)
    address = f"127.0.0.1:{free_port()}"
    node = make_node(origin, start=False)
    node.conf["admin"] |= {"listen": [node.admin_address, address],
                           "tokens": [{"name": "t", "file": str(file), "role": "purge"}]}
    return node.start(), address


@pytest.fixture
def browser():
    browser = Chromium()
    yield browser
    browser.close()


class Traffic:
    """Some of everything, until it is stopped."""

    def __init__(self, node, origin):
        origin.page("/page", b"x" * 40000, FRESH)
        origin.page("/private", b"x" * 9000, {"Cache-Control": "no-store"})

        @origin.route("/broken")
        def _(x):
            x.reset()
        self.node, self.over = node, threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        n = 0
        while not self.over.is_set():
            n += 1
            self.node.get("/private" if n % 7 == 0 else "/broken" if n % 31 == 0 else "/page")
            self.over.wait(0.01)

    def stop(self):
        self.over.set()
        self.thread.join()


def test_its_policy_allows_itself_alone(guarded):
    node, address = guarded
    r = fetch(address, "/", host="localhost")  # no token
    page = r.body.decode()
    policy = dict(p.strip().split(" ", 1) for p in r.get("Content-Security-Policy").split(";"))
    assert policy["default-src"] == "'none'" and policy["connect-src"] == "'self'"
    for tag, directive in (("script", "script-src"), ("style", "style-src")):
        (text,) = re.findall(f"<{tag}>(.*?)</{tag}>", page, re.S)
        assert policy[directive] == f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
    assert "unsafe" not in r.get("Content-Security-Policy")
    assert TOKEN not in page and not re.search(r'[\s\"](src|href|style|on\w+)=|@import|innerHTML', page)


def test_the_page(guarded, origin, browser):
    node, address = guarded
    traffic = Traffic(node, origin)
    try:
        browser.do("Page.navigate", url=f"http://{address}/")
        browser.wait("!!document.querySelector('#sign') && !document.querySelector('#sign').hidden")
        assert browser.run("document.querySelector('#node').hidden")

        def sign_in(token):
            browser.run(f"document.querySelector('#token').value = {json.dumps(token)};"
                        "document.querySelector('#sign-form button').click()")
        sign_in("wrong")
        browser.wait("document.querySelector('#sign-said').textContent.includes('token')")
        sign_in(TOKEN)
        browser.wait("!document.querySelector('#node').hidden")
        assert browser.run("document.querySelector('#state').textContent") == "serving"
        # Live figures: hits a second are more than none, and the plot has an area.
        browser.wait("+(document.querySelector('#plots figcaption b') || {}).textContent > 0.5")
        browser.wait("document.querySelectorAll('#plots svg path.area[d^=M]').length > 2")
        browser.wait("[...document.querySelectorAll('#sites td')].some(c => c.textContent === 'a')")
        assert browser.run("document.querySelectorAll('#processes tbody tr').length") == 4

        def submit(form, said):
            browser.run(f"document.querySelector('{said}').textContent = '';"
                        f"document.querySelector('#{form} button').click()")
            return browser.wait(f"(t => t !== '…' && t)(document.querySelector('{said}').textContent)")

        def inspect(url):
            browser.run(f"document.querySelector('#url').value = {json.dumps(url)}")
            return submit("inspect", "#inspect-said")

        def purge(kind, names, **boxes):
            browser.run(f"document.querySelector('#kind').value = '{kind}';"
                        "document.querySelector('#kind').dispatchEvent(new Event('change'));"
                        f"document.querySelector('#names').value = {json.dumps(names)};"
                        + "".join(f"document.querySelector('#{b}').checked = {json.dumps(v)};" for b, v in boxes.items()))
            return submit("purge", "#purge-said")
        assert inspect("http://a.test/page").startswith("Next: hit")
        assert json.loads(browser.run("document.querySelector('#inspect-all').textContent"))["site"] == "a"
        assert inspect("http://nobody.test/").startswith("?url: ")
        assert inspect("http://a.test/<img src=x onerror=alert(1)>") and browser.run("!document.querySelector('img')")
        assert purge("urls", "http://a.test/page", dry=True, soft=False).startswith("1 objects")
        wrong = purge("urls", "http://a.test/page\nhttp://nobody.test/", dry=False)
        assert wrong.startswith("/urls/1: "), wrong
        assert browser.run("document.querySelector('#names').getAttribute('aria-invalid')") == "true"
        if os.environ.get("BRIM_SCREENSHOT"):  # for people
            browser.wait("plots.requests.rows.length > 15")
            browser.screenshot(os.environ["BRIM_SCREENSHOT"])
            browser.do("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
            browser.screenshot(os.environ["BRIM_SCREENSHOT"].replace(".png", "-dark.png"))
        traffic.stop()
        assert purge("urls", "http://a.test/page", dry=False).startswith("Done: purge ")
        assert node.object("/page")["next"] == "miss"
        # What Chromium says about us: only the refusals that we asked for.
        entries = [s.get("entry", {"text": str(s)}) for s in browser.said]
        said = [e["text"] for e in entries if e.get("level") != "verbose"]
        assert [t for t in said if "status of 40" not in t] == []
        assert all(browser.run("[...document.querySelectorAll('input,textarea,select')].map(f => f.labels.length > 0)"))
        browser.run("document.querySelector('#forget').click()")
        browser.wait("!document.querySelector('#sign').hidden && !sessionStorage.getItem('brim-token')")
    finally:
        traffic.stop()
    wait_until(lambda: node.status()["claims"] == 0, "nothing is under way")
