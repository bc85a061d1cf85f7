"""What comes before the first request: PROXY headers, and telling HTTP/2 from HTTP/1 on one port."""
import socket
import ssl
import struct
import subprocess

import pytest

from brimtest import FRESH, Connection
from brimtest.tls import client_context
from brimtest.wait import wait_until

SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
GET = b"GET /a HTTP/1.1\r\nHost: a.test\r\n\r\n"
V1 = b"PROXY TCP4 198.51.100.7 192.0.2.2 1234 80\r\n"
V2 = SIGNATURE + b"\x21\x11" + struct.pack("!H4s4sHH", 15, socket.inet_aton("198.51.100.7"), socket.inet_aton("192.0.2.2"),
                                           1234, 80) + b"\x04\0\0"  # and a note (TLV) that nobody reads
LOCAL = SIGNATURE + b"\x20\0\0\0"


def behind_a_proxy(make_node, origin, peers=("127.0.0.1",), **kw):
    node = make_node(origin, start=False, **kw)
    for listener in node.conf["listeners"]:
        listener["proxy_protocol"] = {"from": list(peers)}
    node.start()
    return node


@pytest.mark.parametrize("header, client", [(V1, "198.51.100.7"), (V2, "198.51.100.7"), (LOCAL, "127.0.0.1"),
                                            (b"PROXY UNKNOWN\r\n", "127.0.0.1")], ids=["v1", "v2", "local", "unknown"])
def test_the_client_is_who_the_header_says(origin, make_node, header, client):
    origin.page("/a", b"hello", FRESH)
    node = behind_a_proxy(make_node, origin)
    with node.connect() as c:
        c.send(header + GET)
        assert c.response().body == b"hello"
        c.send(GET)
        assert c.response().body == b"hello", "the header comes once"
    assert node.access_log(2)[-1]["client"] == client
    assert origin.last("/a").get("X-Forwarded-For") == client


def test_a_header_in_pieces(origin, make_node):
    origin.page("/a", b"hello", FRESH)
    node = behind_a_proxy(make_node, origin)
    for header in (V1, V2):
        with node.connect() as c:
            for byte in header + GET:
                c.send(bytes([byte]))
            assert c.response().body == b"hello"


def test_before_a_handshake(origin, make_node, certs):
    """One segment may hold the header and the ClientHello: OpenSSL gets its part of it."""
    origin.page("/a", b"hello", FRESH)
    node = behind_a_proxy(make_node, origin, tls=certs.issue(["a.test", "*.a.test"]))
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = client_context(certs.root).wrap_bio(incoming, outgoing, server_hostname="a.test")
    with socket.create_connection(("127.0.0.1", node.tls_port), 30) as s:
        pending = V2

        def drive(call):
            nonlocal pending
            while True:
                try:
                    result = call()
                    s.sendall(pending + outgoing.read())
                    pending = b""
                    return result
                except ssl.SSLWantReadError:
                    s.sendall(pending + outgoing.read())
                    pending = b""
                    data = s.recv(65536)
                    assert data
                    incoming.write(data)
        drive(tls.do_handshake)
        drive(lambda: tls.write(GET))
        assert b"200 OK" in drive(lambda: tls.read(65536))
    assert node.access_log(1)[-1]["client"] == "198.51.100.7"


@pytest.mark.parametrize("sent", [GET, b"PROXY TCP4 1.2.3.4\r\n" + GET, SIGNATURE + b"\x31\x11\0\0", b"\x16\x03\x01\0\0"],
                         ids=["none", "v1", "v2", "tls"])
def test_who_must_send_one_and_does_not_is_cut_off(origin, make_node, sent):
    node = behind_a_proxy(make_node, origin)
    with node.connect() as c:
        c.send(sent)
        assert c.closed()
    assert origin.requests == []
    wait_until(lambda: sum(w["bad_proxy_headers"] for w in node.stats()["workers"]) == 1, "the count")
    line = node.wait_log("proxy_header_bad")
    assert line["level"] == "warn" and line["peer"].startswith("127.0.0.1:")


def test_others_may_not_send_one(origin, make_node):
    origin.page("/a", b"hello", FRESH)
    node = behind_a_proxy(make_node, origin, peers=["192.0.2.0/24"])
    with node.connect() as c:
        c.send(GET)
        assert c.response().body == b"hello"
    with node.connect() as c:
        c.send(V1 + GET)
        assert c.response().status == 400


def test_one_that_does_not_come(origin, make_node):
    node = behind_a_proxy(make_node, origin, conf={"limits": {"header_timeout": "1s"}})
    with node.connect() as c:
        c.send(V1[:10])
        assert c.closed()


def test_connections_are_counted_by_client(origin, make_node):
    """Not by proxy: all would share one limit."""
    origin.page("/a", b"hello", FRESH)
    node = behind_a_proxy(make_node, origin, conf={"limits": {"connections_per_client": 2}})

    def status(address):
        c = node.connect()
        c.send(f"PROXY TCP4 {address} 192.0.2.2 1234 80\r\n".encode() + GET)
        held.append(c)
        return c.response().status
    held = []
    assert [status("198.51.100.7") for _ in range(3)] == [200, 200, 503]
    assert [status("198.51.100.8") for _ in range(2)] == [200, 200]
    for c in held:
        c.close()
    wait_until(lambda: status("198.51.100.7") == 200, "the connections to be forgotten")


V6 = SIGNATURE + b"\x21\x21" + struct.pack("!H16s16sHH", 36, socket.inet_pton(socket.AF_INET6, "::ffff:198.51.100.7"),
                                           socket.inet_pton(socket.AF_INET6, "2001:db8::1"), 1234, 80)


@pytest.mark.parametrize("header, client", [
    (b"PROXY TCP6 2001:db8::7 2001:db8::1 1 2\r\n", "2001:db8::7"), (b"PROXY TCP6 ::ffff:198.51.100.7 ::1 1 2\r\n", "198.51.100.7"),
    (V6, "198.51.100.7"), (SIGNATURE + b"\x21\0\0\0", "127.0.0.1"), (b"PROXY UNKNOWN what ever\r\n", "127.0.0.1"),
    (SIGNATURE + b"\x21\x31" + struct.pack("!H", 216) + bytes(216), "127.0.0.1"), (SIGNATURE + b"\x20\x11\0\x02ab", "127.0.0.1")],
    ids=["v1 IPv6", "v1 mapped", "v2 mapped", "unspecified", "unknown with words", "Unix", "local with bytes"])
def test_other_headers(origin, make_node, header, client):
    """Mapped addresses are IPv4's; of whom nothing is said, the peer is the client."""
    origin.page("/a", b"hello", FRESH)
    node = behind_a_proxy(make_node, origin)
    with node.connect() as c:
        c.send(header + GET)
        assert c.response().body == b"hello"
    assert node.access_log(1)[-1]["client"] == client


def test_headers_that_are_too_long(origin, make_node):
    """Version 1 has 107 bytes at most; version 2 what a header may have here, whatever length it says."""
    node = behind_a_proxy(make_node, origin)
    for header in (b"PROXY TCP4 1.2.3.4 1.2.3.4 1 " + b"0" * 80 + b"\r\n", SIGNATURE + b"\x21\x11\xff\xff" + bytes(65535)):
        with node.connect() as c:
            try:
                c.send(header + GET)
                assert c.until_closed() == b""
            except ConnectionError:
                pass
    assert not origin.requests


@pytest.mark.parametrize("http", ["1.1", "2"])
def test_curl_says_who_it_is(origin, make_node, certs, http):
    """Before TLS, by a program that others wrote."""
    origin.page("/a", b"hello", FRESH)
    node = behind_a_proxy(make_node, origin, tls=certs.issue(["a.test"]))
    done = subprocess.run(["curl", "-q", "-sS", "--haproxy-protocol", f"--http{http}", "--cacert", certs.root, "--connect-to",
                           f"a.test:443:{node.tls_address}", "-w", "%{http_version}", "https://a.test/a"], capture_output=True, timeout=60)
    assert done.stdout == b"hello" + http.encode(), done.stderr
    assert node.access_log(1)[-1]["client"] == "127.0.0.1"


def test_purge_asks_for_both_addresses(origin, make_node):
    """The proxy's and the client's."""
    origin.page("/a", b"hello", FRESH)
    node = behind_a_proxy(make_node, origin, site={"purge_from": ["127.0.0.1"]})
    for header, status in ((V1, 403), (LOCAL, 200)):
        with node.connect() as c:
            c.send(header + b"PURGE /a HTTP/1.1\r\nHost: a.test\r\n\r\n")
            assert c.response().status == status


def test_http_1_beside_http_2(origin, make_node):
    """On one plain port; a request may begin as the preface does."""
    origin.page("/a", b"hello", FRESH)
    node = make_node(origin, start=False)
    node.conf["listeners"][0]["protocols"] = ["h2", "http/1.1"]
    node.start()
    for pieces in ([GET], [GET[:1], GET[1:]], [GET + GET]):
        with node.connect() as c:
            for piece in pieces:
                c.send(piece)
            assert c.response().body == b"hello"
    with node.connect() as c:
        c.send(b"PR")
        c.send(b"OPFIND /a HTTP/1.1\r\nHost: a.test\r\n\r\n")
        assert c.response().status == 200
    with node.connect() as c:
        c.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0")
        assert c.receive(9)[3] == 4, "SETTINGS"


def test_connections_that_say_nothing_end(origin, make_node):
    """At the drain, and when the node is told to stop."""
    node = behind_a_proxy(make_node, origin)
    silent = [Connection(node.address) for _ in range(3)]
    node.stop()
    for c in silent:
        assert c.closed()
        c.close()
