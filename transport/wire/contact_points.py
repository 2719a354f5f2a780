"""Contact points: the addresses at which a client may find its broker, of which one is enough. ``a:9182,b:9182,c:9182``.

A cluster has one broker that leads and others that follow, at an address each. What a broker tells of its leader is written the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from transport.errors import LocalProtocolError, TransportError
from transport.wire.address import Address, parse_address

MAX_CONTACT_POINTS = 32
"""As many as a cluster has members; each costs an attempt before a client pauses."""
MAX_TOLD_ADDRESSES = 8
"""Of one leader: it may have a name and addresses of several networks."""
MAX_TOLD_TEXT = 2048
"""Characters of what a broker tells of its leader: it has to fit a header."""


def parse_contact_points(
    addresses: str | Sequence[str], what: str = "a client", default_port: int | None = None
) -> tuple[Address, ...]:
    """The addresses of ``host:port,host:port``, or of a sequence of such texts, in their order; one that is there twice counts once.

    Args:
        addresses: as given.
        what: who is to have them, for errors.
        default_port: of an address that has none; None where each is to have one.

    Raises:
        LocalProtocolError: there is none, or one that is no address, or there are more than ``MAX_CONTACT_POINTS``.
    """
    texts = (
        addresses.split(",") if isinstance(addresses, str) else [part for each in addresses for part in _parts(each)]
    )
    texts = [text.strip() for text in texts]
    if not any(texts):
        raise LocalProtocolError(f"{what} needs at least one broker address, as host:port")
    if not all(texts):
        raise LocalProtocolError(
            f"{', '.join(texts)!r:.300} has an empty place between its commas, where an address is to be"
        )
    found = tuple(dict.fromkeys(parse_address(_with_port(text, default_port)) for text in texts))
    if len(found) > MAX_CONTACT_POINTS:
        raise LocalProtocolError(
            f"{len(found)} addresses are more than the {MAX_CONTACT_POINTS} that {what} can have: a few of a cluster's are enough, for "
            "each broker of it says where its leader is"
        )
    return found


def written(addresses: Iterable[object]) -> str:
    """Addresses as `parse_contact_points` reads them."""
    return ",".join(str(each) for each in addresses)


def told_addresses(text: str) -> tuple[Address, ...]:
    """What a broker has told of its leader, as far as it can be tried: whatever it says must not end a client that has others to ask."""
    found: list[Address] = []
    for part in text[:MAX_TOLD_TEXT].split(","):
        try:
            address = parse_address(part.strip())
            # What no resolver can be asked for, asyncio raises as an error of ours.
            address.host.encode("idna")
        except (TransportError, UnicodeError):
            continue
        if address.port and address not in found and address.host.isprintable():
            found.append(address)
    return tuple(found[:MAX_TOLD_ADDRESSES])


def _parts(text: str) -> list[str]:
    if not isinstance(text, str):
        raise LocalProtocolError(f"an address is a text, host:port, and not {type(text).__name__}")
    return text.split(",")


def _with_port(text: str, port: int | None) -> str:
    # A number alone is a port whose host was forgotten.
    named = text.isdecimal() or (":" in text and not text.endswith("]"))
    return text if port is None or named else f"{text}:{port}"
