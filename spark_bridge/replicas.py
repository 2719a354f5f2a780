"""Option ``brokers`` of a source: brokers that each have a part of the queue, any of which may be a cluster.

``a:9183,b:9183`` are two brokers, each with messages of its own. ``orders=a:9183|b:9183|c:9183`` is one, which is replicated: a cluster
of the name ``orders``, and addresses at which its members are found, some of which are enough. Both may stand in one list. A broker is
known by its name in offsets, or else by its address. So a cluster is one broker wherever it lives, and may get other machines.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from transport import LocalProtocolError, parse_address
from transport.wire.contact_points import MAX_CONTACT_POINTS

MEMBERS = "|"
"""Between the addresses of one cluster."""
EXAMPLE = "orders=a:9183|b:9183|c:9183"
MAX_CLUSTER_NAME = 63
_NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{MAX_CLUSTER_NAME - 1}}}")


def parse_replicas(parts: list[str]) -> dict[str, tuple[str, ...]]:
    """What each broker is known by -> its addresses, in one way of writing. A cluster without a name is known by its addresses.

    Raises:
        ValueError: one is no broker, is there twice, or has no name and needs one.
    """
    found: dict[str, tuple[str, ...]] = {}
    for part in parts:
        name, equals, listed = part.rpartition("=")
        addresses = _addresses(listed)
        if equals and not _NAME.fullmatch(name):
            raise ValueError(
                f"{name!r:.80} is no name of a cluster: 1-{MAX_CLUSTER_NAME} letters, digits, dots, dashes and underscores that begin "
                f"with a letter or digit, as in {EXAMPLE}"
            )
        if not equals and len(addresses) > 1 and len(parts) > 1:
            raise ValueError(
                f"{part} is one broker with several addresses, and there are others: offsets of several brokers name each, so name it, "
                f"as in {EXAMPLE}"
            )
        known_by = name if equals else MEMBERS.join(addresses)
        if known_by in found:
            raise ValueError(f"{known_by} is listed twice; each broker is read once")
        found[known_by] = addresses
    _refuse_shared(found)
    return found


def names_of(replicas: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """Address -> the name of its broker, of those that have one: offsets from before it had a name know it by one of them."""
    return {address: name for name, addresses in replicas.items() for address in addresses if name != address}


def _addresses(listed: str) -> tuple[str, ...]:
    texts = [text.strip() for text in listed.split(MEMBERS)]
    if not all(texts):
        raise ValueError(f"{listed!r:.80} has an empty place where an address is to be, host:port")
    if len(texts) > MAX_CONTACT_POINTS:
        raise ValueError(
            f"{len(texts)} addresses of one broker are more than {MAX_CONTACT_POINTS}; a few are enough to find it"
        )
    try:
        parsed = [parse_address(text) for text in texts]
    except LocalProtocolError as error:
        raise ValueError(str(error)) from None
    return tuple(str(address._replace(host=address.host.lower())) for address in parsed)


def _refuse_shared(found: Mapping[str, tuple[str, ...]]) -> None:
    listed = [address for addresses in found.values() for address in addresses]
    for address in listed:
        if listed.count(address) > 1:
            raise ValueError(f"{address} is listed twice; each broker is read once")
