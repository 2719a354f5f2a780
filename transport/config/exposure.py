"""Who can reach a broker, and whether that is refused: an address that is not of this machine alone takes users and TLS, or a word."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from transport.config.cluster_together import cluster_problems
from transport.config.config import REQUIRED
from transport.errors import LocalProtocolError
from transport.wire.address import Address, parse_address

if TYPE_CHECKING:
    from transport.config.config import BrokerConfig

USERS = "`penstock user add NAME --users-file FILE` and --users-file FILE"
TLS = "--tls-certificate FILE and --tls-key FILE"
"""The two that mend it."""
PROTECTED = frozenset({"send_address", "receive_address", "http", "amqps"})
"""Addresses of protocols that ask who somebody is, and that TLS carries."""


def check_listener(what: str, address: Address, config: BrokerConfig, *, protected: bool) -> None:
    """Refuse a listener that strangers can reach and use.

    Args:
        what: its name, or the setting's.
        address: where it listens, or is to listen.
        config: the broker's.
        protected: whether its protocol asks who somebody is, and is carried by TLS. One that is not stays on this machine.

    Raises:
        LocalProtocolError: it is not on loopback, and not protected, or there are no users or no TLS. The text says what to do.
    """
    if config.insecure or address.is_loopback:
        return
    where = f"{what} {address} can be reached from other machines"
    if not protected:
        why, mend = "its protocol asks nobody who they are", ""
        if what == "amqp":
            why, mend = "passwords can be read on their way there", "use --amqps, "
        raise LocalProtocolError(
            f"{where}, and {why}: {mend}listen on this machine alone (127.0.0.1), "
            "or say --insecure where whoever reaches it may use it"
        )
    missing, mends = [], []
    if config.users_file is None:
        missing.append("no users")
        mends.append(USERS)
    if config.tls_certificate is None:
        missing.append("no TLS")
        mends.append(TLS)
    if missing:
        raise LocalProtocolError(
            f"{where}, and the broker has {' and '.join(missing)}: use {', and '.join(mends)}; "
            "or say --insecure where whoever reaches it may do everything"
        )


def warnings_of(listeners: Iterable[tuple[Address, bool]], config: BrokerConfig) -> Iterator[str]:
    """What is allowed and still worth a word: who can reach listeners that are not for this machine alone, and what they can do.

    Args:
        listeners: the address of each, and whether it is protected, as of `check_listener`.
        config: the broker's.
    """
    open_to_all, plain = [], []
    for address, protected in listeners:
        if address.is_loopback:
            continue
        if config.users_file is None or not protected:
            open_to_all.append(str(address))
        elif config.tls_certificate is None:
            plain.append(str(address))
    if open_to_all:
        yield (
            f"anybody who reaches {' or '.join(open_to_all)} may read, write and delete everything here, "
            "for this broker is told to be insecure: let only those reach it whom you trust"
        )
    if plain:
        yield (
            f"what goes to and from {' or '.join(plain)} can be read on its way, tokens too, "
            "for this broker is told to be insecure, without TLS"
        )


def problems_together(config: BrokerConfig) -> Iterator[tuple[str, str]]:
    """What cannot be of settings that are fine each by itself: the field of `BrokerConfig` that is to blame, and why."""
    for field, address in config.addresses().items():
        try:
            check_listener(field, parse_address(address), config, protected=field in PROTECTED)
        except LocalProtocolError as error:
            yield field, str(error)
    if config.tls_certificate is None:
        if config.amqps is not None:
            yield "amqps", "amqps speaks TLS, which takes tls_certificate, the broker's own: give one, or use amqp"
        for field in ("tls_key", "tls_client_ca"):
            if getattr(config, field) is not None:
                yield field, f"{field} is of no use without tls_certificate, the broker's own"
    yield from cluster_problems(config)
    if config.tls_client_ca is None and config.tls_client_certificates == REQUIRED:
        yield "tls_client_certificates", "client certificates are verified by tls_client_ca, which is not given"
