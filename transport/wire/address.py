"""``host:port`` addresses, IPv6 in brackets."""

from __future__ import annotations

import ipaddress
from typing import NamedTuple

from transport.errors import LocalProtocolError

DEFAULT_SEND_ADDRESS = "127.0.0.1:9182"
DEFAULT_RECEIVE_ADDRESS = "127.0.0.1:9183"
SEND_PORT = 9182
RECEIVE_PORT = 9183
"""Where an address without a port is, of which a person has said the host alone."""
MAX_PORT = 65535


class Address(NamedTuple):
    """Where a TCP end point is."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it; a name may stand for anything, but for those of RFC 6761, section 6.3."""
        if self.host.lower() == "localhost" or self.host.lower().endswith(".localhost"):
            return True
        try:
            return ipaddress.ip_address(self.host.partition("%")[0]).is_loopback
        except ValueError:
            return False


def parse_address(text: str) -> Address:
    """``127.0.0.1:9182``, ``broker.example:9182`` or ``[::1]:9182``.

    Raises:
        LocalProtocolError: anything else, saying what was expected.
    """
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise LocalProtocolError(
            f"the address {text!r:.300} has several colons; write an IPv6 host in brackets: [::1]:9182"
        )
    # Digits without end are no number to Python.
    if not colon or not host or not (port.isascii() and port.isdigit()) or len(port) > 9 or int(port) > MAX_PORT:
        raise LocalProtocolError(f"the address {text!r:.300} is not host:port with a port of 0-{MAX_PORT}")
    return Address(host, int(port))
