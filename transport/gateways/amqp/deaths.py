"""What RabbitMQ's clients are told of a dead letter: ``x-death`` and what goes with it, made as it is delivered.

A dead letter carries what is said of its deaths in headers of the broker's own, bounded in number and size, which native receivers see as
they are. They are no tables of AMQP, so that a queue knows none; nor does a death have to read and write again what a client has published.
Names, types and order are RabbitMQ 4's (``mc_amqpl:protocol_state``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from actors.queue.structures.deadlines import US_PER_SECOND
from actors.queue.vocabulary.deaths import DEATH_HEADERS, ERROR, REASON
from actors.queue.vocabulary.replies import EXPIRED, MAX_RECEIVES, REJECTED
from transport.errors import LocalProtocolError
from transport.gateways.amqp.tables import Entry, Field, Table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from actors.batch import HeaderValue
    from actors.queue.vocabulary.deaths import Death, History
    from transport.gateways.amqp.properties import Properties

REASONS: Final = {REJECTED: "rejected", EXPIRED: "expired", MAX_RECEIVES: "delivery_limit"}
"""Why a message is dead, in RabbitMQ's words; another reason is said as it is."""
MOST_KEYS: Final = 16
"""Routing keys that are told of one death: with the deaths that there may be, it is less than a frame."""
X_DEATH: Final = "x-death"
_FURTHER: Final = "CC"


def is_dead(headers: Mapping[str, HeaderValue]) -> bool:
    """Whether these are a dead letter's."""
    return REASON in headers


def others_of(headers: Mapping[str, HeaderValue]) -> dict[str, HeaderValue]:
    """Of a dead letter's headers those that say something else than ``x-death``: what a native receiver had against it is among them."""
    others = {name: value for name, value in headers.items() if name not in DEATH_HEADERS}
    if headers.get(ERROR) not in (None, REJECTED):
        others[ERROR] = headers[ERROR]
    return others


def with_deaths(
    properties: Properties, history: History, stored_us: int, shown: Callable[[str], str] = str
) -> Properties:
    """The properties of a dead letter. Its expiration is none of them any more: the first of its deaths has it.

    Args:
        properties: without what is said of its deaths.
        history: these.
        stored_us: when the queue that it is in has stored it, microseconds since the epoch.
        shown: what a queue or an exchange of the broker's is called where this is told.
    """
    deaths = tuple(_shown(each, shown) for each in history.deaths)
    first = next((each for each in deaths if each.first), deaths[-1])
    further = _further(properties.headers)
    told = [
        Field("F", _told(each, stored_us, further, properties.expiration if each is first else None)) for each in deaths
    ]
    entries = [Entry(X_DEATH, "A", tuple(told))]
    for when, death in (("first", first), ("last", deaths[0])):
        entries += [
            Entry(f"x-{when}-death-reason", "S", _reason(death)),
            Entry(f"x-{when}-death-queue", "S", death.queue),
            Entry(f"x-{when}-death-exchange", "S", death.exchange),
        ]
    names = {entry.name for entry in entries}
    kept = [entry for entry in properties.headers or () if entry.name not in names]
    properties = properties.replaced(expiration=None)
    try:
        return properties.replaced(headers=Table([*kept, *entries]))
    except LocalProtocolError:
        # Its own headers leave no room in a table, and are what its sender wanted said.
        return properties


def _shown(death: Death, shown: Callable[[str], str]) -> Death:
    """With the names that its queue, its exchange, and a key that is its queue's name have for a client."""
    queue, key = shown(death.queue), death.key
    if not death.exchange and key == death.queue.encode():
        key = queue.encode()
    return death._replace(queue=queue, exchange=shown(death.exchange), key=key)


def _told(death: Death, stored_us: int, further: Sequence[str], expiration: str | None) -> Table:
    keys = [death.key.decode("utf-8", "replace"), *(further if death.own_keys else ())]
    fields = [
        Entry("count", "l", death.times),
        Entry("reason", "S", _reason(death)),
        Entry("queue", "S", death.queue),
        Entry("time", "T", (death.us or stored_us) // US_PER_SECOND),
        Entry("exchange", "S", death.exchange),
        Entry("routing-keys", "A", tuple(Field("S", each) for each in keys[:MOST_KEYS])),
    ]
    return Table(fields if expiration is None else [Entry("original-expiration", "S", expiration), *fields])


def _reason(death: Death) -> str:
    return REASONS.get(death.reason, death.reason)


def _further(table: Table | None) -> list[str]:
    """The routing keys that a message came with beside its own."""
    found = None if table is None else table.field(_FURTHER)
    if found is None or not isinstance(found.value, tuple):
        return []
    return [each.value for each in found.value if each.kind == "S" and isinstance(each.value, str)]
