"""The broker's side of administration: each command of docs/protocol.md, section "Administration", in one function."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import asdict, fields, replace
from typing import TYPE_CHECKING, Any

from pykka import ActorDeadError

from actors import GetStatistics, InboxOverflowError, PurgeQueue, QueueError, ReleaseSubscription, ask
from transport.errors import LocalProtocolError, RemoteProtocolError, TransportError
from transport.field_checks import MAX_INTEGER
from transport.memory import resident_bytes
from transport.names import check_name
from transport.wire import Options, brief

if TYPE_CHECKING:
    from actors.queue_state import QueueStatistics
    from transport.broker import Broker

ANSWER_TIMEOUT = 5.0
"""Seconds that a queue has to answer; it answers in a turn of the loop or not at all."""

FAILED: dict[type[Exception], str] = {
    ActorDeadError: "the queue failed for good, and is started anew when a client asks for it",
    TimeoutError: f"no answer within {ANSWER_TIMEOUT:.0f} s",
}
"""What is said of a queue that does not answer."""

Handler = Callable[["Broker", Options], Awaitable[Any]]


async def run_command(broker: Broker, name: str, arguments: Options) -> Any:
    """The JSON value that answers ``name``.

    Raises:
        RemoteProtocolError: an unknown command, or arguments of the wrong type.
        QueueError: the queue's refusal.
    """
    handler = COMMANDS.get(name)
    if handler is None:
        raise RemoteProtocolError(f"the command {name!r:.60} is unknown; there are {', '.join(sorted(COMMANDS))}")
    return await handler(broker, arguments)


async def _queue_list(broker: Broker, arguments: Options) -> Any:  # noqa: ARG001 - every command's signature
    return await _queues(broker)


async def _queue_create(broker: Broker, arguments: Options) -> Any:
    # An argument that is not understood would leave a queue other than it was asked for.
    unknown = sorted(str(key) for key in arguments.keys() - QUEUE_ARGUMENTS.keys() - {"name"})
    if unknown:
        raise RemoteProtocolError(
            f"the argument {unknown[0]!r:.60} is unknown; there are {', '.join(('name', *QUEUE_ARGUMENTS))}"
        )
    name = check_name(_string(arguments, "name"))
    given = {
        field: read(arguments, key) for key, (field, read) in QUEUE_ARGUMENTS.items() if arguments.get(key) is not None
    }
    if given.get("dead_letter_queue") is not None:
        check_name(given["dead_letter_queue"], "dead-letter queue")
    try:
        settings = replace(broker.queues.settings, **given)
    except ValueError as error:
        raise LocalProtocolError(str(error)) from error
    broker.queues.declare(name, settings)
    await _durable(broker)
    return {"name": name, **asdict(settings)}


async def _queue_delete(broker: Broker, arguments: Options) -> Any:
    name = _string(arguments, "name")
    broker.queues.delete(name)
    await _durable(broker)
    return {"name": name}


async def _queue_purge(broker: Broker, arguments: Options) -> Any:
    name = _string(arguments, "name")
    return {"name": name, "purged": await _ask(broker.queues.get(name), PurgeQueue())}


async def _subscription_list(broker: Broker, arguments: Options) -> Any:  # noqa: ARG001 - every command's signature
    rows: list[dict[str, Any]] = []
    for name, statistics in await _asked(broker):
        if not isinstance(statistics, str):
            rows += [{"queue": name, **asdict(subscription)} for subscription in statistics.subscriptions]
    return rows


async def _subscription_release(broker: Broker, arguments: Options) -> Any:
    queue, name = _string(arguments, "queue"), _string(arguments, "name")
    return {"queue": queue, "name": name, "released": await _ask(broker.queues.get(queue), ReleaseSubscription(name))}


async def _subscription_delete(broker: Broker, arguments: Options) -> Any:
    queue, name = _string(arguments, "queue"), _string(arguments, "name")
    released = await _ask(broker.queues.get(queue), ReleaseSubscription(name, delete=True))
    return {"queue": queue, "name": name, "released": released}


async def _transaction_list(broker: Broker, arguments: Options) -> Any:  # noqa: ARG001 - every command's signature
    return [transaction._asdict() for transaction in broker.queues.transactions.list()]


async def _transaction_abort(broker: Broker, arguments: Options) -> Any:
    writer = check_name(_string(arguments, "writer"), "writer")
    version = _number(arguments, "version", least=0)
    async with asyncio.timeout(ANSWER_TIMEOUT):
        discarded = await broker.queues.transactions.abort(writer, version)
    return {"writer": writer, "version": version, "discarded": discarded}


async def _stats(broker: Broker, arguments: Options) -> Any:  # noqa: ARG001 - every command's signature
    return {
        "broker": {
            "version": broker.version,
            "epoch": broker.epoch,
            "uptime_s": round(broker.uptime, 3),
            "rss_bytes": resident_bytes(),
            "connections": len(broker.connections),
            **broker.watermarks.statistics(),
        },
        "storage": broker.queues.storage_statistics(),
        "queues": await _queues(broker),
        "connections": await _connections(broker),
    }


async def _queues(broker: Broker) -> list[dict[str, Any]]:
    roles: dict[tuple[str | None, str | None], int] = {}
    for connection in broker.connections.values():
        roles[connection.queue, connection.role] = roles.get((connection.queue, connection.role), 0) + 1
    rows: list[dict[str, Any]] = []
    for name, statistics in await _asked(broker):
        settings = broker.queues.settings_of(name)
        if isinstance(statistics, str):
            rows.append({"name": name, "failed": statistics} | asdict(settings))
            continue
        figures = {field.name: getattr(statistics, field.name) for field in fields(statistics)}
        row = {key: figure for key, figure in figures.items() if isinstance(figure, int)}
        rows.append(
            {"name": name, **row}
            | asdict(settings)
            | {
                "senders": roles.get((name, "sender"), 0),
                "receivers": roles.get((name, "receiver"), 0),
                "subscriptions": len(statistics.subscriptions),
            }
        )
    return rows


async def _connections(broker: Broker) -> list[dict[str, Any]]:
    load: dict[Any, Any] = {}
    for _, statistics in await _asked(broker):
        if isinstance(statistics, str):
            continue
        load |= {facts.connection: facts for facts in statistics.connections}
    rows = []
    for connection in broker.connections.values():
        facts = load.get(connection.actor)
        wire = connection.connection
        rows.append(
            {
                "id": connection.number,
                "role": connection.role,
                "queue": connection.queue,
                "client_id": connection.client_id,
                "peer": wire.peer if wire is not None else None,
                "demand": facts.demand if facts is not None else 0,
                "in_flight": facts.in_flight if facts is not None else 0,
                "connected_s": round(broker.now() - connection.opened_at, 3),
                "bytes_in": wire.bytes_in if wire is not None else 0,
                "bytes_out": wire.bytes_out if wire is not None else 0,
            }
        )
    return rows


async def _asked(broker: Broker) -> list[tuple[str, QueueStatistics | str]]:
    """The figures of each queue by name, or why it has none to give: one that failed must not hide the others."""
    answers: list[tuple[str, QueueStatistics | str]] = []
    for name, queue in broker.queues.items():
        try:
            answers.append((name, await _ask(queue, GetStatistics())))
        except (ActorDeadError, InboxOverflowError, TimeoutError) as error:
            if name in broker.queues:
                answers.append((name, FAILED.get(type(error), str(error))))
    return answers


async def _durable(broker: Broker) -> None:
    """The answer says that it is done for good."""
    async with asyncio.timeout(ANSWER_TIMEOUT):
        await broker.queues.durable()


async def _ask(queue: Any, message: Any) -> Any:
    async with asyncio.timeout(ANSWER_TIMEOUT):
        return await ask(queue, message)


def _string(arguments: Options, name: str) -> str:
    value = arguments.get(name)
    if not isinstance(value, str):
        raise RemoteProtocolError(f"the argument {name} must be a string, not {brief(value)}")
    return value


def _flag(arguments: Options, name: str) -> bool:
    value = arguments[name]
    if not isinstance(value, bool):
        raise RemoteProtocolError(f"the argument {name} must be true or false, not {brief(value)}")
    return value


def _number(arguments: Options, name: str, least: int = 1) -> int:
    value = arguments.get(name)
    if type(value) is not int or not least <= value <= MAX_INTEGER:
        above = "a whole number above zero" if least else "a whole number of zero or more"
        beyond = f" (at most {MAX_INTEGER})" if type(value) is int and value > 0 else ""
        raise RemoteProtocolError(f"the argument {name} must be {above}, not {brief(value)}{beyond}")
    return value


def _number_or_never(arguments: Options, name: str) -> int | None:
    return _number(arguments, name, least=0) or None


def _seconds(arguments: Options, name: str) -> float:
    return _number(arguments, name, least=0) / 1000


def _seconds_or_never(arguments: Options, name: str) -> float | None:
    return _seconds(arguments, name) or None


def _name_or_own(arguments: Options, name: str) -> str | None:
    return _string(arguments, name) or None


QUEUE_ARGUMENTS: dict[str, tuple[str, Callable[[Options, str], Any]]] = {
    "max_messages": ("max_messages", _number),
    "max_bytes": ("max_bytes", _number),
    "visibility_timeout_ms": ("visibility_timeout", _seconds),
    "overflow": ("overflow", _string),
    "max_receives": ("max_receives", _number_or_never),
    "dead_letter_queue": ("dead_letter_queue", _name_or_own),
    "delay_ms": ("delay", _seconds),
    "ttl_ms": ("ttl", _seconds_or_never),
    "exclusive": ("exclusive", _flag),
    "max_staged_messages": ("max_staged_messages", _number),
    "max_staged_bytes": ("max_staged_bytes", _number),
}
"""What ``queue.create`` takes beside the name: the field of `QueueSettings` and how it is read. What is left out, or null, is the
broker's setting; 0 receives or milliseconds to live mean never, and an empty dead-letter queue the queue's own."""


def refusal(error: Exception) -> tuple[str, str] | None:
    """Code and text of a command's refusal; None for a defect of ours."""
    if isinstance(error, QueueError | TransportError):
        return error.code, str(error)
    if isinstance(error, TimeoutError):
        return "timeout", f"the queue did not answer within {ANSWER_TIMEOUT:.0f} s"
    return None


COMMANDS: dict[str, Handler] = {
    "queue.list": _queue_list,
    "queue.create": _queue_create,
    "queue.delete": _queue_delete,
    "queue.purge": _queue_purge,
    "subscription.list": _subscription_list,
    "subscription.release": _subscription_release,
    "subscription.delete": _subscription_delete,
    "transaction.list": _transaction_list,
    "transaction.abort": _transaction_abort,
    "stats": _stats,
}
