"""What all connections of AMQP have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from actors import LoopActor, LoopActorRef
from transport.gateways.amqp.claims import Claims
from transport.gateways.amqp.contents import MAX_MESSAGE_BYTES
from transport.gateways.amqp.departures import Departures
from transport.gateways.amqp.held_back import HeldBack
from transport.gateways.amqp.leaving import Leaving
from transport.gateways.amqp.names import DEFAULT
from transport.gateways.amqp.pace import Pace
from transport.gateways.amqp.waiting_total import WaitingTotal
from transport.wire.version import installed_version


@dataclass(frozen=True, slots=True)
class Gateway:
    """What all connections of AMQP have in common.

    Attributes:
        virtual_hosts: those that there are, each with the beginning that the broker's names in it have.
        version: the broker's.
        claims: who consumes from which queue.
        departures: consumers that leave as their channels end.
        leaving: connections that are gone and have left something.
        pace: of what is delivered.
        waiting: what was published and waits for room.
        held_back: what transactions keep until they are committed.
        max_message_bytes: of one message's body.
    """

    virtual_hosts: Mapping[str, str] = field(default_factory=lambda: {DEFAULT: ""})
    claims: Claims = field(default_factory=Claims)
    departures: Departures = field(default_factory=Departures)
    leaving: Leaving = field(default_factory=Leaving)
    pace: Pace = field(default_factory=Pace)
    waiting: WaitingTotal = field(default_factory=WaitingTotal)
    held_back: HeldBack = field(default_factory=HeldBack)
    max_message_bytes: int = MAX_MESSAGE_BYTES
    version: str = field(default_factory=lambda: installed_version() or "from source")


class Owner(LoopActor):
    """Stands for a connection to the queues that go with it. It is told nothing."""

    @classmethod
    def of(cls, *, gone: bool) -> LoopActorRef[Any]:
        """A connection's; of one that is ``gone``, and had said more, it ends at once, and what is declared in its name with it."""
        owner = cls.start()
        if gone:
            owner.stop_nowait()
        return owner
