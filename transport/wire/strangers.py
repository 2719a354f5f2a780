"""Who connects to the wrong address: how other protocols begin, so that the error can say what to do."""

from __future__ import annotations

_STRANGERS: dict[tuple[bytes, ...], str] = {
    (b"GET ", b"POST", b"PUT ", b"HEAD", b"OPTI", b"DELE", b"PATC", b"CONN", b"TRAC", b"PRI "): (
        "an HTTP request: this address speaks the Penstock protocol, so use one of its clients (docs/protocol.md)"
    ),
    (b"HTTP",): "an HTTP server's answer: the address is not a broker's",
    (
        b"\x16\x03",
    ): "the hello of TLS: brokers do not speak TLS, so connect without it, or put a proxy between that does",
    (b"\x15\x03",): "an alert of TLS: the address is not a broker's, or a proxy that wants TLS stands before it",
    (b"SSH-",): "the hello of SSH: the address and the program do not belong together",
}
"""As a frame's length each is far over any limit."""


def stranger(beginning: bytes) -> str | None:
    """What begins like this, and what to do about it; None where it is nothing that is known."""
    return next((what for beginnings, what in _STRANGERS.items() if beginning.startswith(beginnings)), None)
