"""The broker's side of TLS: 1.2 or later, with the certificate that is in force. A new one is for those who connect from then on."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from transport.config.config import REQUIRED
from transport.errors import LocalProtocolError

if TYPE_CHECKING:
    import ssl

    from transport.config.config import BrokerConfig


class Certificates:
    """One broker's.

    Args:
        config: names the files.

    Attributes:
        context: what connections are made with; None for connections without TLS.
    """

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        self.context: ssl.SSLContext | None = None

    def open(self) -> None:
        """Read them, for those who connect from now on; where that is not possible those before stay in force.

        Raises:
            LocalProtocolError: a file that cannot be read, or holds something else.
        """
        if self._config.tls_certificate is not None:
            self.context = _context(self._config, self._config.tls_certificate)


def _context(config: BrokerConfig, certificate: str) -> ssl.SSLContext:
    import ssl  # noqa: PLC0415 - a broker without TLS does not need it

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # A client that comes again shows anew who it is, to the certificates of then.
    context.options |= ssl.OP_NO_TICKET
    context.num_tickets = 0
    try:
        for file in (certificate, config.tls_key, config.tls_client_ca):
            if file is not None and not stat.S_ISREG(os.stat(file).st_mode):
                # A pipe would have the whole broker wait.
                raise ValueError(f"{file} is no regular file")
        # Never ask at a terminal for the password of a key: nobody may sit there.
        context.load_cert_chain(certificate, config.tls_key, password=_no_password)
        if config.tls_client_ca is not None:
            context.load_verify_locations(config.tls_client_ca)
            required = config.tls_client_certificates == REQUIRED
            context.verify_mode = ssl.CERT_REQUIRED if required else ssl.CERT_OPTIONAL
    except (OSError, ValueError) as error:
        files = ", ".join(file for file in (certificate, config.tls_key, config.tls_client_ca) if file is not None)
        raise LocalProtocolError(f"TLS cannot be set up with {files}: {error}") from None
    return context


def _no_password() -> str:
    raise ValueError("the key has a password; give one that has none, readable by its owner alone")
