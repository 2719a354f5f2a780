"""What a connection that did not open failed with, where TLS or a proof has to do with it: said so that one knows what to do.

Most trouble with certificates stays the same at another try, so those errors are final. A server that refuses a client within TLS often
just closes: asyncio's and uvloop's say nothing of why. Then all that can be said is what may be the reason.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from transport.errors import (
    AuthenticationError,
    BrokerError,
    ConnectionLostError,
    PeerTimeoutError,
    RemoteProtocolError,
)
from transport.wire.protocol import NOBODY_PROVES
from transport.wire.shown import MAX_LINE_BYTES, shown

if TYPE_CHECKING:
    import ssl

    from transport.clients.authentication import Credentials
    from transport.wire.address import Address

TLS_HANDSHAKE_TIMEOUT: Final = 10.0
"""Seconds for the handshake of one connection: a broker allows less, so that this never ends one that would come about."""
TLS_SHUTDOWN_TIMEOUT: Final = 5.0
"""Seconds for the peer to answer the end of TLS; all that was said has left by then."""

logger = logging.getLogger("penstock.transport")

_WRONG_NAME: Final = frozenset({62, 64})
_NOT_TRUSTED: Final = frozenset({2, 18, 19, 20, 21})
"""OpenSSL's codes of what is wrong with a certificate (x509_vfy.h)."""
_NO_TLS: Final = ("WRONG_VERSION_NUMBER", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE", "UNEXPECTED_MESSAGE")
_NO_VERSION: Final = ("PROTOCOL_VERSION", "UNSUPPORTED_PROTOCOL", "NO_PROTOCOLS_AVAILABLE", "VERSION_TOO_LOW")
_OUR_CERTIFICATE: Final = ("CERTIFICATE", "UNKNOWN_CA", "HANDSHAKE_FAILURE", "ACCESS_DENIED", "DECRYPT_ERROR")
"""OpenSSL's words for the alerts of a server that does not take a client's certificate, or has got none."""


class ClosedUnheardError(ConnectionLostError):
    """The broker's side ended a connection before it said anything. The text says what may be the reason."""


def explained(error: Exception, address: Address, credentials: Credentials, heard: int = 0) -> Exception:
    """``error`` of a connection to ``address`` that did not open, or another that says more.

    Args:
        error: as it came.
        address: the broker's.
        credentials: with TLS, or without.
        heard: bytes that the broker said.
    """
    if isinstance(error, BrokerError) and error.text == NOBODY_PROVES:
        return BrokerError(error.code, credentials.doubt)
    if credentials.context is None:
        broke_off = "if it speaks TLS there, this client must as well"
    else:
        import ssl  # noqa: PLC0415 - loaded with TLS alone

        if isinstance(error, ssl.SSLError):
            return _of_tls(error, address, heard)
        doubt = (
            "not take this client's certificate"
            if credentials.has_certificate
            else "want a certificate of this client's"
        )
        broke_off = f"it may speak no TLS there, or {doubt}"
    broken = isinstance(error, ConnectionError) and not isinstance(error, ConnectionRefusedError | PeerTimeoutError)
    if heard or not broken:
        return error
    # Whether the system calls its end a reset depends on what of ours was still on its way.
    reset = isinstance(error, ConnectionResetError | BrokenPipeError)
    ended = "the broker closed the connection" if reset else str(error) or type(error).__name__
    return ClosedUnheardError(f"{ended}, before it said anything; {broke_off}")


def warn_of_silence(error: Exception, address: Address) -> bool:
    """Log what may be the reason where ``error`` is, or comes of, a `ClosedUnheardError`; whether it does."""
    for each in (error, error.__cause__):
        if isinstance(each, ClosedUnheardError):
            logger.warning("the broker at %s: %s; this client tries on", address, shown(str(each), MAX_LINE_BYTES))
            return True
    return False


def _of_tls(error: ssl.SSLError, address: Address, heard: int) -> Exception:
    import ssl  # noqa: PLC0415 - as above

    broker = f"the broker at {address}"
    if isinstance(error, ssl.SSLCertVerificationError):
        advice = ""
        if error.verify_code in _WRONG_NAME:
            advice = "; give the name that the certificate has as the server name, if that is the broker that you want"
        elif error.verify_code in _NOT_TRUSTED:
            advice = "; give the file of the authority that signed it, if you trust that"
        return AuthenticationError(f"{broker} has not proved itself: {error.verify_message.rstrip('.')}{advice}")
    reason = str(error.reason or "")
    if heard:
        # It was good so far, and so it may be another time.
        return ConnectionLostError(f"TLS with {broker} broke off: {_words(reason) or error}")
    if any(each in reason for each in _NO_VERSION):
        return RemoteProtocolError(f"{broker} speaks no version of TLS that this client does; it takes 1.2 and later")
    if any(each in reason for each in _OUR_CERTIFICATE):
        return AuthenticationError(
            f"{broker} does not take this client without a certificate that it trusts ({_words(reason)})"
        )
    if any(each in reason for each in _NO_TLS):
        return RemoteProtocolError(f"{broker} does not speak TLS there: connect without, or to another port")
    return ConnectionLostError(f"TLS with {broker} broke off: {_words(reason) or error}")


def _words(reason: str) -> str:
    return reason.lower().replace("_", " ")
