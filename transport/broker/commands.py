"""The broker's side of administration: each command of docs/protocol.md, section "Administration", and the port of role ``admin``."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from dataclasses import asdict, replace
from typing import Any

from pykka import ActorDeadError

from actors import PurgeQueue, QueueError, ReleaseSubscription, StorageError, ask
from actors.errors import QueueGoneError
from transport.broker import listings
from transport.broker.listings import ANSWER_TIMEOUT, Listed, Listing
from transport.broker.port import Client, Port, Tasks
from transport.errors import LocalProtocolError, RemoteProtocolError, TransportError
from transport.wire.arguments import flag_of, number_of, read_settings, string_of
from transport.wire.frames import MAX_BODY_BYTES
from transport.wire.messages import Command, Error, Frame, Hello, Options, Result
from transport.wire.names import check_name

LONG_AT_ONCE = 2
"""Long answers that are being made at one time: each takes as much memory as a largest frame. Others wait for their turn."""

Handler = Callable[["Commands", Options], Awaitable[Any]]

logger = logging.getLogger("penstock.broker")


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

    async def answer(self, client: Client, frame: Command) -> None:
        """Do what ``frame`` says, tell ``client``, and go on with what it says next."""
        try:
            client.send(Result(frame.request, await self.run(frame.name, frame.arguments)))
        except Exception as error:
            known = refusal(error)
            if known is None:
                logger.error("command %s failed on a defect of ours", frame.name, exc_info=error)
                known = ("internal-error", "the command failed; the broker's log has the reason")
            client.send(Error(*known, close=False))
        finally:
            client.go_on()

    async def run(self, name: str, arguments: Options) -> bytes:
        """The JSON that answers ``name``.

        Raises:
            RemoteProtocolError: an unknown command, or arguments of the wrong type.
            LimitExceededError: the answer does not fit a frame.
            QueueError: the queue's refusal.
        """
        handler = COMMANDS.get(name)
        if handler is None:
            raise RemoteProtocolError(f"the command {name!r:.60} is unknown; there are {', '.join(sorted(COMMANDS))}")
        if name not in LONG_COMMANDS:
            answer = await handler(self, arguments)
        else:
            async with self._long:
                answer = await handler(self, arguments)
        return answer if isinstance(answer, bytes) else _json(answer)

    async def _queue_create(self, arguments: Options) -> Any:
        name = check_name(string_of(arguments, "name"))
        given = read_settings(arguments)
        try:
            settings = replace(self._of.queues.settings, **given)
        except ValueError as error:
            raise LocalProtocolError(str(error)) from error
        self._of.queues.declare(name, settings)
        await self._durable()
        return {"name": name, **asdict(settings)}

    async def _queue_delete(self, arguments: Options) -> Any:
        name = string_of(arguments, "name")
        ended = sum(connection.queue == name for connection in self._of.connections.values())
        self._of.queues.delete(name)
        await self._durable()
        return {"name": name, "connections": ended}

    async def _queue_purge(self, arguments: Options) -> Any:
        name = string_of(arguments, "name")
        return {"name": name, "purged": await self._ask(name, PurgeQueue())}

    async def _subscription_release(self, arguments: Options) -> Any:
        queue, name = string_of(arguments, "queue"), string_of(arguments, "name")
        return {"queue": queue, "name": name, "released": await self._ask(queue, ReleaseSubscription(name))}

    async def _subscription_delete(self, arguments: Options) -> Any:
        queue, name = string_of(arguments, "queue"), string_of(arguments, "name")
        released = await self._ask(queue, ReleaseSubscription(name, delete=True))
        return {"queue": queue, "name": name, "released": released}

    async def _transaction_abort(self, arguments: Options) -> Any:
        writer = check_name(string_of(arguments, "writer"), "writer")
        version = number_of(arguments, "version", least=0)
        async with asyncio.timeout(ANSWER_TIMEOUT):
            discarded = await self._of.queues.transactions.abort(writer, version)
        return {"writer": writer, "version": version, "discarded": discarded}

    async def _stats(self, arguments: Options) -> bytes:
        """All figures; with ``lists`` false without queues and connections, which have commands of their own."""
        facts = {
            "broker": self._describe(),
            "storage": self._of.queues.storage_statistics(),
        }
        if not flag_of(arguments, "lists", True):
            return _json(facts)
        queues = await listings.whole_list(self._of, listings.queue_rows)
        connections = await listings.whole_list(self._of, listings.connection_rows)
        answer = _json(facts)[:-1] + b',"queues":' + queues + b',"connections":' + connections + b"}"
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


def _list(listing: Listing, *kinds: type) -> Handler:
    return lambda commands, arguments: listings.answer_list(commands._of, listing, kinds, arguments)


COMMANDS: dict[str, Handler] = {
    "queue.list": _list(listings.queue_rows, str),
    "queue.create": Commands._queue_create,
    "queue.delete": Commands._queue_delete,
    "queue.purge": Commands._queue_purge,
    "subscription.list": _list(listings.subscription_rows, str, str),
    "subscription.release": Commands._subscription_release,
    "subscription.delete": Commands._subscription_delete,
    "transaction.list": _list(listings.transaction_rows, str, int),
    "transaction.abort": Commands._transaction_abort,
    "connection.list": _list(listings.connection_rows, int),
    "stats": Commands._stats,
}
LONG_COMMANDS = frozenset({"queue.list", "subscription.list", "transaction.list", "connection.list", "stats"})
"""Those whose answer grows with what the broker has."""


class AdministrationPort(Port):
    """Role ``admin``: commands are the broker's own business, there is no actor."""

    def __init__(self, commands: Commands, tasks: Tasks, client: Client, _hello: Hello) -> None:
        super().__init__(client)
        self._commands = commands
        self._tasks = tasks
        self._answering: asyncio.Task[None] | None = None
        client.welcome({})

    def received(self, frame: Frame) -> None:
        """COMMAND: the next is not looked at before this one is answered."""
        assert isinstance(frame, Command), "the protocol allows no other"
        self._client.hold()
        task = self._tasks.start(self._commands.answer(self._client, frame), f"command {frame.name:.40}")
        self._answering = task if frame.name in LONG_COMMANDS else None

    def ended(self) -> None:
        """Nobody waits for a long answer any more; whatever else was asked for is done."""
        if self._answering is not None:
            self._answering.cancel()
