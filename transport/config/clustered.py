"""The settings of a broker that is a node of a cluster, as they can be judged without looking at files or at the register."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from actors.replication.document import ASYNC, MODES, DocumentError, check_member_name
from transport.errors import LocalProtocolError
from transport.wire.address import Address, parse_address

if TYPE_CHECKING:
    from transport.config.config import BrokerConfig

CLUSTER_PORT: Final = 9184
"""Where nodes connect to one another, unless told."""
CLUSTER_MODES: Final = MODES
DEFAULT_CLUSTER_LOG_BYTES: Final = 2**30
MIN_CLUSTER_LOG_BYTES: Final = 2**20
MAX_MEMBERS_TEXT: Final = 4_096
"""Characters of ``cluster_members``."""

_FIELDS: Final = (
    "cluster_node",
    "cluster_members",
    "cluster_address",
    "cluster_advertise",
    "cluster_secret_file",
    "cluster_certificate",
    "cluster_key",
    "cluster_ca",
)


def without_cluster(config: BrokerConfig, **changed: Any) -> BrokerConfig:
    """The same broker, alone, but for what is ``changed``."""
    fields: dict[str, Any] = dict.fromkeys(("cluster", *_FIELDS))
    return replace(config, **(fields | changed))


def check_cluster(config: BrokerConfig) -> None:
    """Judge the fields of `BrokerConfig` that are of a cluster, each by itself.

    Raises:
        LocalProtocolError: one cannot be.
    """
    if config.cluster_mode not in CLUSTER_MODES:
        raise LocalProtocolError(f"cluster_mode is {config.cluster_mode!r:.40}, not one of {', '.join(CLUSTER_MODES)}")
    if config.cluster_log_bytes < MIN_CLUSTER_LOG_BYTES:
        raise LocalProtocolError(
            f"cluster_log_bytes is {config.cluster_log_bytes}; it must be at least {MIN_CLUSTER_LOG_BYTES}"
        )
    if config.cluster_node is not None:
        _checked(config.cluster_node, "cluster_node")
    if config.cluster_address is not None:
        parse_address(config.cluster_address)
    if config.cluster_members is not None:
        parse_members(config.cluster_members)


def cluster_problems(config: BrokerConfig) -> Iterator[tuple[str, str]]:
    """What cannot be of those that are fine each by itself: the field that is to blame, and why."""
    if config.cluster is None:
        for name in _FIELDS:
            if getattr(config, name) is not None:
                yield name, f"{name} is of no use without cluster, which names the cluster"
        return
    if config.cluster_node is None:
        yield "cluster_node", "a broker of a cluster has a name among its nodes: give cluster_node"
    if config.directory is None:
        yield "cluster", "a broker of a cluster keeps a journal: give a directory"
    if config.sync != "always" and config.cluster_mode != ASYNC:
        text = (
            f"sync is {config.sync!r}, and a node that forgets what it has answered breaks what cluster_mode "
            f"{config.cluster_mode!r} promises: use 'always', or the mode {ASYNC!r}"
        )
        yield "sync", text
    # Whoever reaches a node may have it take any log: nodes have to know each other.
    if config.cluster_secret_file is None and None in (config.cluster_certificate, config.cluster_ca):
        text = (
            "the nodes of a cluster have to know each other: give cluster_secret_file, the same on each, or cluster_certificate, "
            "cluster_key and cluster_ca"
        )
        yield "cluster", text
    if (config.cluster_certificate is None) != (config.cluster_ca is None):
        yield "cluster_ca", "cluster_certificate and cluster_ca go together: give both, or neither"
    if config.cluster_key is not None and config.cluster_certificate is None:
        yield "cluster_key", "cluster_key is of no use without cluster_certificate"


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
        _checked(name, "cluster_members: a node")
        if name in members:
            raise LocalProtocolError(f"cluster_members has the node {name!r} twice")
        members[name] = parse_address(where if _has_port(where) else f"{where}:{CLUSTER_PORT}")
    return members


def _checked(name: str, what: str) -> None:
    try:
        check_member_name(name, what)
    except DocumentError as error:
        raise LocalProtocolError(str(error)) from None


def _has_port(where: str) -> bool:
    return ":" in where and not where.endswith("]")
