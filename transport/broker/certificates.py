"""The broker's side of TLS: 1.2 or later, with the certificate that is in force. A new one is for those who connect from then on."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Final

from transport.broker.unhurried import Unhurried
from transport.config.config import REQUIRED
from transport.errors import LocalProtocolError
from transport.security.tls_files import authorities_failed, check_there, load_own

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from transport.broker.last_good import FilesOfANode
    from transport.config.config import BrokerConfig

KEY_SETTING: Final = "--tls-key (tls_key)"
OTHERS: Final = 0o007
GROUP: Final = 0o070
"""Bits of a mode. Where root has the key, its group may have it too: a service's secrets are given so."""


class Certificates:
    """One broker's.

    Args:
        config: names the files.
        files: those of the node that the broker is of; None for one that is alone.

    Attributes:
        context: what connections are made with; None for connections without TLS.
    """

    def __init__(self, config: BrokerConfig, files: FilesOfANode | None = None) -> None:
        self._of_node = files
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
            if self._of_node is not None:
                self._of_node.certificates.value = self.context

    async def open_of(self, files: FilesOfANode) -> None:
        """As of `open`, for a broker that stands by turns: those that were good last stay where they cannot be read."""
        if self._files is not None:
            self.context = await files.certificates.read(self._files)


def _late(config: BrokerConfig, certificate: str) -> Callable[[str], Exception]:
    return lambda why: LocalProtocolError(f"TLS cannot be set up with {_named(config, certificate)}: {why}")


def _named(config: BrokerConfig, certificate: str) -> str:
    return ", ".join(file for file in (certificate, config.tls_key, config.tls_client_ca) if file is not None)


def _context(config: BrokerConfig, certificate: str) -> ssl.SSLContext:
    import ssl  # noqa: PLC0415 - a broker without TLS does not need it

    check_there(certificate, config.tls_key, config.tls_client_ca)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # A client that comes again shows anew who it is, to the certificates of then.
    context.options |= ssl.OP_NO_TICKET
    context.num_tickets = 0
    load_own(context, certificate, config.tls_key, KEY_SETTING)
    if config.tls_client_ca is not None:
        try:
            context.load_verify_locations(config.tls_client_ca)
        except (OSError, ValueError) as error:
            raise authorities_failed(config.tls_client_ca, error) from error
        required = config.tls_client_certificates == REQUIRED
        context.verify_mode = ssl.CERT_REQUIRED if required else ssl.CERT_OPTIONAL
    return context


def key_readers(config: BrokerConfig) -> str | None:
    """What to say of a key that others may read; None where nobody else may, or it cannot be told."""
    file = config.tls_key or config.tls_certificate
    if file is None:
        return None
    try:
        facts = os.stat(file)
    except OSError:
        return None
    mode = stat.S_IMODE(facts.st_mode)
    if not stat.S_ISREG(facts.st_mode) or not mode & (OTHERS if facts.st_uid == 0 else OTHERS | GROUP):
        return None
    return f"{file} has the key of TLS and mode {mode:04o}, so others may read it: chmod 600 {file}"
