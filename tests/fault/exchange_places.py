"""Where messages go in ``tests.fault.kill_exchanges``: five queues, exchanges of each kind, and dead letters of two of the queues.

What goes where is said twice: as bindings, for the broker, and by plain functions, for the judge.

``alike-1`` and ``alike-2`` are bound alike. Nobody takes from them before the end, and what expires there is gone. From ``drained-1`` and
``drained-2`` a receiver takes all the time. What it refuses of the first, or what expires there, goes to the exchange of dead letters with
a key of its own; what it refuses of the second comes again. In ``late`` everything has a time to live, and nobody takes from it before
the end: its messages become dead letters, with the keys that they have.
"""

from __future__ import annotations

from transport import Administration

ALIKE = ("alike-1", "alike-2")
DRAINED = ("drained-1", "drained-2")
REFUSING, RETURNING = DRAINED
LATE = "late"
QUEUES = (*ALIKE, *DRAINED, LATE)
DEAD_ALL, DEAD_KEPT, DEAD_TEA = "dead-all", "dead-kept", "dead-tea"
DEAD = (DEAD_ALL, DEAD_KEPT, DEAD_TEA)
"""Queues of dead letters: the first has all of them, and each of the others some."""
EXCHANGES = {
    "k.direct": "direct",
    "k.fanout": "fanout",
    "k.topic": "topic",
    "k.headers": "headers",
    "k.inner": "fanout",
    "k.dead": "topic",
}
INTERNAL = ("k.inner", "k.dead")
PUBLIC = ("k.direct", "k.fanout", "k.topic", "k.headers", "")
"""Where senders publish; the last is the default exchange."""
KEYS = ("eu.tea", "us.tea", "eu.soup")
KINDS = ("tea", "soup")
"""What the header ``kind`` says."""
REFUSED_KEY = "dead.drained-1"
"""The key of dead letters of the queue that refuses."""
MAX_RECEIVES = 3
"""Failures of a message there."""
LATE_SECONDS = 1.5
"""Time to live in the queue where everything has one."""
VISIBILITY_SECONDS = 600.0
"""Longer than a run: no delivery is over by time."""


def routed(exchange: str, key: str, kind: str) -> tuple[str, ...]:
    """The queues that a message goes to, said without any index; `define` binds so."""
    if exchange == "":
        return (key,)
    if exchange == "k.fanout":
        return ALIKE
    if exchange == "k.direct":
        return {"eu.tea": (REFUSING, LATE), "us.tea": (RETURNING,), "eu.soup": ALIKE}[key]
    if exchange == "k.topic":
        return (*([REFUSING] if key.startswith("eu.") else []), *([LATE] if key.endswith(".tea") else []))
    return (RETURNING, LATE) if kind == "tea" else ALIKE


def letters_to(queue: str, key: str) -> tuple[str, ...]:
    """The queues that a dead letter of a queue goes to, by the key that its message was published with; none where it has no way."""
    if queue not in (REFUSING, LATE):
        return ()
    key = REFUSED_KEY if queue == REFUSING else key
    return (DEAD_ALL, DEAD_TEA if key.endswith(".tea") else DEAD_KEPT)


def life_of(ttl: float | None, queue: str) -> float | None:
    """Seconds that a message published with a time to live has in a queue; None for ever."""
    if queue != LATE:
        return ttl
    return LATE_SECONDS if ttl is None else min(ttl, LATE_SECONDS)


async def define(administration: Administration) -> None:
    """Make the queues and exchanges, and bind them."""
    for name, kind in EXCHANGES.items():
        await administration.declare_exchange(name, kind, internal=name in INTERNAL)
    for queue in (*ALIKE, RETURNING, *DEAD):
        await administration.create_queue(queue, visibility_timeout=VISIBILITY_SECONDS)
    await administration.create_queue(
        REFUSING,
        visibility_timeout=VISIBILITY_SECONDS,
        max_receives=MAX_RECEIVES,
        dead_letter_exchange="k.dead",
        dead_letter_routing_key=REFUSED_KEY,
    )
    await administration.create_queue(
        LATE, visibility_timeout=VISIBILITY_SECONDS, ttl=LATE_SECONDS, dead_letter_exchange="k.dead"
    )
    bind = administration.bind
    for queue in ALIKE:
        await bind("k.fanout", queue)
        await bind("k.inner", queue)
    await bind("k.direct", "k.inner", "eu.soup", to_exchange=True)
    await bind("k.headers", "k.inner", "", {"kind": "soup"}, to_exchange=True)
    for queue in (REFUSING, LATE):
        await bind("k.direct", queue, "eu.tea")
    await bind("k.direct", RETURNING, "us.tea")
    await bind("k.topic", REFUSING, "eu.#")
    await bind("k.topic", LATE, "*.tea")
    for queue in (RETURNING, LATE):
        await bind("k.headers", queue, "", {"kind": "tea", "x-match": "any"})
    await bind("k.dead", DEAD_ALL, "#")
    await bind("k.dead", DEAD_TEA, "*.tea")
    for key in (REFUSED_KEY, "*.soup", LATE):
        await bind("k.dead", DEAD_KEPT, key)
