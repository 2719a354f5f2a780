"""What all connections of AMQP have in common."""

from __future__ import annotations

from dataclasses import dataclass, field

from actors import LoopActor
from transport.gateways.amqp.claims import Claims
from transport.gateways.amqp.contents import MAX_MESSAGE_BYTES
from transport.gateways.amqp.leaving import Leaving
from transport.gateways.amqp.names import DEFAULT
from transport.gateways.amqp.waiting_total import WaitingTotal
from transport.wire.version import installed_version


@dataclass(frozen=True, slots=True)
class Gateway:
    """What all connections of AMQP have in common.

    Attributes:
        virtual_hosts: those that there are.
        version: the broker's.
        claims: who consumes from which queue.
        leaving: connections that are gone and have left something.
        waiting: what was published and waits for room.
        max_message_bytes: of one message's body.
    """

    virtual_hosts: frozenset[str] = frozenset({DEFAULT})
    claims: Claims = field(default_factory=Claims)
    leaving: Leaving = field(default_factory=Leaving)
    waiting: WaitingTotal = field(default_factory=WaitingTotal)
    max_message_bytes: int = MAX_MESSAGE_BYTES
    version: str = field(default_factory=lambda: installed_version() or "from source")


class Owner(LoopActor):
    """Stands for a connection to the queues that go with it. It is told nothing."""
