"""End-to-end tests: the real node between a scripted origin and scripted clients.

    Origin   answers as a test says, byte for byte if need be, and remembers what it was asked
    Client   raw HTTP/1.1 over a socket: what was sent and received is exactly what the test says
    TlsConnection  the same over TLS, with what the handshake agreed upon
    Node     one running brim in a directory of its own, and everything one may ask of it
    Clock    wall time for node and origin, moved by the test
    Certs    a certificate authority, by the openssl program
    Gate     an event that a handler waits for and a test opens
    Feed     a body given piece by piece, under each framing (feed: a page of it)
    look     who serves a connection, what processes hold, what is left over at the end

Tests wait for events (a request seen, bytes received, a log line), each with a deadline, never for
a guessed time. Fixtures are in conftest.py; test_smoke.py shows how a test reads.
"""
from .certs import Certs
from .client import Connection, Response, SlowConnection, fetch
from .clock import Clock
from .feed import FRAMINGS, FRESH, Feed, feed
from .node import Node
from .origin import Gate, Origin
from .tls import TlsConnection
from .wait import wait_until

__all__ = ["FRAMINGS", "FRESH", "Certs", "Clock", "Connection", "Feed", "Gate", "Node", "Origin", "Response", "SlowConnection",
           "TlsConnection", "feed", "fetch", "pattern", "wait_until"]

_BLOCK = None


def pattern(n, seed=0):
    """n bytes that differ everywhere and between seeds: a shifted, repeated or foreign piece shows."""
    global _BLOCK
    if _BLOCK is None:
        import random
        _BLOCK = random.Random(1).randbytes(1 << 16)
    out = bytearray()
    i = 0
    while len(out) < n:
        out += b"%016x%016x" % (seed, i) + _BLOCK
        i += 1
    return bytes(out[:n])
