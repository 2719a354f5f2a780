"""The broker's side of administration: each command of docs/protocol.md, section "Administration", in one function."""

from __future__ import annotations

import asyncio
import os
import resource
import sys
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from actors import GetStatistics, PurgeQueue, QueueError, QueueSettings, ReleaseSubscription, ask
from transport.errors import LocalProtocolError, RemoteProtocolError, TransportError
from transport.names import check_name
from transport.wire import Options, brief

if TYPE_CHECKING:
    from transport.broker import Broker

ANSWER_TIMEOUT = 5.0
"""Seconds that a queue has to answer; it answers in a turn of the loop or not at all."""

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
    name = check_name(_string(arguments, "name"))
    default = broker.queues.settings
    timeout_ms = _number(arguments, "visibility_timeout_ms")
    messages, size = _number(arguments, "max_messages"), _number(arguments, "max_bytes")
    try:
        settings = QueueSettings(
            default.max_messages if messages is None else messages,
            default.max_bytes if size is None else size,
            default.visibility_timeout if timeout_ms is None else timeout_ms / 1000,
        )
    except ValueError as error:
        raise LocalProtocolError(str(error)) from error
    broker.queues.declare(name, settings)
    return {"name": name, **asdict(settings)}


async def _queue_delete(broker: Broker, arguments: Options) -> Any:
    name = _string(arguments, "name")
    broker.queues.delete(name)
    return {"name": name}


async def _queue_purge(broker: Broker, arguments: Options) -> Any:
    name = _string(arguments, "name")
    return {"name": name, "purged": await _ask(broker.queues.get(name), PurgeQueue())}


async def _subscription_list(broker: Broker, arguments: Options) -> Any:  # noqa: ARG001 - every command's signature
    rows: list[dict[str, Any]] = []
    for name, queue in broker.queues.items():
        statistics = await _ask(queue, GetStatistics())
        rows += [{"queue": name, **asdict(subscription)} for subscription in statistics.subscriptions]
    return rows


async def _subscription_release(broker: Broker, arguments: Options) -> Any:
    queue, name = _string(arguments, "queue"), _string(arguments, "name")
    return {"queue": queue, "name": name, "released": await _ask(broker.queues.get(queue), ReleaseSubscription(name))}


async def _stats(broker: Broker, arguments: Options) -> Any:  # noqa: ARG001 - every command's signature
    return {
        "broker": {
            "version": broker.version,
            "epoch": broker.epoch,
            "uptime_s": round(broker.uptime, 3),
            "rss_bytes": resident_bytes(),
            "connections": len(broker.connections),
        },
        "queues": await _queues(broker),
        "connections": await _connections(broker),
    }


async def _queues(broker: Broker) -> list[dict[str, Any]]:
    roles: dict[tuple[str | None, str | None], int] = {}
    for connection in broker.connections.values():
        roles[connection.queue, connection.role] = roles.get((connection.queue, connection.role), 0) + 1
    rows: list[dict[str, Any]] = []
    for name, queue in broker.queues.items():
        statistics = await _ask(queue, GetStatistics())
        settings = broker.queues.settings_of(name)
        row = {
            field: getattr(statistics, field)
            for field in (
                "ready",
                "in_flight",
                "reserved",
                "delayed",
                "demand_waiting",
                "capacity_granted",
                "stored_bytes",
                "total_in",
                "total_out",
                "total_acknowledged",
                "total_redelivered",
                "oldest_ms",
            )
        }
        rows.append(
            {"name": name, **row}
            | {"max_messages": settings.max_messages, "max_bytes": settings.max_bytes}
            | {
                "senders": roles.get((name, "sender"), 0),
                "receivers": roles.get((name, "receiver"), 0),
                "subscriptions": len(statistics.subscriptions),
            }
        )
    return rows


async def _connections(broker: Broker) -> list[dict[str, Any]]:
    load: dict[Any, Any] = {}
    for queue in broker.queues.values():
        statistics = await _ask(queue, GetStatistics())
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


def resident_bytes() -> int:
    """This process's resident memory, bytes; its peak where the platform tells no more."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024


async def _ask(queue: Any, message: Any) -> Any:
    async with asyncio.timeout(ANSWER_TIMEOUT):
        return await ask(queue, message)


def _string(arguments: Options, name: str) -> str:
    value = arguments.get(name)
    if not isinstance(value, str):
        raise RemoteProtocolError(f"the argument {name} must be a string, not {brief(value)}")
    return value


def _number(arguments: Options, name: str) -> int | None:
    value = arguments.get(name)
    if value is not None and (type(value) is not int or value < 1):
        raise RemoteProtocolError(f"the argument {name} must be a number above zero, not {brief(value)}")
    return value


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
    "stats": _stats,
}
