"""What a node has of the machine that it runs on. A simulation has another one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

from actors.replication.limits import LIMITS, Limits
from actors.storage import storage_options
from actors.storage.node_storage import NodeStorage
from transport.broker.acceptor import Listen, listen

if TYPE_CHECKING:
    from pathlib import Path

    from transport.cluster.door import ListenElsewhere


def _open(directory: Path, options: Any, cache_bytes: int) -> NodeStorage:
    return NodeStorage.open(directory, options, cache_bytes=cache_bytes)


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine.

    Attributes:
        journal_options: makes the journal's options of what the node's settings say.
        open_storage: opens a directory, of its path, these options, and the bytes of the leader's cache; it blocks.
        listen: how clients are listened for, as of `Broker`.
        listen_to_nodes: how other nodes are, instead of on the machine's network.
        chance: makes what spreads the attempts to reach others.
        limits: of what is under way from this node to another while it leads.
    """

    journal_options: Callable[..., Any] = storage_options
    open_storage: Callable[[Path, Any, int], NodeStorage] = _open
    listen: Listen = listen
    listen_to_nodes: ListenElsewhere | None = None
    chance: Callable[[], Random] = Random
    limits: Limits = LIMITS


THIS_MACHINE = Machine()
