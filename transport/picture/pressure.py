"""Who holds back whom: a judgement of one queue, from its figures alone.

Demand decides what moves, so the one who is slow is the one who asks for nothing while the other could go on:

- a receiver, where messages are ready and nobody wants them;
- a sender, where receivers want messages and none is ready;
- the queue, where its limit is reached, or where the broker lets nobody send.

`actors.queue.operations.explaining` tells one client why it waits itself; this tells everybody who looks.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from actors.queue.operations.counting import Figures
    from actors.queue.vocabulary.settings import QueueSettings
    from actors.queue.vocabulary.statistics import QueueStatistics

MIB = 2**20
MOST_NAMED = 3
"""Clients that a sentence names; of more it says how many there are."""
DISK_BEHIND = "the disk cannot follow what is sent"
"""What the broker's queues give as the reason of a pause where the journal is behind (`QueueDirectory`)."""


class Kind(Enum):
    """What holds a queue back. The order is that of the pressure: a list by pressure begins with the last of them."""

    IDLE = "idle"
    FLOWING = "flowing"
    SENDER_SLOW = "sender slow"
    RECEIVER_SLOW = "receiver slow"
    NO_RECEIVER = "no receiver"
    PAUSED = "paused"
    DISK_BEHIND = "disk behind"
    LIMIT_REACHED = "limit reached"

    @property
    def rank(self) -> int:
        """Its place in the order, from 0 on."""
        return _RANKS[self]


_RANKS = {kind: rank for rank, kind in enumerate(Kind)}


class Party(NamedTuple):
    """One who sends to a queue or receives from it.

    Attributes:
        role: sender, receiver, taker or subscription.
        name: what it calls itself; empty where it does not.
        demand: messages that a receiver still wants, or that a sender still may send.
        held: messages that a receiver has and has not acknowledged.
        waits: of a sender, whether it can send nothing for want of room; of a receiver, whether it stands in line.
    """

    role: str
    name: str
    demand: int
    held: int
    waits: bool


class Pressure(NamedTuple):
    """The judgement: its kind, and a sentence for people that names who is slow and who waits for it."""

    kind: Kind
    text: str


class _Group(NamedTuple):
    """Some clients, as a sentence names them."""

    text: str
    number: int

    def does(self, verb: str) -> str:
        """With a verb, of which ``verb`` is the plural."""
        return f"{self.text} {self.verb(verb)}"

    def verb(self, verb: str) -> str:
        """The verb alone."""
        return verb if self.number != 1 else f"{verb}s"


def held_back_by(figures: QueueStatistics | Figures) -> Kind | None:
    """What holds a queue back at this moment; None where nothing does."""
    if figures.paused is not None:
        return Kind.DISK_BEHIND if DISK_BEHIND in figures.paused else Kind.PAUSED
    if figures.full or figures.waiting_senders:
        return Kind.LIMIT_REACHED
    if figures.ready and not figures.demand_waiting:
        return Kind.RECEIVER_SLOW if figures.attached_receivers else Kind.NO_RECEIVER
    if figures.demand_waiting and not figures.ready and figures.attached_senders:
        return Kind.SENDER_SLOW
    return None


def pressure_of(
    figures: QueueStatistics, settings: QueueSettings, moved: int, parties: Sequence[Party] = ()
) -> Pressure:
    """Judge a queue.

    Args:
        figures: as they stand.
        settings: the queue's.
        moved: messages that have come in or gone out since it was looked at before.
        parties: whom the sentence may name; without them it says how many there are.
    """
    name = figures.name
    kind = held_back_by(figures)
    if kind is Kind.DISK_BEHIND or kind is Kind.PAUSED:
        return Pressure(kind, f"queue {name} takes nothing now: {figures.paused}{_so_wait(figures, parties)}")
    if kind is Kind.LIMIT_REACHED:
        text = f"queue {name} is full ({_amounts(figures, settings)}): {_who_makes_room(figures, parties)}"
        return Pressure(Kind.LIMIT_REACHED, text + _so_wait(figures, parties))
    if kind is Kind.RECEIVER_SLOW or kind is Kind.NO_RECEIVER:
        return _nobody_wants(figures, parties)
    if kind is Kind.SENDER_SLOW:
        return _nothing_comes(figures, moved, parties)
    return _unhindered(figures, moved, parties)


def _unhindered(figures: QueueStatistics, moved: int, parties: Sequence[Party]) -> Pressure:
    """Nobody holds anybody back."""
    name, ready = figures.name, figures.ready
    if moved:
        return Pressure(Kind.FLOWING, f"queue {name} flows: receivers take what senders send")
    if ready:
        are = "is" if ready == 1 else "are"
        return Pressure(Kind.FLOWING, f"queue {name} flows: {_messages(ready)} {are} about to leave it")
    return Pressure(Kind.IDLE, f"queue {name} is idle{_left(figures)}{_wanted_in_vain(figures, parties)}")


def _nobody_wants(figures: QueueStatistics, parties: Sequence[Party]) -> Pressure:
    """Messages are ready, and whoever is there asks for none."""
    there = f"queue {figures.name} has {_messages(figures.ready)} ready"
    if not figures.attached_receivers:
        return Pressure(Kind.NO_RECEIVER, f"{there}, and nobody receives: start a receiver")
    who = _receivers(figures, parties)
    text = f"{there}: {who.text} {_holds(figures, who)}{who.verb('ask')} for no more{_in_line(figures)}"
    return Pressure(Kind.RECEIVER_SLOW, text)


def _in_line(figures: QueueStatistics) -> str:
    """Those whom an exclusive queue gives nothing, for one other has it."""
    waiting = figures.waiting_receivers
    return f"; {waiting:,} receiver{' stands' if waiting == 1 else 's stand'} in line" if waiting else ""


def _nothing_comes(figures: QueueStatistics, moved: int, parties: Sequence[Party]) -> Pressure:
    """Receivers want messages, and none is ready."""
    who = _senders(figures, parties)
    less = f"{who.does('send')} less" if moved else f"{who.does('send')} nothing"
    may = f", and may send {_messages(figures.capacity_granted)}" if figures.capacity_granted else ""
    wanted = _messages(figures.demand_waiting)
    later = (
        f", {figures.delayed:,} {'waits' if figures.delayed == 1 else 'wait'} for a delay" if figures.delayed else ""
    )
    want = _who_want(figures, parties).does("want")
    text = f"queue {figures.name} has nothing ready{later}, and {want} {wanted}: {less}{may}"
    return Pressure(Kind.SENDER_SLOW, text)


def _who_want(figures: QueueStatistics, parties: Sequence[Party]) -> _Group:
    """Those who want some."""
    return _named([party for party in _there(parties) if party.demand > 0], figures.attached_receivers, "receiver")


def _wanted_in_vain(figures: QueueStatistics, parties: Sequence[Party]) -> str:
    if not figures.demand_waiting or figures.attached_senders:
        return ""
    return f"; {_who_want(figures, parties).does('wait')} for messages, and nobody sends"


def _who_makes_room(figures: QueueStatistics, parties: Sequence[Party]) -> str:
    """What of a full queue is with whom."""
    if not figures.attached_receivers:
        return "nobody receives"
    who = _receivers(figures, parties)
    if figures.ready and not figures.demand_waiting:
        return f"{who.text} {_holds(figures, who)}{who.verb('ask')} for no more"
    if figures.ready:
        return f"{who.does('take')} less than is sent"
    held = figures.in_flight + figures.reserved
    if held:
        return f"{who.does('hold')} {_messages(held)} and {who.verb('acknowledge')} none"
    return f"{_messages(figures.delayed)} wait for a delay" if figures.delayed else "what it had is leaving it"


def _holds(figures: QueueStatistics, who: _Group) -> str:
    held = figures.in_flight + figures.reserved
    return f"{who.verb('hold')} {_messages(held)} and " if held else ""


def _so_wait(figures: QueueStatistics, parties: Sequence[Party]) -> str:
    return f"; {_senders(figures, parties).does('wait')}" if figures.waiting_senders else ""


def _senders(figures: QueueStatistics, parties: Sequence[Party]) -> _Group:
    """Those who wait for room, where some do; all of them where none does."""
    waiting = figures.waiting_senders
    found = [party for party in parties if party.role == "sender" and (party.waits or not waiting)]
    return _named(found, waiting or figures.attached_senders, "sender")


def _receivers(figures: QueueStatistics, parties: Sequence[Party]) -> _Group:
    """Those who ask for nothing, where some do not; all of them where each asks."""
    there = _there(parties)
    slow = [party for party in there if party.demand <= 0]
    return _named(slow or there, figures.attached_receivers, "receiver")


def _there(parties: Sequence[Party]) -> list[Party]:
    """Those who receive, and do not stand in line for it."""
    return [party for party in parties if party.role != "sender" and not party.waits]


def _named(parties: list[Party], count: int, what: str) -> _Group:
    """By name where they are few and all have one; by their number otherwise."""
    roles, called = {party.role for party in parties}, {party.name for party in parties}
    if len(roles) == 1 and roles <= {"sender", "receiver", "subscription"}:
        (what,) = roles
    count = len(parties) or count
    if not called or "" in called or len(called) > MOST_NAMED:
        return _Group(f"the {what}" if count == 1 else f"{count:,} {what}s", count)
    names = sorted(called)
    if len(names) == 1:
        # Several connections may be of one client.
        return _Group(f"{what} {names[0]}", 1)
    return _Group(f"{what}s {', '.join(names[:-1])} and {names[-1]}", len(names))


def _amounts(figures: QueueStatistics, settings: QueueSettings) -> str:
    """How much there is of the limit that it is nearer to."""
    stored, size = figures.stored_messages, figures.stored_bytes
    if settings.nearer_in_messages(stored, size):
        if settings.max_messages is None:
            return f"{_messages(stored)}, and no limit of its own"
        return f"{stored:,} of {_messages(settings.max_messages)}"
    return f"{size / MIB:,.1f} of {(settings.max_bytes or 0) / MIB:,.1f} MiB"


def _left(figures: QueueStatistics) -> str:
    """What it has that nobody can have now."""
    parts = (
        (figures.in_flight, "with receivers"),
        (figures.reserved, "reserved by subscriptions"),
        (figures.delayed, "waiting for a delay"),
        (figures.leaving, "leaving it"),
    )
    there = ", ".join(f"{number:,} {what}" for number, what in parts if number)
    return f": {there}" if there else "" if figures.stored_messages else " and empty"


def _messages(count: int) -> str:
    return f"{count:,} message" if count == 1 else f"{count:,} messages"
