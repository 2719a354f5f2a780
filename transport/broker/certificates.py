"""The broker's side of TLS: 1.2 or later, with the certificate that is in force. A new one is for those who connect from then on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from transport.broker.unhurried import Unhurried
from transport.config.config import REQUIRED
from transport.errors import LocalProtocolError
from transport.security.key_password import no_password

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from transport.config.config import BrokerConfig


class Certificates:
    """One broker's.

    Args:
        config: names the files.

    Attributes:
        context: what connections are made with; None for connections without TLS.
    """

    def __init__(self, config: BrokerConfig) -> None:
        certificate = config.tls_certificate
        self._files = (
            None
            if certificate is None
            else Unhurried(lambda: _context(config, certificate), _late(config, certificate))
        )
        self.context: ssl.SSLContext | None = None

    def open(self) -> None:
        """Read them, for those who connect from now on; where that is not possible those before stay in force.

        Raises:
            LocalProtocolError: a file that cannot be read, or holds something else.
        """
        if self._files is not None:
            self.context = self._files.now()

    async def reload(self) -> None:
        """As of `open`, while the loop serves others."""
        if self._files is not None:
            self.context = await self._files.later()


def _late(config: BrokerConfig, certificate: str) -> Callable[[str], Exception]:
    return lambda why: LocalProtocolError(f"TLS cannot be set up with {_named(config, certificate)}: {why}")


def _named(config: BrokerConfig, certificate: str) -> str:
    return ", ".join(file for file in (certificate, config.tls_key, config.tls_client_ca) if file is not None)


def _context(config: BrokerConfig, certificate: str) -> ssl.SSLContext:
    import ssl  # noqa: PLC0415 - a broker without TLS does not need it

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # A client that comes again shows anew who it is, to the certificates of then.
    context.options |= ssl.OP_NO_TICKET
    context.num_tickets = 0
    try:
        context.load_cert_chain(certificate, config.tls_key, password=no_password)
        if config.tls_client_ca is not None:
            context.load_verify_locations(config.tls_client_ca)
            required = config.tls_client_certificates == REQUIRED
            context.verify_mode = ssl.CERT_REQUIRED if required else ssl.CERT_OPTIONAL
    except (OSError, ValueError) as error:
        raise LocalProtocolError(f"TLS cannot be set up with {_named(config, certificate)}: {error}") from None
    return context
