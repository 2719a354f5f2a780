"""The broker's side of administration: each command of docs/protocol.md, section "Administration", in one function."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from pykka import ActorDeadError

from actors import PurgeQueue, QueueError, ReleaseSubscription, StorageError, ask
from actors.errors import QueueGoneError
from transport.broker.listings import (
    ANSWER_TIMEOUT,
    Listing,
    answer_list,
    connection_rows,
    queue_rows,
    subscription_rows,
    too_long,
    transaction_rows,
    whole_list,
)
from transport.broker.memory import resident_bytes
from transport.errors import LocalProtocolError, RemoteProtocolError, TransportError
from transport.wire.arguments import number_of, read_settings, string_of
from transport.wire.frames import MAX_BODY_BYTES
from transport.wire.messages import Options, brief
from transport.wire.names import check_name

if TYPE_CHECKING:
    from transport.broker.broker import Broker

LONG_AT_ONCE = 2
"""Long answers that are being made at one time: each takes as much memory as a largest frame. Others wait for their turn."""

Handler = Callable[["Broker", Options], Awaitable[Any]]


async def run_command(broker: Broker, name: str, arguments: Options) -> bytes:
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
        answer = await handler(broker, arguments)
    else:
        async with broker.long_commands:
            answer = await handler(broker, arguments)
    return answer if isinstance(answer, bytes) else _json(answer)


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


async def _queue_create(broker: Broker, arguments: Options) -> Any:
    given = read_settings(arguments)
    name = check_name(string_of(arguments, "name"))
    try:
        settings = replace(broker.queues.settings, **given)
    except ValueError as error:
        raise LocalProtocolError(str(error)) from error
    broker.queues.declare(name, settings)
    await _durable(broker)
    return {"name": name, **asdict(settings)}


async def _queue_delete(broker: Broker, arguments: Options) -> Any:
    name = string_of(arguments, "name")
    ended = sum(connection.queue == name for connection in broker.connections.values())
    broker.queues.delete(name)
    await _durable(broker)
    return {"name": name, "connections": ended}


async def _queue_purge(broker: Broker, arguments: Options) -> Any:
    name = string_of(arguments, "name")
    return {"name": name, "purged": await _ask(broker, name, PurgeQueue())}


async def _subscription_release(broker: Broker, arguments: Options) -> Any:
    queue, name = string_of(arguments, "queue"), string_of(arguments, "name")
    return {"queue": queue, "name": name, "released": await _ask(broker, queue, ReleaseSubscription(name))}


async def _subscription_delete(broker: Broker, arguments: Options) -> Any:
    queue, name = string_of(arguments, "queue"), string_of(arguments, "name")
    released = await _ask(broker, queue, ReleaseSubscription(name, delete=True))
    return {"queue": queue, "name": name, "released": released}


async def _transaction_abort(broker: Broker, arguments: Options) -> Any:
    writer = check_name(string_of(arguments, "writer"), "writer")
    version = number_of(arguments, "version", least=0)
    async with asyncio.timeout(ANSWER_TIMEOUT):
        discarded = await broker.queues.transactions.abort(writer, version)
    return {"writer": writer, "version": version, "discarded": discarded}


async def _stats(broker: Broker, arguments: Options) -> bytes:
    """All figures; with ``lists`` false without queues and connections, which have commands of their own."""
    lists = arguments.get("lists", True)
    if not isinstance(lists, bool):
        raise RemoteProtocolError(f"the argument lists must be true or false, not {brief(lists)}")
    facts = {
        "broker": {
            "version": broker.version,
            "epoch": broker.epoch,
            "uptime_s": round(broker.uptime, 3),
            "rss_bytes": resident_bytes(),
            "connections": len(broker.connections),
            **broker.watermarks.statistics(),
        },
        "storage": broker.queues.storage_statistics(),
    }
    if not lists:
        return _json(facts)
    queues = await whole_list(broker, queue_rows)
    connections = await whole_list(broker, connection_rows)
    answer = _json(facts)[:-1] + b',"queues":' + queues + b',"connections":' + connections + b"}"
    if len(answer) > MAX_BODY_BYTES:
        raise too_long()
    return answer


async def _durable(broker: Broker) -> None:
    """The answer says that it is done for good."""
    async with asyncio.timeout(ANSWER_TIMEOUT):
        await broker.queues.durable()


async def _ask(broker: Broker, name: str, message: Any) -> Any:
    queue = broker.queues.get(name)
    try:
        async with asyncio.timeout(ANSWER_TIMEOUT):
            return await ask(queue, message)
    except ActorDeadError as error:
        if broker.queues.known(name) is queue:
            raise
        raise QueueGoneError from error


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
    return lambda broker, arguments: answer_list(broker, listing, kinds, arguments)


COMMANDS: dict[str, Handler] = {
    "queue.list": _list(queue_rows, str),
    "queue.create": _queue_create,
    "queue.delete": _queue_delete,
    "queue.purge": _queue_purge,
    "subscription.list": _list(subscription_rows, str, str),
    "subscription.release": _subscription_release,
    "subscription.delete": _subscription_delete,
    "transaction.list": _list(transaction_rows, str, int),
    "transaction.abort": _transaction_abort,
    "connection.list": _list(connection_rows, int),
    "stats": _stats,
}
LONG_COMMANDS = frozenset({"queue.list", "subscription.list", "transaction.list", "connection.list", "stats"})
"""Those whose answer grows with what the broker has."""
