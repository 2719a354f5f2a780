"""What the door opens on, and what it gives to those whom it attaches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from actors import LoopActorRef, QueueDirectory
from transport.broker.commands import Commands
from transport.broker.enlisted import EnlistedTotal
from transport.broker.port import Tasks
from transport.broker.publishers import Publishers
from transport.broker.takers import Takers

if TYPE_CHECKING:
    from actors.storage import DurableMap

Ref = LoopActorRef[Any]


@dataclass(frozen=True, slots=True)
class Services:
    """What the door opens on: the same for everybody.

    Attributes:
        queues: all of them, with their transactions.
        enlisted: what is enlisted for commits on all connections.
        commands: what the commands do.
        id_prefix: the first bytes of the ids generated for the messages of the queue with a name.
        tasks: work that outlives the connection that asked for it.
        memory: what gateways have to remember, as durable as the queues.
        takers: what takes messages by request.
        publishers: what sends them by request.
    """

    queues: QueueDirectory
    enlisted: EnlistedTotal
    commands: Commands
    id_prefix: Callable[[str], bytes]
    tasks: Tasks
    memory: DurableMap
    takers: Takers
    publishers: Publishers


class Receiving(NamedTuple):
    """A receiver that is attached: its actor, its timeout in seconds or `NO_DEADLINE`, the first bytes of its messages' ids.

    ``number`` is its queue's.
    """

    actor: Ref
    visibility_timeout: float
    id_prefix: bytes
    number: int


class Subscribing(NamedTuple):
    """A subscription that is attached: its actor, the first bytes of its messages' ids, and whether it has made the queue."""

    actor: Ref
    id_prefix: bytes
    created: bool
