"""The actor of one subscription connection: the owner's reservations and commits, and the fetching of what is reserved or stored.

A fetch is answered by the queue step by step, the next being asked for when the last is sent and the client wants more; this actor streams
what is in it under the client's demand. Only the queue reads what it stores: this actor may outlive it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any
from typing import Protocol as TypingProtocol

from actors.queue.connection_actor import ConnectionActor, Port
from actors.queue.vocabulary import commands, replies
from actors.runtime.loop_ref import LoopActorRef

STREAM_BYTES = 1024 * 1024
"""Bytes sent of a fetch before others have their turn; as much as may wait for a socket before it is not writable."""
STREAM_RANGES = 64
"""Ranges likewise: where they are small they make the work."""


@dataclass(frozen=True, slots=True)
class SubscriptionOptions:
    """How a client opens a subscription; docs/protocol.md, section "Subscriptions". To browse there is no name."""

    name: str
    mode: str
    epoch: int | None
    starting: str
    owner_timeout: float | None
    take_over: bool = False
    client: str = ""
    must_exist: bool = False

    @property
    def browses(self) -> bool:
        """Whether it is no subscription, but reads what the queue stores."""
        return self.mode == "browse"

    @property
    def may_make_queue(self) -> bool:
        """Whether a queue that does not exist is made: only for who begins to own, for what others look for is not in a new one."""
        return self.mode == "own" and self.epoch is None and not self.must_exist


class SubscriptionPort(Port, TypingProtocol):
    """The way to the client."""

    def fetched(self, request: int, message: replies.FetchedMessages) -> None:
        """Reserved messages."""

    def fetch_ended(self, request: int, messages: int) -> None:
        """A fetch is complete."""


class _StreamOn:
    """To itself: go on with what demand allows, when others had their turn."""

    __slots__ = ()


_STREAM_ON = _StreamOn()


class SubscriptionPublisher(ConnectionActor):
    """Takes the client's requests from its connection, and the queue's answers.

    Args:
        queue: the queue actor.
        options: which subscription, and how.
        port: the way to the client.
        arrival: the connection's number, in the order in which they were accepted.
    """

    what = "subscription"
    deleted = "the queue was deleted, and the subscription with it"
    marks_answers = True
    _port: SubscriptionPort

    def __init__(
        self, queue: LoopActorRef[Any], options: SubscriptionOptions, port: SubscriptionPort, arrival: int = 0
    ) -> None:
        super().__init__(queue, port)
        self._options = options
        self._arrival = arrival
        self._wanted_messages = 0
        self._wanted_bytes = 0
        self._writable = True
        self._pausing = False
        self._opened = False
        self._fetching: int | None = None
        self._fetched = 0
        self._answered = False
        self._ranges: Iterator[replies.FetchedMessages] = iter(())
        self._next: replies.FetchedMessages | None = None
        self._browses = options.browses
        # Where the next step of a fetch begins, while it is not asked for; and where the fetch ends.
        self._rest: int | None = None
        self._fetch_end = 0

    def attaching(self) -> commands.OpenSubscription:
        """What opens the subscription."""
        o = self._options
        return commands.OpenSubscription(
            o.name, o.mode, o.epoch, o.starting, o.owner_timeout, o.take_over, o.client, self.actor_ref, self._arrival
        )

    def on_stop(self) -> None:
        """The connection is gone; reservations stay."""
        self._ranges, self._next = iter(()), None
        super().on_stop()

    def handle(self, kind: type, message: Any) -> None:
        """Dispatch by type."""
        match message:
            case commands.DemandSignalled():
                self._wanted_messages += message.messages
                self._wanted_bytes += message.bytes
                self._stream()
            case commands.Writable():
                self._writable = message.writable
                self._stream()
            case commands.ReserveRequested() | commands.CommitRequested() if self._browses:
                self._end("protocol-error", "mode 'browse' changes nothing: open a subscription with mode 'own'")
            case commands.ReserveRequested() | commands.CommitRequested():
                self.pass_on(message)
            case _StreamOn():
                self._pausing = False
                self._stream()
            case commands.FetchRequested():
                self._fetch(message)
            case replies.FetchedRanges():
                self._step(message.ranges, message.rest)
            case replies.MessagesReserved() | replies.ReservationCommitted():
                self._port.tell(message)
            case replies.SubscriptionOpened():
                self._opened = True
                self._port.tell(message)
            case _:
                super().handle(kind, message)

    def _fetch(self, message: commands.FetchRequested) -> None:
        if self._fetching is not None:
            self._end("protocol-error", f"FETCH {message.request} while {self._fetching} is under way; one at a time")
            return
        self._fetching = message.request
        self._fetched = 0
        self._answered = False
        self._rest, self._fetch_end = message.start, message.stop
        if self._browses:
            self._stream()
        else:
            # At once, for it may be refused.
            self._read(message.request, message.start)

    def _step(self, ranges: Iterable[replies.FetchedMessages], rest: int | None) -> None:
        """Have one step at hand, and know where the next begins."""
        self._answered, self._rest = rest is None, rest
        self._ranges = iter(ranges)
        self._advance()
        self._stream()

    def _stream(self) -> None:
        """Send what demand and this turn allow; the fetch ends with its last range.

        A turn's piece is small: what the socket does not take is known before the next, and each range may have to be read.
        """
        room, ranges = STREAM_BYTES, STREAM_RANGES
        while self._next is not None and self._writable and not self._ended:
            if self._wanted_messages <= 0 or self._wanted_bytes <= 0 or self._pausing:
                return
            if room <= 0 or not ranges:
                self._pausing = True
                # By the clock, so that it comes in another turn; what is told comes in this one.
                self.schedule_at(self.loop.time(), _STREAM_ON)
                return
            part, request = self._next, self._fetching
            assert request is not None, "ranges belong to a fetch"
            count = min(self._wanted_messages, part.batch.count_within(self._wanted_bytes))
            if count < len(part.batch):
                part, self._next = part.split(count)
            else:
                self._advance()
            self._wanted_messages -= count
            self._wanted_bytes -= part.batch.nbytes
            room -= part.batch.nbytes
            ranges -= 1
            self._fetched += count
            self._port.fetched(request, part)
        if self._fetching is None or self._next is not None or self._ended:
            return
        if self._answered:
            request, self._fetching = self._fetching, None
            self._port.fetch_ended(request, self._fetched)
        elif self._rest is not None:
            self._ask_for_step(self._fetching, self._rest)

    def _ask_for_step(self, request: int, start: int) -> None:
        """Have the queue read the next step, not before the client wants it: a step of every connection at once would be much."""
        wanted = self._wanted_messages > 0 and self._wanted_bytes > 0 and self._writable
        if wanted or start >= self._fetch_end:
            self._read(request, start)

    def _read(self, request: int, start: int) -> None:
        """Have the queue read a step, in a turn of its own: what it stores is nobody else's to read."""
        self._rest = None
        step = commands.BrowseRequested if self._browses else commands.FetchRequested
        self._queue.tell(step(request, start, self._fetch_end, self.actor_ref))

    def _advance(self) -> None:
        self._next = next(self._ranges, None)

    def _refused(self, message: replies.Refused) -> None:
        # What cannot be opened leaves nothing to ask for.
        if message.close or not self._opened:
            self._end(message.code, message.text)
            return
        if message.request == self._fetching:
            self._fetching = None
        text = message.text if message.request is None else f"request {message.request}: {message.text}"
        self._port.refused(message.code, text, close=False)
