"""A raw HTTP/1.1 client over TLS, and what the kernel says about its own."""
import socket
import ssl

from .client import Connection
from .wait import PATIENCE

VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}


def client_context(ca=None, version=None, ciphers=None, alpn=("http/1.1",), certificate=None):
    """ca: path of what is trusted (None: anything). version: "1.2" or "1.3" alone. ciphers: of 1.2, in OpenSSL's words.
    certificate: a Pair of the client's own."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if ca is None:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    else:
        context.load_verify_locations(ca)
    if version:
        context.minimum_version = context.maximum_version = VERSIONS[version]
    if ciphers:
        context.set_ciphers(ciphers)
    if alpn:
        context.set_alpn_protocols(list(alpn))
    if certificate:
        context.load_cert_chain(certificate.certificate, certificate.key)
    return context


class TlsConnection(Connection):
    """context: of client_context; else one is made of the other arguments. name: for SNI and the check; None: neither.
    session: of an earlier connection with the same context, to resume. receive_buffer: bytes, for a slow reader."""

    def __init__(self, address, ca=None, name="a.test", context=None, session=None, timeout=15, receive_buffer=None, **kw):
        host, _, port = address.rpartition(":")
        self.name, self.ended, self.closing, self.buffer = address, False, False, bytearray()
        plain = socket.socket()
        if receive_buffer:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        plain.settimeout(timeout * PATIENCE)
        plain.connect((host, int(port)))
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.context = context or client_context(ca, **kw)
        if name is None:
            self.context.check_hostname = False
        try:
            self.sock = self.context.wrap_socket(plain, server_hostname=name, session=session, suppress_ragged_eofs=False)
        except BaseException:
            plain.close()
            raise
        self.certificate = self.sock.getpeercert() if self.context.verify_mode else None

    def _fill(self):
        try:
            return super()._fill()
        except ssl.SSLEOFError as e:  # no close_notify: what came may be a part
            raise ConnectionError(f"the TLS stream was cut: {e}") from e

    def half_close(self):
        """close_notify, and then the peer's, if it answers."""
        self.sock.unwrap()


def kernel_counts():
    """/proc/net/tls_stat as a dict; None where the kernel has no TLS."""
    try:
        with open("/proc/net/tls_stat") as f:
            return {name: int(value) for name, value in (line.split() for line in f)}
    except FileNotFoundError:
        return None
