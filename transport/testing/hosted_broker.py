"""A broker in a thread of its own, for tests: what tests of a program do to it, and ask of it, from any thread."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from actors import GetStatistics, Message, ask
from actors.queue.vocabulary.commands import PauseSenders
from actors.storage import TroubledFiles
from streams import Source
from transport.clients.administration import Administration
from transport.clients.sender import Sender
from transport.errors import BrokerError, LocalProtocolError
from transport.testing.figures import condition_of, shortfall
from transport.testing.hosting import DEADLINE, Hosting
from transport.testing.watched_queues import (
    MOST_SENT_BYTES,
    MOST_SENT_MESSAGES,
    Redeliver,
    SentToQueue,
)
from transport.wire.names import check_name

if TYPE_CHECKING:
    from transport.clients.peeked import PeekedMessage

MOST_CONTENTS = 10_000
"""Messages that one look at a queue gives; whoever has more looks at figures."""
MOST_FILLED = 10_000
"""Messages that `fill` sends, at most."""

T = TypeVar("T")


class HostedBroker(Hosting):
    """A broker in a thread of its own, with an event loop of its own; a context manager.

    ``with HostedBroker(max_receives=3) as broker: my_program(broker.send_address, broker.receive_address)``

    Every method may be called from any thread and returns within its deadline. They block: in an async test whose own clients have
    something to do meanwhile, ``await asyncio.to_thread(broker.wait_until, "orders", ready=0)``.

    Args:
        directory: where it keeps its journal; None for a broker in memory, of which nothing is left when it has ended.
        access: who the test's own `send` and `contents` are, where the settings ask who comes in.
        settings: of the broker, by their names in `BrokerConfig`; `TEST_SETTINGS` for what is not told.

    Attributes:
        running: whether it is there.
        failure: why it ended by itself: it could store nothing more. None where it did not.
    """

    __test__ = False

    # --- what is in it

    def send(
        self,
        queue: str,
        payloads: Iterable[bytes | Message] | bytes | str,
        *,
        key: bytes | None = None,
        headers: Mapping[str, str | bytes] | None = None,
        within: float = DEADLINE,
    ) -> None:
        """Send messages and return when all are confirmed. ``key`` and ``headers`` are for each that is given as bytes.

        Raises:
            TransportError: as of `transport.Sender`.
            TimeoutError: not all is confirmed in time, as by a queue that is full.
        """
        if isinstance(payloads, bytes | str):
            raise LocalProtocolError(f"send: payloads is one {type(payloads).__name__}; give a list of bytes: [b'...']")
        messages = [each if isinstance(each, Message) else Message(each, key, headers) for each in payloads]
        sender = Sender(self.send_address, queue=queue, access=self._access)

        async def give() -> None:
            await Source.from_iterable(messages).to(sender).run()

        self._call(give(), within, f"sending to queue {queue!r}")

    def sent(self, queue: str) -> list[Message]:
        """Every message that senders have sent to ``queue`` since the first start and it has taken, in order.

        What is sent again over a new connection is there once, but for what the queue had taken and a kill kept from the disk.

        Raises:
            LocalProtocolError: more was sent than is kept.
        """
        sent = self._watching.sent.get(queue, SentToQueue())
        if not sent.complete:
            raise LocalProtocolError(
                f"queue {queue!r} was sent {sent.messages} messages, {sent.bytes} bytes; at most {MOST_SENT_MESSAGES} messages and "
                f"{MOST_SENT_BYTES} bytes are kept: look at figures(queue), or call forget_sent() in between"
            )
        return sent.all()

    def forget_sent(self) -> None:
        """`sent` begins anew, for all queues."""
        self._watching.sent.clear()

    def contents(self, queue: str, count: int = MOST_CONTENTS, within: float = DEADLINE) -> list[PeekedMessage]:
        """The first ``count`` messages that are stored, whoever holds them; it changes nothing. None where there is no queue."""

        async def look() -> list[PeekedMessage]:
            async with Administration(self.send_address, access=self._access) as administration:
                try:
                    return await administration.peek(queue, count)
                except BrokerError as error:
                    if error.code == "not-found":
                        return []
                    raise

        return self._call(look(), within, f"looking into queue {queue!r}")

    def figures(self, queue: str, within: float = DEADLINE) -> dict[str, Any]:
        """How a queue stands: the fields of `QueueStatistics` by name; empty where there is no such queue."""
        return self._call(self._figures(queue), within, f"asking queue {queue!r}")

    def wait_until(self, queue: str, *, within: float = DEADLINE, **figures: int) -> None:
        """Return as soon as ``queue`` stands so: ``wait_until("orders", total_acknowledged=3, in_flight=0)``.

        It is looked at after each thing that the queue does, not now and then. The figures are those of `figures`; one that only grows,
        ``total_in``, ``total_out``, ``total_acknowledged`` ..., is reached when it is at least so much.

        Raises:
            LocalProtocolError: there are no such figures.
            TimeoutError: it does not stand so in time; the text says how it stands.
        """
        condition = condition_of(figures)

        async def watch() -> None:
            waiting = asyncio.ensure_future(self._watching.until(queue, condition))
            try:
                await asyncio.sleep(0)
                # Asking it has it looked at once.
                await self._figures(queue)
                await waiting
            finally:
                waiting.cancel()

        # The deadline is in the caller's time: the broker's may be put forward meanwhile.
        try:
            self._call(watch(), within, f"waiting for queue {queue!r}")
        except TimeoutError:
            seen = self.figures(queue)
            raise TimeoutError(f"queue {queue!r} after {within:g} s: {shortfall(figures, seen)}") from None

    # --- what is done to it

    def advance(self, seconds: float) -> None:
        """Put the broker's clock forward: visibility timeouts, delays, times to live and all other times of it are ``seconds`` nearer.

        One step: what is due in between happens at its end, once. Its clients' clocks stay as they are.

        Raises:
            ValueError: it would go back, or be ahead by more than a hundred years.
        """
        loop = self._of_running()

        async def jump() -> None:
            loop.advance(seconds)
            self._ahead = loop.ahead
            # One turn in which the timers are found, and one in which they have fired.
            await asyncio.sleep(0)
            await asyncio.sleep(0)

        self._call(jump(), DEADLINE, "putting the clock forward")

    def redeliver(self, queue: str) -> int:
        """Have what receivers hold come back, as after the visibility timeout; returns how many messages. 0 where there is no queue."""

        async def take_back() -> int:
            broker = self._of_broker()
            return int(await ask(broker.queues.get(queue), Redeliver())) if queue in broker.queues else 0

        return self._call(take_back(), DEADLINE, f"taking back what receivers of {queue!r} hold")

    @contextmanager
    def full(self, queue: str) -> Iterator[None]:
        """While this lasts the queue takes nothing, as if it were full: senders wait, or are refused where it rejects.

        What they were granted before may still come. The queue is made if need be. It stays so when the broker is killed meanwhile and
        starts again, and until the last of several such blocks has ended.
        """
        check_name(queue)
        self._watching.hold_full(queue, 1)
        try:
            self._tell_full(queue)
            yield
        finally:
            self._watching.hold_full(queue, -1)
            if self.running:
                self._tell_full(queue)

    def fill(self, queue: str, payload: bytes = b"filler", within: float = DEADLINE) -> int:
        """Send messages to a queue until it has as many as it may; returns how many. Give the broker a small ``max_queue_messages``.

        Raises:
            LocalProtocolError: that would be more than `MOST_FILLED`.
            TimeoutError: not all found room in time: other senders were granted it, or the queue is full by its bytes.
            QueueFullError: the same, where the queue rejects.
        """
        check_name(queue)

        async def room() -> int:
            broker = self._of_broker()
            broker.queues.get_or_create(queue)
            stored = (await self._figures(queue))["stored_messages"]
            most = broker.queues.settings_of(queue).max_messages
            return MOST_FILLED + 1 if most is None else max(0, most - int(stored))

        count = self._call(room(), within, f"asking queue {queue!r}")
        if count > MOST_FILLED:
            raise LocalProtocolError(
                f"queue {queue!r} has room for {count} messages or more; fill() sends at most {MOST_FILLED}: use full(), or give "
                "the broker a smaller max_queue_messages"
            )
        if count:
            self.send(queue, [payload] * count, within=within)
        return count

    def disconnect(self) -> int:
        """Break every connection, without a word; returns how many there were. Clients of Penstock connect again."""

        async def cut() -> int:
            return self._cut()

        return self._call(cut(), DEADLINE, "breaking the connections")

    def slow_disk(self, seconds: float) -> None:
        """Have every sync take ``seconds`` longer, until it is told 0; at the broker's next start the disk is well again."""
        if not seconds >= 0:
            raise LocalProtocolError(f"a sync cannot take {seconds} s longer: give 0 or more")
        self._of_disk().slow(seconds)

    def fail_disk(self) -> None:
        """Have every write and sync fail: at the next the broker ends (`wait_for_end`, `failure`). At its next start the disk is well."""
        self._of_disk().fail()

    # --- inside

    def _tell_full(self, queue: str) -> None:
        async def tell() -> None:
            queues, reason = self._of_broker().queues, self._watching.full(queue)
            if reason is not None or queue in queues:
                await ask(queues.get_or_create(queue), PauseSenders(reason))

        self._call(tell(), DEADLINE, f"pausing the senders of queue {queue!r}")

    async def _figures(self, queue: str) -> dict[str, Any]:
        broker = self._of_broker()
        if queue not in broker.queues:
            return {}
        statistics = await ask(broker.queues.get(queue), GetStatistics())
        return {name: getattr(statistics, name) for name in type(statistics).__dataclass_fields__}

    def _of_disk(self) -> TroubledFiles:
        if self._config.directory is None:
            raise LocalProtocolError(
                "this broker keeps everything in memory and has no disk: take penstock_durable_broker"
            )
        return self._files
