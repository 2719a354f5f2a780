"""The settings of a broker that is a node of a cluster, as they can be judged without looking at files or at the register."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from actors.replication.document import MODES, DocumentError, check_member_name
from transport.errors import LocalProtocolError
from transport.wire.address import Address, parse_address

CLUSTER_PORT: Final = 9184
"""Where nodes connect to one another, unless told."""
CLUSTER_MODES: Final = MODES
DEFAULT_CLUSTER_LOG_BYTES: Final = 2**30
MIN_CLUSTER_LOG_BYTES: Final = 2**20
MAX_MEMBERS_TEXT: Final = 4_096
"""Characters of ``cluster_members``."""


def check_cluster(mode: str, log_bytes: int, node: str | None, address: str | None, members: str | None) -> None:
    """Judge the fields of `BrokerConfig` that are of a cluster, each by itself.

    Raises:
        LocalProtocolError: one cannot be.
    """
    if mode not in CLUSTER_MODES:
        raise LocalProtocolError(f"cluster_mode is {mode!r:.40}, not one of {', '.join(CLUSTER_MODES)}")
    if log_bytes < MIN_CLUSTER_LOG_BYTES:
        raise LocalProtocolError(f"cluster_log_bytes is {log_bytes}; it must be at least {MIN_CLUSTER_LOG_BYTES}")
    if node is not None:
        checked_node_name(node, "cluster_node")
    if address is not None:
        parse_address(address)
    if members is not None:
        parse_members(members)


def parse_members(text: str) -> Mapping[str, Address]:
    """Nodes and where the others reach them, of ``a=HOST,b=HOST:PORT``.

    Raises:
        LocalProtocolError: there is a mistake in it.
    """
    if len(text) > MAX_MEMBERS_TEXT:
        raise LocalProtocolError(f"cluster_members has {len(text)} characters, and can have {MAX_MEMBERS_TEXT}")
    members: dict[str, Address] = {}
    for each in text.split(","):
        name, equals, where = each.strip().partition("=")
        if not equals or not where:
            raise LocalProtocolError(f"cluster_members has {each!r:.80}, and is a list of NODE=HOST")
        checked_node_name(name, "cluster_members: a node")
        if name in members:
            raise LocalProtocolError(f"cluster_members has the node {name!r} twice")
        members[name] = parse_node_address(where)
    return members


def parse_node_address(text: str) -> Address:
    """Where a node is reached by the others, of ``HOST`` or ``HOST:PORT``.

    Raises:
        LocalProtocolError: it is none.
    """
    return parse_place(text, CLUSTER_PORT)


def parse_place(text: str, port: int) -> Address:
    """The address of ``HOST:PORT``, or of ``HOST`` with this port; LocalProtocolError where it is none."""
    has_port = ":" in text and not text.endswith("]")
    return parse_address(text if has_port else f"{text}:{port}")


def checked_node_name(name: str, what: str) -> str:
    """``name``, if a node can have it; LocalProtocolError where it cannot, which names ``what`` it is."""
    try:
        return check_member_name(name, what)
    except DocumentError as error:
        raise LocalProtocolError(str(error)) from None
