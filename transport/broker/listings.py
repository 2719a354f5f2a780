"""What administration lists, row by row: in an order that lasts, from any row on, and never more than an answer may hold.

A broker can have more queues and connections than a frame has room for. So a list is given out in pages, each of which says where the next
begins; who asks for no page gets the whole list, or a clear error where that does not fit.
"""

from __future__ import annotations

import asyncio
import json
from bisect import bisect_left
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any, NamedTuple

from pykka import ActorDeadError

from actors import GetStatistics, InboxOverflowError, QueueDirectory, ask
from actors.exchanges.delayed import is_waiting_queue
from actors.queue.operations.browsing import IN_LINE
from transport.errors import LimitExceededError, RemoteProtocolError
from transport.security.principal import ANYONE, BROKER_RIGHTS, grants_of, name_of
from transport.wire.frames import MAX_BODY_BYTES
from transport.wire.messages import brief

if TYPE_CHECKING:
    from actors.queue.exchange_directory import ExchangeDirectory
    from actors.queue.schedule_directory import ScheduleDirectory
    from actors.queue.vocabulary.statistics import ConnectionStatistics, QueueStatistics
    from transport.broker.served import Served
    from transport.security.users import Users
    from transport.wire.messages import Options

ANSWER_TIMEOUT = 5.0
"""Seconds that a queue has to answer; it answers in a turn of the loop or not at all."""
SLICE = 8
"""Rows that are made before others have their turn: some hundred microseconds' work."""
TURNS_BETWEEN = 4
"""Turns of the loop from one slice to the next: a message of others passes through five, and most of them have no slice."""
MOST_ROWS = 1000
"""Rows of a page: some 700 KB of queues, which a queue each has to be asked for."""
COUNTED_AT_ONCE = 500
"""Receivers of connections that are counted, or looked at, in one turn of the loop: less than a millisecond's work."""
PAGE_BYTES = 2**20
"""Of a page, but one row at least."""

FAILED: dict[type[Exception], str] = {
    ActorDeadError: "the queue failed for good, and is started anew when a client asks for it",
    TimeoutError: f"no answer within {ANSWER_TIMEOUT:.0f} s",
}
"""What is said of a queue that does not answer."""


class Listed(NamedTuple):
    """What a broker lists: its queues, its connections by number, monotonic seconds to tell their ages by, and its users, if any."""

    queues: QueueDirectory
    connections: Mapping[int, Served[Any]]
    now: Callable[[], float]
    users: Callable[[], Users | None] = lambda: None

    @property
    def exchanges(self) -> ExchangeDirectory:
        """Its exchanges and bindings."""
        return self.queues.exchanges

    @property
    def schedules(self) -> ScheduleDirectory:
        """What is stored in its queues at times of its own."""
        return self.queues.schedules


Key = tuple[Any, ...]
"""What rows are ordered by; a page tells the last row's, as an opaque text."""
Row = tuple[Key, dict[str, Any]]
Rows = AsyncGenerator[Row, None]
Listing = Callable[["Listed", Key | None], Rows]
"""The rows behind a key, or all of them."""


async def answer_list(of: Listed, listing: Listing, kinds: tuple[type, ...], arguments: Options) -> bytes:
    """The JSON of a list, or of the page that ``arguments`` ask for.

    Args:
        of: whose.
        listing: its rows.
        kinds: of the parts of their keys.
        arguments: ``limit``, for a page of so many rows at most, and ``after``, what the page before gave as ``next``.

    Raises:
        RemoteProtocolError: an argument that cannot be.
        LimitExceededError: the list is no page, and does not fit a frame.
    """
    limit, after = arguments.get("limit"), arguments.get("after")
    if limit is None:
        if after is not None:
            raise RemoteProtocolError("the argument after belongs to pages: give the argument limit too")
        return b"".join(await whole_list(of, listing))
    if type(limit) is not int or limit < 1:
        raise RemoteProtocolError(f"the argument limit must be a whole number above zero, not {brief(limit)}")
    rows, last = await _rows(listing(of, _key(after, kinds)), min(limit, MOST_ROWS), PAGE_BYTES)
    following = None if last is None else json.dumps(last, ensure_ascii=False, separators=(",", ":"))
    return b"".join((b'{"rows":', *rows, b',"next":', json.dumps(following).encode(), b"}"))


async def whole_list(of: Listed, listing: Listing) -> list[bytes]:
    """The JSON of all rows, in parts; raises LimitExceededError where that does not fit a frame."""
    rows, last = await _rows(listing(of, None), None, MAX_BODY_BYTES)
    if last is not None:
        raise too_long()
    return rows


def too_long() -> LimitExceededError:
    """A list does not fit a frame."""
    return LimitExceededError(
        f"the list is longer than the {MAX_BODY_BYTES} bytes that fit a frame: ask for pages (the argument limit; newer clients do)"
    )


async def queue_rows(of: Listed, after: Key | None, only: str | None = None) -> Rows:
    """Every queue, by name; or the one called ``only``."""
    roles = await _roles(of)
    standing: dict[Any, int] | None = None
    # Most queues have the broker's settings, and to take settings apart costs more than all else of a row.
    last, settings = of.queues.settings, asdict(of.queues.settings)
    names = _names(of, None if after is None else after[0])
    if only is not None:
        names = [only] if only in names else []
    async for name, statistics in _asked(of, names):
        owned = of.queues.owned.owner_of(name) is not None
        declared = {"declared": of.queues.is_declared(name), "owned": owned}
        if (found := of.queues.settings_of(name)) is not last:
            last, settings = found, asdict(found)
        if isinstance(statistics, str):
            yield (name,), {"name": name, "failed": statistics} | settings | declared
            continue
        figures = {field.name: getattr(statistics, field.name) for field in fields(statistics)}
        row = {key: figure for key, figure in figures.items() if isinstance(figure, int)}
        counts = {
            "senders": roles.get((name, "sender"), 0),
            "receivers": roles.get((name, "receiver"), 0),
            "subscriptions": len(statistics.subscriptions),
            "paused": statistics.paused,
            "next_due_us": statistics.next_due_us,
            "active": None,
        }
        if (holder := next((facts.connection for facts in statistics.connections if facts.active), None)) is not None:
            standing = await _by_actor(of) if standing is None else standing
            counts["active"] = standing.get(holder)
        yield (name,), {"name": name, **row} | settings | counts | declared


async def connection_rows(of: Listed, after: Key | None) -> Rows:
    """Every connection, by number."""
    first = -1 if after is None else after[0]
    loads: dict[str, dict[Any, Any]] = {}
    for number in sorted(number for number in of.connections if number > first):
        connection = of.connections.get(number)
        if connection is None:
            continue  # gone meanwhile
        queue = connection.queue
        if queue is not None and queue not in loads:
            statistics = await _statistics(of, queue)
            known = () if statistics is None or isinstance(statistics, str) else statistics.connections
            loads[queue] = {facts.connection: facts for facts in known}
        facts = loads.get(queue or "", {}).get(connection.actor)
        several = await connection.facts()
        either = facts or several
        wire = connection.connection
        held_ms, waiting, priority = await _of_receivers(of, connection) if facts is None else _of_facts(facts)
        yield (
            (number,),
            {
                "id": number,
                "role": connection.role,
                "queue": queue,
                "exchange": connection.exchange,
                "client_id": connection.client_id,
                "user": user_of(connection),
                "peer": wire.peer if wire is not None else None,
                "demand": 0 if either is None else either.demand,
                "in_flight": 0 if either is None else either.in_flight,
                "held_ms": held_ms,
                "in_line": waiting,
                "priority": priority,
                "connected_s": round(of.now() - connection.opened_at, 3),
                "bytes_in": wire.bytes_in if wire is not None else 0,
                "bytes_out": wire.bytes_out if wire is not None else 0,
                "virtual_host": None if several is None else several.virtual_host,
                "product": None if several is None else several.product or None,
                "channels": None if several is None else several.channels,
                "consumers": None if several is None else several.consumers,
                "prefetch": None if several is None else several.prefetch,
            },
        )


async def _roles(of: Listed) -> Mapping[tuple[str | None, str | None], int]:
    """How many connections each queue has in each role; what receives for one that uses several queues counts for each."""
    roles: Counter[tuple[str | None, str | None]] = Counter()
    counted = 0
    for connection in list(of.connections.values()):
        roles[connection.queue, connection.role] += 1
        for queue, actors in list(connection.receivers.items()):
            roles[queue, "receiver"] += len(actors)
            counted += 1
            if counted % COUNTED_AT_ONCE == 0:
                await asyncio.sleep(0)
    return roles


async def _by_actor(of: Listed) -> dict[Any, int]:
    """The number of the connection of each actor that there is."""
    numbers: dict[Any, int] = {}
    counted = 0
    for connection in list(of.connections.values()):
        numbers[connection.actor] = connection.number
        for actors in list(connection.receivers.values()):
            numbers |= dict.fromkeys(actors, connection.number)
            counted += len(actors)
            if counted >= COUNTED_AT_ONCE:
                counted = 0
                await asyncio.sleep(0)
    return numbers


def _of_facts(facts: ConnectionStatistics) -> tuple[int, int, int]:
    """For how long it has held the oldest of what it holds, whether it stands in line for a queue, and its priority."""
    return facts.held_ms, int(facts.waiting and facts.role in IN_LINE), facts.priority


async def _of_receivers(of: Listed, connection: Served[Any]) -> tuple[int, int, int]:
    """The same of a connection that uses several queues: the oldest, how many of its receivers stand in line, the highest priority."""
    oldest = looked = waiting = 0
    highest: int | None = None
    for queue, actors in list(connection.receivers.items()):
        for actor in list(actors):
            if (facts := of.queues.party(queue, actor)) is not None:
                held_ms, waits, priority = _of_facts(facts)
                oldest, waiting = max(oldest, held_ms), waiting + waits
                highest = priority if highest is None else max(highest, priority)
            looked += 1
            if looked % COUNTED_AT_ONCE == 0:
                await asyncio.sleep(0)
    return oldest, waiting, highest or 0


def user_of(connection: Served[Any]) -> str | None:
    """Who it is; None where nobody was asked, or has said so yet."""
    operations = connection.operations
    return None if operations is None or operations.principal is ANYONE else operations.principal.name


async def subscription_rows(of: Listed, after: Key | None) -> Rows:
    """Every subscription, by queue and name."""
    async for queue, statistics in _asked(of, _names(of, None if after is None else after[0], inclusive=True)):
        if isinstance(statistics, str):
            continue
        for subscription in sorted(statistics.subscriptions, key=lambda each: each.name):
            key = (queue, subscription.name)
            if after is None or key > after:
                yield key, {"queue": queue, **asdict(subscription)}


async def transaction_rows(of: Listed, after: Key | None) -> Rows:
    """Every open transaction, by writer and version."""
    for transaction in of.queues.transactions.list():
        key = (transaction.writer, transaction.version)
        if after is None or key > after:
            yield key, transaction._asdict()


async def user_rows(of: Listed, after: Key | None) -> Rows:
    """Every user, by name, with what they may do. Of their proofs only how many there are is told."""
    users = of.users()
    for user in sorted(users or (), key=lambda each: each.name):
        if after is None or user.name > after[0]:
            yield (
                (user.name,),
                {
                    "name": user.name,
                    "broker": [name_of(right) for right in BROKER_RIGHTS if right in user.rights],
                    "grants": grants_of(user.grants),
                    "password": user.password is not None,
                    "tokens": len(user.tokens),
                    "access_keys": len(user.access_keys),
                    "certificates": len(user.certificates),
                },
            )


async def _rows(rows: Rows, limit: int | None, most: int) -> tuple[list[bytes], Key | None]:
    """The JSON of as many rows as are within the limits, and the key of the last of them where there are more.

    It is in parts, to be joined once, with all around them: a megabyte takes a millisecond to copy, in which nobody else has a turn.
    """
    parts = [b"["]
    count, size, last = 0, 2, None
    async with aclosing(rows):
        async for key, row in rows:
            part = json.dumps(row, separators=(",", ":")).encode()
            size += len(part) + 1
            if count and (size > most or count == limit):
                parts.append(b"]")
                return parts, last
            parts += (b",", part) if count else (part,)
            count += 1
            last = key
            if count % SLICE == 0:
                for _ in range(TURNS_BETWEEN):
                    await asyncio.sleep(0)
    parts.append(b"]")
    return parts, None


def _key(after: object, kinds: tuple[type, ...]) -> Key | None:
    if after is None:
        return None
    try:
        key = tuple(json.loads(after)) if isinstance(after, str) else ()
    except (ValueError, TypeError, RecursionError):
        key = ()
    if tuple(type(part) for part in key) != kinds:
        raise RemoteProtocolError(f"the argument after must be what the page before gave as next, not {brief(after)}")
    return key


def _names(of: Listed, after: str | None, inclusive: bool = False) -> list[str]:
    names = [name for name in of.queues if not is_waiting_queue(name)]
    if after is None:
        return names
    start = bisect_left(names, after)
    skips = not inclusive and start < len(names) and names[start] == after
    return names[start + skips :]


async def _asked(of: Listed, names: list[str]) -> AsyncGenerator[tuple[str, QueueStatistics | str], None]:
    """The figures of these queues, a slice at a time; those that are gone are left out."""
    for start in range(0, len(names), SLICE):
        some = names[start : start + SLICE]
        for name, statistics in zip(some, await asyncio.gather(*(_statistics(of, each) for each in some)), strict=True):
            if statistics is not None:
                yield name, statistics


async def _statistics(of: Listed, name: str) -> QueueStatistics | str | None:
    """A queue's figures, or why it has none to give: one that failed must not hide the others. None for one that is gone."""
    queue = of.queues.known(name)
    if queue is None:
        return FAILED[ActorDeadError] if name in of.queues else None
    if queue.actor_inbox.empty() and (read := of.queues.read(name)) is not None:
        # Asked, it would say the same: it has heard everything.
        return read
    try:
        async with asyncio.timeout(ANSWER_TIMEOUT):
            statistics: QueueStatistics = await ask(queue, GetStatistics())
            return statistics
    except (ActorDeadError, InboxOverflowError, TimeoutError) as error:
        return FAILED.get(type(error), str(error)) if name in of.queues else None
