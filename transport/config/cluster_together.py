"""The settings of a node of a cluster, judged together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from actors.replication.document import ASYNC

if TYPE_CHECKING:
    from transport.config.config import BrokerConfig

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


def cluster_problems(config: BrokerConfig) -> Iterator[tuple[str, str]]:
    """What cannot be of those that are fine each by itself: the field that is to blame, and why."""
    if config.cluster is None:
        for name in _FIELDS:
            if getattr(config, name) is not None:
                yield name, f"{name} is of no use without cluster, which names the cluster"
        return
    if config.directory is None:
        yield "cluster", "a broker of a cluster keeps a journal: give a directory"
    if config.sync != "always" and config.cluster_mode != ASYNC:
        text = (
            f"sync is {config.sync!r}, and a node that forgets what it has answered breaks what cluster_mode "
            f"{config.cluster_mode!r} promises: use 'always', or the mode {ASYNC!r}"
        )
        yield "sync", text
    if config.cluster_certificate is None:
        for name in ("cluster_key", "cluster_ca"):
            if getattr(config, name) is not None:
                yield name, f"{name} is of no use without cluster_certificate"
