"""A client by libssl itself, for what Python's ssl module can't do: new keys, ends without a notice, suites of TLS 1.3."""
import ctypes
import socket
import struct

from .client import Connection
from .wait import PATIENCE

SSL = ctypes.CDLL("libssl.so.3")
CRYPTO = ctypes.CDLL("libcrypto.so.3")
for name in ("SSL_CTX_new", "TLS_client_method", "SSL_new", "SSL_get_current_cipher", "SSL_CIPHER_get_name", "SSL_get_version"):
    getattr(SSL, name).restype = ctypes.c_void_p
for name in ("SSL_CIPHER_get_name", "SSL_get_version"):
    getattr(SSL, name).restype = ctypes.c_char_p

VERSIONS = {"1.2": 0x0303, "1.3": 0x0304}
SET_NAME, SET_LEAST, SET_MOST = 55, 123, 124  # SSL_CTRL_…: SNI, versions
WANT_READ, SYSCALL, ZERO_RETURN = 2, 5, 6  # SSL_ERROR_…
UNEXPECTED_END = 294  # SSL_R_UNEXPECTED_EOF_WHILE_READING


class TlsError(ConnectionError):
    """What OpenSSL says of a broken stream. A stream that ends without a notice is one, too."""


class Stream:
    """One TLS connection with the calls of a socket that Connection uses."""

    def __init__(self, sock, timeout, name, version, suite):
        self.sock = sock
        sock.settimeout(None)
        wait = struct.pack("ll", int(timeout), 0)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, wait)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, wait)
        self.context = ctypes.c_void_p(SSL.SSL_CTX_new(ctypes.c_void_p(SSL.TLS_client_method())))
        if version:
            for which in (SET_LEAST, SET_MOST):
                SSL.SSL_CTX_ctrl(self.context, which, ctypes.c_long(VERSIONS[version]), None)
        if suite:
            choose = SSL.SSL_CTX_set_ciphersuites if suite.startswith("TLS_") else SSL.SSL_CTX_set_cipher_list
            assert choose(self.context, suite.encode()) == 1, suite
        self.ssl = ctypes.c_void_p(SSL.SSL_new(self.context))
        SSL.SSL_set_fd(self.ssl, sock.fileno())
        SSL.SSL_ctrl(self.ssl, SET_NAME, ctypes.c_long(0), name.encode())
        self._done(SSL.SSL_connect(self.ssl))

    def _done(self, result):
        """result, where it says success; else raises what happened. 0 only for the peer's notice of its end."""
        if result > 0:
            return result
        error, reason = SSL.SSL_get_error(self.ssl, result), CRYPTO.ERR_get_error()
        CRYPTO.ERR_clear_error()
        if error == ZERO_RETURN:
            return 0
        if error == WANT_READ:
            raise socket.timeout("timed out")
        if error == SYSCALL or reason & 0x7FFFFF == UNEXPECTED_END:
            raise TlsError("the TLS stream was cut")
        text = ctypes.create_string_buffer(200)
        CRYPTO.ERR_error_string_n(reason, text, 200)
        raise TlsError(text.value.decode())

    def recv(self, n):
        buffer = ctypes.create_string_buffer(min(n, 1 << 16))
        got = self._done(SSL.SSL_read(self.ssl, buffer, len(buffer)))
        return buffer.raw[:got]

    def sendall(self, data):
        if data:
            assert self._done(SSL.SSL_write(self.ssl, bytes(data), len(data))) == len(data)

    def update_keys(self, both):
        """New keys for what we send, at once; both: and the peer shall do the same (update_requested)."""
        assert SSL.SSL_key_update(self.ssl, int(both)) == 1
        self._done(SSL.SSL_do_handshake(self.ssl))

    def notify(self):
        """close_notify. The peer may still send."""
        SSL.SSL_shutdown(self.ssl)

    def settimeout(self, timeout):
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", int(timeout), 0))

    def __getattr__(self, name):
        return getattr(self.sock, name)

    def close(self):
        """The socket alone: no notice."""
        if self.ssl:
            SSL.SSL_free(self.ssl)
            SSL.SSL_CTX_free(self.context)
            self.ssl = None
        self.sock.close()


class OpenSslConnection(Connection):
    """suite: in OpenSSL's words, of either version. receive_buffer: bytes, for a slow reader. The certificate isn't looked at."""

    def __init__(self, address, name="a.test", version=None, suite=None, timeout=30, receive_buffer=None):
        host, _, port = address.rpartition(":")
        self.name, self.ended, self.closing, self.buffer = address, False, False, bytearray()
        sock = socket.socket()
        try:
            if receive_buffer:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
            sock.connect((host, int(port)))
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.sock = Stream(sock, timeout * PATIENCE, name, version, suite)
        except BaseException:
            sock.close()
            raise

    @property
    def suite(self):
        return SSL.SSL_CIPHER_get_name(ctypes.c_void_p(SSL.SSL_get_current_cipher(self.sock.ssl))).decode()

    @property
    def version(self):
        return SSL.SSL_get_version(self.sock.ssl).decode()

    def update_keys(self, both):
        self.sock.update_keys(both)

    def half_close(self):
        self.sock.notify()

    def fin(self):
        """FIN without a notice."""
        self.sock.sock.shutdown(socket.SHUT_WR)
