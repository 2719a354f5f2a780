"""What one channel publishes: grouped, and numbered where the client is to hear of it.

A client of AMQP is granted nothing: what it publishes waits here while a queue has no room. How much waits, its
connection looks at: it reads no more of whoever has too much. Each exchange has a line of its own (`publishing_line`),
so what goes through one exchange stays in order.
"""

from __future__ import annotations

import asyncio
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from actors.batch import BinaryColumn, MessageBatch
from actors.exchanges.errors import StoppingError
from actors.limits import MAX_DEDUPLICATION_ID_BYTES
from actors.queue.vocabulary.commands import ExplainWait
from transport.gateways.amqp.carried_properties import headers_column
from transport.gateways.amqp.deduplication_ids import NAME as ID
from transport.gateways.amqp.deduplication_ids import check_id
from transport.gateways.amqp.errors import AmqpError
from transport.gateways.amqp.events import Published
from transport.gateways.amqp.further_keys import FLAGGED, IN_BOTH, Keys, further_keys, may_name_more
from transport.gateways.amqp.published import PRIORITY_BIT, priority_of, ttl_of
from transport.gateways.amqp.publishing_line import WHY_BLOCKED, Host, Line, Piece
from transport.gateways.amqp.reply_codes import ReplyCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from transport.gateways.amqp.confirms import Confirms

MOST_LINES: Final = 64
"""Exchanges that one channel may be publishing to at a time: each has an actor. One that has stored all gives way; what is
published to one more waits for that."""
MOST_LINES_OF_CONNECTION: Final = 4_096
"""That all channels of a connection have, before one that has a line has no more: what it publishes elsewhere waits for its own."""


NO_FURTHER: Final[Keys] = ()

Way = tuple[str, bool, float | None, Keys, int]
"""Exchange, ``mandatory``, time to live, the routing keys beside the message's own, and the priority, where some queue has levels."""


class _Looked(NamedTuple):
    """Messages of an event, up to one that cannot be published.

    Attributes:
        ways: of each.
        keys: its routing key.
        properties: as receivers see them; of all messages of the event.
        refused: why the next one cannot be published.
    """

    ways: list[Way]
    keys: list[bytes]
    properties: list[bytes]
    refused: AmqpError | None


class NoLineError(Exception):
    """A channel publishes to ``MOST_LINES`` exchanges that have not stored what came before.

    Args:
        rest: what was not taken.
    """

    def __init__(self, rest: Published) -> None:
        super().__init__("as many lines are busy as there may be")
        self.rest = rest


class Connected(Protocol):
    """A channel's connection.

    Attributes:
        lines: that all its channels have.
    """

    lines: int


class OnConnection(Host, Protocol):
    """The channel."""

    @property
    def link(self) -> Connected:
        """Its connection."""


class Publishing:
    """One channel's.

    Args:
        host: the channel.
        has_levels: whether priorities make a difference to any queue.

    Attributes:
        confirms: what the client is to be told; None where it does not ask for confirms.
        transacted: whether what is published is a transaction's, of which not a part may be left out.
        waiting_bytes: of what waits for room.
    """

    def __init__(self, host: OnConnection, has_levels: Callable[[], bool] = lambda: False) -> None:
        self.confirms: Confirms | None = None
        self._has_levels = has_levels
        self.transacted = False
        self.waiting_bytes = 0
        self._host = host
        self._lines: dict[tuple[str, bool], Line] = {}
        self._then: Callable[[], None] | None = None
        self._when_free: Callable[[], None] | None = None

    def publish(self, event: Published) -> None:
        """Take what has come.

        Raises:
            AmqpError: a message that cannot be published. Those before it are.
            NoLineError: the rest is to come again, as `when_free` says.
        """
        ways, all_keys, all_properties, refused = self._looked_at(event)
        start = 0
        for (exchange, mandatory, ttl, further, priority), group in groupby(ways):
            line = self._line(exchange, mandatory=mandatory)
            if line is None:
                raise NoLineError(_rest(event, start))
            stop = start + len(list(group))
            keys = all_keys[start:stop]
            payloads = BinaryColumn.from_values(event.bodies[start:stop], own=True)
            headers = headers_column(all_properties[start:stop])
            column = BinaryColumn.from_values(keys) if any(keys) else None
            batch = MessageBatch(payloads, None, column, headers)
            first = 0 if self.confirms is None else self.confirms.number(len(keys))
            line.take(Piece(batch, ttl, first, further, priority))
            start = stop
        if refused is not None:
            raise refused

    def _looked_at(self, event: Published) -> _Looked:
        """What of the messages decides on their way, up to one that cannot be published, and why that cannot."""
        ways: list[Way] = []
        keys: list[bytes] = []
        refused, user = None, self._host.user
        methods, seen, count = event.methods, event.properties, 1
        # To compare methods that differ would take longer than to look at each: of those that are equal there is one.
        if count < len(seen) and len(set(map(id, methods))) == 1 and seen.count(seen[0]) == len(seen):
            # All are alike, as mostly: the first is looked at for all.
            methods, seen, count = methods[:1], seen[:1], len(seen)
        properties = seen
        try:
            for at, (method, raw) in enumerate(zip(methods, properties, strict=True)):
                ttl, further = ttl_of(method, raw, user), NO_FURTHER
                if raw[0] & FLAGGED and IN_BOTH in raw and may_name_more(raw):
                    further, shown = further_keys(method.routing_key, raw)
                    # What waits for a line comes again as it was.
                    seen = list(seen) if seen is properties else seen
                    seen[at] = shown
                if len(raw) > MAX_DEDUPLICATION_ID_BYTES and ID in raw:
                    check_id(raw)
                priority = priority_of(raw) if raw[0] & PRIORITY_BIT and self._has_levels() else 0
                ways.append((method.exchange, method.mandatory, ttl, further, priority))
                keys.append(method.routing_key.encode())
        except AmqpError as error:
            refused = self._first_refused(method.exchange, error)
        return _Looked(ways * count, keys * count, seen * count, refused)

    def _first_refused(self, exchange: str, refused: AmqpError) -> AmqpError:
        """Why a message cannot be published: whether there is such an exchange is looked at before its properties are."""
        if refused.reply_code is not ReplyCode.NOT_IMPLEMENTED:
            try:
                self._host.check_published_to(exchange)
            except AmqpError as before:
                return before
        return refused

    @property
    def owed(self) -> bool:
        """Whether something that was published is not stored yet, or not confirmed."""
        confirms = self.confirms is not None and self.confirms.owed
        return confirms or any(line.busy for line in self._lines.values())

    @property
    def unstored(self) -> bool:
        """Whether something may not be stored yet."""
        return any(line.busy for line in self._lines.values())

    def when_stored(self, then: Callable[[], None]) -> None:
        """Have something done once all is stored that has come, be it durable or not. One thing at a time."""
        self._then = then
        for line in list(self._lines.values()):
            line.mark()
        self.marked()

    def marked(self) -> None:
        """A line may have stored what it had."""
        then = self._then
        if then is not None and not any(line.marking for line in self._lines.values()):
            self._then = None
            then()

    def when_free(self, then: Callable[[], None]) -> None:
        """Have something done once a line has stored all that it had, and may give way to another."""
        self._when_free = then

    def free(self) -> None:
        """A line has stored all that it had."""
        then, self._when_free = self._when_free, None
        if then is not None:
            then()

    async def all_confirmed(self) -> None:
        """Return when nothing that was published is on its way any more, or the channel is over. Nothing is published meanwhile."""
        while self.unstored:
            free = asyncio.get_running_loop().create_future()
            self._when_free = partial(_set, free)
            await free

    def explain(self) -> bool:
        """Have a queue say why it has no room for what waits, by `Host.explained`; False where nothing waits."""
        actor = next((line.actor for line in self._lines.values() if line.waits), None)
        if actor is not None:
            actor.deliver(ExplainWait(WHY_BLOCKED, actor))
        return actor is not None

    def wait_no_more(self) -> None:
        """The broker ends: what waits for room is rejected; of what was offered and waits its sender says that it is not stored."""
        if self.transacted and any(line.waits for line in self._lines.values()):
            error = StoppingError()
            self._host.publishing_failed(error.code, str(error))
            return
        for line in list(self._lines.values()):
            line.wait_no_more()

    def end(self) -> None:
        """The channel is over. What was offered is stored all the same; what waits for room is dropped."""
        lines, self._lines = list(self._lines.values()), {}
        self._host.link.lines -= len(lines)
        self._then = None
        for line in lines:
            line.end()
        self.free()

    def forget(self, line: Line) -> None:
        """A line has ended; what is published there next begins another."""
        before = len(self._lines)
        self._lines = {key: each for key, each in self._lines.items() if each is not line}
        self._host.link.lines -= before - len(self._lines)
        line.end()
        self.marked()
        self.free()

    def _line(self, exchange: str, *, mandatory: bool) -> Line | None:
        key = exchange, mandatory
        line = self._lines.pop(key, None)
        if line is None:
            if self._has_most and not self._give_way():
                return None
            line = Line(self, self._host, exchange, mandatory=mandatory)
            self._host.link.lines += 1
        # The one that was used last is the last.
        self._lines[key] = line
        return line

    @property
    def _has_most(self) -> bool:
        """Whether one more line takes the place of another: each channel may have one, however many the others have."""
        own = len(self._lines)
        return own >= MOST_LINES or (own > 0 and self._host.link.lines >= MOST_LINES_OF_CONNECTION)

    def _give_way(self) -> bool:
        for key, line in self._lines.items():
            if not line.busy:
                del self._lines[key]
                self._host.link.lines -= 1
                line.end()
                return True
        return False


def _set(free: asyncio.Future[None]) -> None:
    if not free.done():
        free.set_result(None)


def _rest(event: Published, start: int) -> Published:
    """The messages of an event from one on."""
    bodies, properties = event.bodies[start:], event.properties[start:]
    size = sum(map(len, bodies)) + sum(map(len, properties))
    return Published(event.channel, event.methods[start:], properties, bodies, size)
