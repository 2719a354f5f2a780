"""The settings of the links between nodes, and what is read for them: a secret, files of TLS, or both. Without either there are none."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from transport.config.clustered import CLUSTER_PORT
from transport.errors import LocalProtocolError
from transport.security.secret_files import SecretFileError, read_one_or_two_lines
from transport.security.tls_files import check_there, load_own, trusting
from transport.wire.address import parse_address

if TYPE_CHECKING:
    import ssl

DEFAULT_LINK_ADDRESS: Final = f"127.0.0.1:{CLUSTER_PORT}"
LEAST_SECRET_BYTES: Final = 16
"""A shorter one can be guessed by whoever has seen one proof."""
TRANSFER_BYTES_A_SECOND: Final = 32 * 1024 * 1024
"""Of all transfers that a node gives: senders go on meanwhile."""
MAKE_ONE: Final = "make one with `openssl rand -hex 32`, and give each node the same"


@dataclass(frozen=True, slots=True)
class LinkTls:
    """Files of TLS, PEM. Both sides of a link show their certificate, so it has to be good for a server and for a client.

    Attributes:
        ca: the authorities that sign the certificates of nodes. Not the system's: those sign anybody's.
        certificate: this node's, with its chain; it names the host at which the others reach it.
        key: its key; None where the certificate's file has it too.
    """

    ca: str
    certificate: str
    key: str | None = None


@dataclass(frozen=True, slots=True)
class LinkSettings:
    """Of a node's links.

    Attributes:
        address: where it listens, ``host:port``.
        secret_file: a file whose one line is the secret of the cluster, or two while that is changed; None for none.
        tls: None for none.
        transfer_bytes_a_second: of all transfers that it gives, at most.

    Raises:
        LocalProtocolError: there is neither a secret nor TLS, or the address is none.
    """

    address: str = DEFAULT_LINK_ADDRESS
    secret_file: str | None = None
    tls: LinkTls | None = None
    transfer_bytes_a_second: int = TRANSFER_BYTES_A_SECOND

    def __post_init__(self) -> None:
        parse_address(self.address)
        if self.secret_file is None and self.tls is None:
            raise LocalProtocolError(
                "whoever reaches the address of the links could say what is stored here, so there are none without a secret or TLS: "
                f"give a file with a secret by --cluster-secret-file ({MAKE_ONE}), or the files of TLS, or both"
            )
        if self.transfer_bytes_a_second <= 0:
            raise LocalProtocolError("transfers have a rate above 0")


class LinkKeys(NamedTuple):
    """What was read for the links.

    Attributes:
        secret: None for none.
        client: what is dialled with; None for no TLS.
        server: what is answered with.
        also: a second secret while the nodes go from one to another: who dials may prove either, and is dialled with either.
    """

    secret: bytes | None
    client: ssl.SSLContext | None = None
    server: ssl.SSLContext | None = None
    also: bytes | None = None

    def secret_of(self, attempt: int) -> bytes | None:
        """What the attempt with this number proves: the other one behind each that was refused for its secret."""
        return self.also if self.also is not None and attempt % 2 else self.secret

    def is_last(self, attempt: int) -> bool:
        """Whether every secret has been proved by then."""
        return self.also is None or attempt % 2 == 1


def read_keys(settings: LinkSettings) -> LinkKeys:
    """Read the files; where one is a pipe, it is waited for.

    Raises:
        LocalProtocolError: a file cannot be used; the text says which, and why.
    """
    secret, also = (None, None) if settings.secret_file is None else _read_secret(settings.secret_file)
    if settings.tls is None:
        return LinkKeys(secret, also=also)
    return LinkKeys(secret, _client(settings.tls), _server(settings.tls), also)


def warning_of(settings: LinkSettings) -> str | None:
    """What is allowed and still worth a word; None for nothing."""
    address = parse_address(settings.address)
    if settings.tls is not None or address.is_loopback:
        return None
    return (
        f"what nodes send to one another at {address} can be read and changed on its way, for there is no TLS: "
        "the secret only proves who they are"
    )


def names_fit(certificate: Mapping[str, Any], host: str) -> bool:
    """Whether a certificate, as `ssl` tells it, is for a host: a name, or an address as such."""
    names = certificate.get("subjectAltName", ())
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return any(kind == "DNS" and _name_fits(name.lower(), host.lower().rstrip(".")) for kind, name in names)
    return any(kind == "IP Address" and _is_address(name, address) for kind, name in names)


def _name_fits(pattern: str, host: str) -> bool:
    if pattern.startswith("*."):
        # One label, and not the only one (RFC 6125, section 6.4.3).
        label, _, rest = host.partition(".")
        return bool(label) and rest == pattern[2:] and "." in rest
    return pattern == host


def _is_address(text: str, address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    try:
        return ipaddress.ip_address(text.strip()) == address
    except ValueError:
        return False


def _read_secret(file: str) -> tuple[bytes, bytes | None]:
    try:
        first, *others = (line.encode() for line in read_one_or_two_lines(file))
    except OSError as error:
        raise LocalProtocolError(f"the secret of the links cannot be read: {file}: {error.strerror or error}") from None
    except SecretFileError as error:
        raise LocalProtocolError(f"the secret of the links cannot be read: {error}") from None
    for secret in (first, *others):
        if len(secret) < LEAST_SECRET_BYTES:
            raise LocalProtocolError(
                f"the secret in {file} has {len(secret)} bytes, and could be guessed with less than {LEAST_SECRET_BYTES}: {MAKE_ONE}"
            )
    return first, others[0] if others else None


def _client(tls: LinkTls) -> ssl.SSLContext:
    import ssl  # noqa: PLC0415 - as below

    check_there(tls.ca, tls.certificate, tls.key)
    context = trusting(tls.ca)
    # Of some distributions it is none, unless their system's settings say so.
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    load_own(context, tls.certificate, tls.key, "the links' key")
    return context


def _server(tls: LinkTls) -> ssl.SSLContext:
    import ssl  # noqa: PLC0415 - links without TLS do not load it

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # Who comes again shows anew who it is.
    context.options |= ssl.OP_NO_TICKET
    context.num_tickets = 0
    load_own(context, tls.certificate, tls.key, "the links' key")
    context.load_verify_locations(tls.ca)
    context.verify_mode = ssl.CERT_REQUIRED
    return context
