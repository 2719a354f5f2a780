"""What the commands of docs/protocol.md, section "Administration", do. Who may have them done is said in `OPERATIONS`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import asdict, replace
from typing import Any

from pykka import ActorDeadError

from actors import PurgeQueue, QueueError, ReleaseSubscription, StorageError, ask
from actors.errors import QueueGoneError
from transport.broker import listings
from transport.broker.listings import ANSWER_TIMEOUT, Listed, Listing
from transport.errors import LocalProtocolError, TransportError
from transport.wire.arguments import flag_of, number_of, read_settings, string_of
from transport.wire.frames import MAX_BODY_BYTES
from transport.wire.messages import Options
from transport.wire.names import check_name

LONG_AT_ONCE = 2
"""Long answers that are being made at one time: each takes as much memory as a largest frame. Others wait for their turn."""

Handler = Callable[["Commands", Options], Awaitable[Any]]


class Commands:
    """What administrators can have a broker do.

    Args:
        of: its queues and connections.
        describe: its own figures.
    """

    def __init__(self, of: Listed, describe: Callable[[], dict[str, Any]]) -> None:
        self._of = of
        self._describe = describe
        # Who may make a long answer now; the others wait.
        self._long = asyncio.Semaphore(LONG_AT_ONCE)

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

    async def queue_create(self, arguments: Options) -> Any:
        """Make a queue; one that is there must have the same settings."""
        name = check_name(string_of(arguments, "name"))
        given = read_settings(arguments)
        try:
            settings = replace(self._of.queues.settings, **given)
        except ValueError as error:
            raise LocalProtocolError(str(error)) from error
        self._of.queues.declare(name, settings)
        await self._durable()
        return {"name": name, **asdict(settings)}

    async def queue_alter(self, arguments: Options) -> Any:
        """Give a queue that lives other settings; those that are not given stay."""
        name = string_of(arguments, "name")
        given = read_settings(arguments)
        if not given:
            raise LocalProtocolError(f"nothing is to be altered of queue {name!r:.255}: give a setting")
        try:
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
        await self._durable()
        return {"name": name, "connections": ended}

    async def queue_purge(self, arguments: Options) -> Any:
        """Drop the messages that wait."""
        name = string_of(arguments, "name")
        return {"name": name, "purged": await self._ask(name, PurgeQueue())}

    async def subscription_release(self, arguments: Options) -> Any:
        """Take a subscription's reservations from it."""
        queue, name = string_of(arguments, "queue"), string_of(arguments, "name")
        return {"queue": queue, "name": name, "released": await self._ask(queue, ReleaseSubscription(name))}

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

    async def stats(self, arguments: Options) -> bytes:
        """All figures; with ``lists`` false without queues and connections, which have commands of their own."""
        facts = {
            "broker": self._describe(),
            "storage": self._of.queues.storage_statistics(),
        }
        if not flag_of(arguments, "lists", True):
            return _json(facts)
        queues = await listings.whole_list(self._of, listings.queue_rows)
        connections = await listings.whole_list(self._of, listings.connection_rows)
        answer = b"".join((_json(facts)[:-1], b',"queues":', *queues, b',"connections":', *connections, b"}"))
        if len(answer) > MAX_BODY_BYTES:
            raise listings.too_long()
        return answer

    async def _durable(self) -> None:
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
    return lambda commands, arguments: listings.answer_list(commands._of, listing, kinds, arguments)
