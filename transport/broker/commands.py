"""What the commands of docs/protocol.md, section "Administration", do. Who may have them done is said in `OPERATIONS`."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Collection
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, cast

from pykka import ActorDeadError

from actors import (
    GetStatistics,
    MoveMessages,
    PeekMessages,
    PurgeQueue,
    QueueError,
    ReleaseSubscription,
    StorageError,
    ask,
)
from actors.errors import QueueGoneError
from actors.queue.directory_errors import QueueNotFoundError
from actors.queue.vocabulary.idle_settings import of_no_effect
from transport.broker import listings, peeked
from transport.broker.backups import Backups
from transport.broker.exchange_listings import exchange_sums
from transport.broker.listings import ANSWER_TIMEOUT, Listed, Listing
from transport.broker.served import Connections
from transport.errors import ConnectionNotFoundError, LocalProtocolError, RemoteProtocolError, TransportError
from transport.picture.metrics import Metrics
from transport.picture.sampler import Sampler
from transport.picture.view import View, asked_of
from transport.wire.arguments import CHECK, DECLARED_WITH, bytes_of, flag_of, number_of, read_settings, string_of
from transport.wire.field_checks import MAX_INTEGER
from transport.wire.frames import MAX_BODY_BYTES
from transport.wire.messages import Options, brief
from transport.wire.names import check_name

LONG_AT_ONCE = 2
"""Long answers that are being made at one time: each takes as much memory as a largest frame. Others wait for their turn."""

if TYPE_CHECKING:
    from actors.queue.exchange_directory import ExchangeDirectory
    from actors.queue.schedule_directory import ScheduleDirectory
    from actors.queue.vocabulary.settings import QueueSettings
    from actors.queue.vocabulary.statistics import QueueStatistics
    from transport.broker.cluster_port import Cluster

logger = logging.getLogger("penstock.broker")

MOST_REASON = 255
"""Characters of the reason for which somebody closes a connection."""

Handler = Callable[["Commands", Options], Awaitable[Any]]


class Asker(Protocol):
    """Whoever asks for a command; what is kept for them ends with their connection."""

    number: int | None
    """That of the connection."""


class Commands:
    """What administrators can have a broker do.

    Attributes:
        cluster: the node that the broker is a part of; None of one that is alone.

    Args:
        of: its queues and connections.
        describe: its own figures.
        id_prefix: the first bytes of the ids generated for the messages of the queue with a name.
        backups: of its journal.
        sampler: of its queues.
        metrics: its figures as text.
        unready: code and text of why it is not ready to be used; None while it is.
    """

    cluster: Cluster | None = None

    def __init__(
        self,
        of: Listed,
        describe: Callable[[], dict[str, Any]],
        id_prefix: Callable[[str], bytes] = lambda _: bytes(8),
        backups: Backups | None = None,
        sampler: Sampler | None = None,
        metrics: Metrics | None = None,
        unready: Callable[[], tuple[str, str] | None] = lambda: None,
    ) -> None:
        self._of = of
        self.backups = Backups(None) if backups is None else backups
        self.sampler = Sampler(of.queues, of.now) if sampler is None else sampler
        self.metrics = Metrics(of.queues, Connections(0), describe) if metrics is None else metrics
        self.unready = unready
        self._describe = describe
        self._id_prefix = id_prefix
        # Who may make a long answer now; the others wait.
        self._long = asyncio.Semaphore(LONG_AT_ONCE)

    @property
    def exchanges(self) -> ExchangeDirectory:
        """The broker's exchanges and bindings."""
        return self._of.exchanges

    @property
    def schedules(self) -> ScheduleDirectory:
        """What is stored in its queues at times of its own."""
        return self._of.schedules

    async def list_rows(self, listing: Listing, kinds: tuple[type, ...], arguments: Options) -> bytes:
        """A list, or a page of it: `listings.answer_list`, with its errors."""
        return await listings.answer_list(self._of, listing, kinds, arguments)

    async def run(self, handler: Handler, arguments: Options, long: bool) -> bytes:
        """The JSON that answers a command.

        Raises:
            RemoteProtocolError: arguments of the wrong type.
            LimitExceededError: the answer does not fit a frame.
            QueueError: the queue's refusal.
        """
        if not long:
            answer = await handler(self, arguments)
        else:
            async with self._long:
                answer = await handler(self, arguments)
        return answer if isinstance(answer, bytes) else _json(answer)

    async def queue_list(self, arguments: Options) -> bytes:
        """Every queue, or the one of a name."""
        name = arguments.get("name")
        rows = listings.queue_rows if name is None else partial(listings.queue_rows, only=string_of(arguments, "name"))
        return await self.list_rows(rows, (str,), arguments)

    async def queue_create(self, arguments: Options) -> Any:
        """Make a queue; one that is there must have the same settings."""
        name = check_name(string_of(arguments, "name"))
        given = read_settings(arguments, DECLARED_WITH)
        declared_with = bytes_of(arguments, DECLARED_WITH)
        try:
            settings = replace(self._of.queues.settings, **given)
        except ValueError as error:
            raise LocalProtocolError(str(error)) from error
        if flag_of(arguments, CHECK, False):
            self._of.queues.check_declared(name, settings)
            return {"name": name, **asdict(settings), "room": self._of.queues.room}
        if not declared_with:
            # One that is there may have been declared before this was judged.
            _check_effect(settings, given, unless=lambda: name in self._of.queues.names)
        self._of.queues.declare(name, settings, declared_with)
        await self.durable()
        return {"name": name, **asdict(settings)}

    async def queue_alter(self, arguments: Options) -> Any:
        """Give a queue that lives other settings; those that are not given stay."""
        name = string_of(arguments, "name")
        given = read_settings(arguments)
        if not given:
            raise LocalProtocolError(f"nothing is to be altered of queue {name!r:.255}: give a setting")
        try:
            altered = self._of.queues.check_altered(name, given)
            _check_effect(altered, given)
            if flag_of(arguments, CHECK, False):
                return {"name": name, **asdict(altered)}
            change = self._of.queues.alter(name, given)
        except ValueError as error:
            if isinstance(error, QueueError):
                raise
            raise LocalProtocolError(str(error)) from error
        # Nothing comes between: the queue hears of two changes in the order in which they were recorded.
        settings = await self._ask(name, change)
        return {"name": name, **asdict(settings)}

    async def queue_delete(self, arguments: Options) -> Any:
        """Delete a queue with all it holds, and end its connections."""
        name = string_of(arguments, "name")
        ended = sum(connection.queue == name for connection in self._of.connections.values())
        self._of.queues.delete(name)
        await self.durable()
        return {"name": name, "connections": ended}

    async def queue_purge(self, arguments: Options) -> Any:
        """Drop the messages that wait."""
        name = string_of(arguments, "name")
        return {"name": name, "purged": await self._ask(name, PurgeQueue())}

    async def figures(self, name: str) -> QueueStatistics:
        """What a queue says of itself, behind all that it was told before; its connections are left out."""
        answer: QueueStatistics = await self._ask(name, GetStatistics(parties=False))
        return answer

    async def queue_move(self, arguments: Options) -> Any:
        """Move some of the messages that can be received now; ``next`` says how to go on."""
        queues = self._of.queues
        source, target = string_of(arguments, "from"), string_of(arguments, "to")
        count = None if arguments.get("count") is None else number_of(arguments, "count")
        create, after = flag_of(arguments, "create", False), arguments.get("after")
        keep = None if arguments.get("keep_history") is None else flag_of(arguments, "keep_history")
        if source == target:
            raise LocalProtocolError(f"messages of queue {source!r:.255} cannot be moved to itself: name another queue")
        queues.get(source)
        to = queues.get_or_create(check_name(target)) if create and after is None else queues.get(target)
        numbers = queues.number_of(source), queues.number_of(target)
        below = None if after is None else _goes_on(after, numbers)
        wanted = MoveMessages(to, self._id_prefix(source), count, below, keep_history=keep, name=target)
        moved = await self._ask(source, wanted)
        refusal = moved.refusal
        if isinstance(refusal, QueueGoneError):
            refusal = QueueNotFoundError(target)
        if refusal is not None and not moved.messages:
            raise refusal
        # Where something was moved before a refusal, that is said first: who goes on is told the refusal.
        more = moved.more and count != moved.messages
        following = json.dumps([*numbers, moved.below], separators=(",", ":")) if more else None
        return {"from": source, "to": target, "moved": moved.messages, "next": following}

    async def queue_peek(self, arguments: Options) -> Any:
        """Show some of the messages that are stored, and change nothing."""
        name = string_of(arguments, "name")
        count = min(number_of(arguments, "count"), peeked.MOST_MESSAGES)
        most = peeked.MESSAGE_BYTES
        if arguments.get("bytes") is not None:
            most = min(most, number_of(arguments, "bytes", least=0))
        newest = flag_of(arguments, "newest", False)
        start = None if newest else number_of(arguments, "start", least=0) if "start" in arguments else 0
        self._of.queues.get(name)
        rows = peeked.Rows(count, most, self._id_prefix(name))
        following: int | None = None
        while rows.left > 0:
            found = await self._ask(name, PeekMessages(rows.left, start))
            following = start = found.rest
            for messages in found.ranges:
                cut = rows.add(messages)
                if cut is not None:
                    following = cut
                    break
            if start is None:
                break
        return {"name": name, "messages": rows.rows, "next": following}

    async def connection_close(self, arguments: Options, asker: Asker) -> Any:
        """End connections with a word to each: one by its number, or all of a user but the one that asks."""
        own = asker.number
        number, user = arguments.get("id"), arguments.get("user")
        reason = string_of(arguments, "reason") if arguments.get("reason") is not None else ""
        if len(reason) > MOST_REASON:
            raise LocalProtocolError(f"a reason of {len(reason)} characters exceeds {MOST_REASON}: say it shorter")
        if (number is None) == (user is None):
            raise LocalProtocolError("say which connection to close: give either the argument id or the argument user")
        if number is not None:
            number = number_of(arguments, "id", least=0)
            if number == own:
                raise LocalProtocolError(f"connection {number} is the one that asks: end it where it is")
            if number not in self._of.connections:
                raise ConnectionNotFoundError(number)
            meant = [number]
        else:
            user = string_of(arguments, "user")
            found = list(self._of.connections.items())
            meant = [each for each, connection in found if each != own and listings.user_of(connection) == user]
        text = "an administrator has closed this connection" + (f": {reason}" if reason else "")
        closed = 0
        for start in range(0, len(meant), listings.SLICE):
            for each in meant[start : start + listings.SLICE]:
                connection = self._of.connections.get(each)
                if connection is not None:
                    peer = None if connection.connection is None else connection.connection.peer
                    logger.info("connection %d from %s is closed by an administrator", each, peer)
                    connection.refused("closed", text)
                    closed += 1
            await asyncio.sleep(0)
        return {"closed": closed}

    async def subscription_release(self, arguments: Options) -> Any:
        """Take a subscription's reservations from it."""
        queue, name = string_of(arguments, "queue"), string_of(arguments, "name")
        force = flag_of(arguments, "force", False)
        return {
            "queue": queue,
            "name": name,
            "released": await self._ask(queue, ReleaseSubscription(name, force=force)),
        }

    async def subscription_delete(self, arguments: Options) -> Any:
        """Forget a subscription."""
        queue, name = string_of(arguments, "queue"), string_of(arguments, "name")
        released = await self._ask(queue, ReleaseSubscription(name, delete=True))
        return {"queue": queue, "name": name, "released": released}

    async def transaction_abort(self, arguments: Options) -> Any:
        """Discard what a writer's version has staged."""
        writer = check_name(string_of(arguments, "writer"), "writer")
        version = number_of(arguments, "version", least=0)
        async with asyncio.timeout(ANSWER_TIMEOUT):
            discarded = await self._of.queues.transactions.abort(writer, version)
        return {"writer": writer, "version": version, "discarded": discarded}

    async def journal_backup(self, _arguments: Options, asker: Asker) -> Any:
        """Hold the journal still for whoever asks; what there is to read."""
        return await self.backups.begin(asker)

    async def journal_read(self, arguments: Options, asker: Asker) -> bytes:
        """A piece of a file, as it is."""
        name, size = string_of(arguments, "name"), number_of(arguments, "bytes")
        return await self.backups.read(asker, name, number_of(arguments, "offset", least=0), size)

    async def journal_release(self, _arguments: Options, asker: Asker) -> Any:
        """The backup is read, or not wanted any more."""
        return {"released": self.backups.release(asker)}

    def view(self) -> View:
        """A view of the broker's queues, to be closed; it raises as `View` does."""
        return View(self.sampler, self._of.queues, cast("Any", self._of.connections), self.cluster)

    async def picture(self, arguments: Options) -> Any:
        """What goes on: some of the queues, the totals of all, and of one of them who holds back whom."""
        asked = asked_of(arguments)
        await self.sampler.glance()
        view = self.view()
        try:
            return await view.take(asked)
        finally:
            view.close()

    async def stats(self, arguments: Options) -> bytes:
        """All figures; with ``lists`` false without queues and connections, which have commands of their own."""
        facts = {
            "broker": self._describe(),
            "storage": self._of.queues.storage_statistics(),
            "exchanges": exchange_sums(self.exchanges),
        }
        if self.cluster is not None:
            facts["cluster"] = self.cluster.standing()
        if not flag_of(arguments, "lists", True):
            return _json(facts)
        queues = await listings.whole_list(self._of, listings.queue_rows)
        connections = await listings.whole_list(self._of, listings.connection_rows)
        answer = b"".join((_json(facts)[:-1], b',"queues":', *queues, b',"connections":', *connections, b"}"))
        if len(answer) > MAX_BODY_BYTES:
            raise listings.too_long()
        return answer

    async def durable(self) -> None:
        """The answer says that it is done for good."""
        async with asyncio.timeout(ANSWER_TIMEOUT):
            await self._of.queues.durable()

    async def _ask(self, name: str, message: Any) -> Any:
        queue = self._of.queues.get(name)
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT):
                return await ask(queue, message)
        except ActorDeadError as error:
            if self._of.queues.known(name) is queue:
                raise
            raise QueueGoneError from error


def _check_effect(settings: QueueSettings, said: Collection[str], unless: Callable[[], bool] = bool) -> None:
    """Raise LocalProtocolError where a setting that is said would do nothing, ``unless`` that is as it may be."""
    if (why := of_no_effect(settings, said)) is not None and not unless():
        raise LocalProtocolError(why)


def _goes_on(after: object, numbers: tuple[int, int]) -> int:
    """What an earlier answer gave as ``next``; raises where it did not, or where it was about queues that are no more."""
    try:
        source, target, below = json.loads(str(after))
    except (ValueError, TypeError, RecursionError):
        source = target = below = None
    if not all(type(each) is int and 0 <= each <= MAX_INTEGER for each in (source, target, below)):
        raise RemoteProtocolError(f"the argument after must be what an answer gave as next, not {brief(after)}")
    if (source, target) != numbers:
        raise QueueGoneError
    return cast("int", below)


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def refusal(error: Exception) -> tuple[str, str] | None:
    """Code and text of a command's refusal; None for a defect of ours."""
    if isinstance(error, QueueError | TransportError):
        return error.code, str(error)
    if isinstance(error, StorageError):
        return "journal-failed", f"the broker can store nothing any more and stops: {error}"
    if isinstance(error, TimeoutError):
        return "timeout", f"the queue did not answer within {ANSWER_TIMEOUT:.0f} s"
    return None


def lists(listing: Listing, *kinds: type) -> Handler:
    """The handler of a command that gives a list, or a page of it."""
    return lambda commands, arguments: commands.list_rows(listing, kinds, arguments)
