"""What the commands on schedules do; docs/protocol.md, section "Administration"."""

from __future__ import annotations

import base64
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from actors.scheduling.errors import ScheduleNotFoundError
from actors.scheduling.expressions import UTC_ZONE
from actors.scheduling.schedule import SKIP, Schedule, instant_text
from transport.broker.exchange_commands import table_of
from transport.errors import RemoteProtocolError
from transport.wire.arguments import bytes_of, flag_of, number_of, string_of
from transport.wire.messages import Options, brief
from transport.wire.names import check_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.queue.scheduled import Scheduled
    from transport.broker.commands import Commands
    from transport.broker.listings import Key, Listed, Rows

CREATES: Final = (
    "name",
    "expression",
    "zone",
    "queue",
    "exchange",
    "routing_key",
    "payload",
    "headers",
    "key",
    "ttl_ms",
    "missed",
    "replace",
    "priority",
)
"""The arguments of ``schedule.create``."""


async def schedule_list(commands: Commands, arguments: Options) -> bytes:
    """Every schedule, or the one of a name; not what its messages hold."""
    only = None if arguments.get("name") is None else string_of(arguments, "name")
    return await commands.list_rows(partial(schedule_rows, only=only), (str,), arguments)


async def schedule_show(commands: Commands, arguments: Options) -> Any:
    """A schedule with all that was said of it."""
    there = commands.schedules.get(string_of(arguments, "name"))
    schedule = there.schedule
    headers = {name: value if isinstance(value, str) else value.hex() for name, value in schedule.headers}
    return row_of(there) | {"payload": base64.b64encode(schedule.payload).decode(), "headers": headers}


async def schedule_create(commands: Commands, arguments: Options) -> Any:
    """A schedule is to be there."""
    schedule = _schedule_of(arguments)
    changed = commands.schedules.declare(schedule, replaces=flag_of(arguments, "replace", False))
    there = commands.schedules.get(schedule.name)
    # What it found may have been made just before. Somebody may delete it meanwhile.
    await commands.durable()
    return row_of(there) | {"changed": changed}


async def schedule_delete(commands: Commands, arguments: Options) -> Any:
    """A schedule is to be gone."""
    name = string_of(arguments, "name")
    commands.schedules.delete(name)
    await commands.durable()
    return {"name": name}


async def schedule_pause(commands: Commands, arguments: Options) -> Any:
    """Nothing is to come of a schedule until it is resumed."""
    return await _changed(commands, arguments, commands.schedules.pause)


async def schedule_resume(commands: Commands, arguments: Options) -> Any:
    """A schedule is to go on."""
    return await _changed(commands, arguments, commands.schedules.resume)


async def _changed(commands: Commands, arguments: Options, change: Callable[[str], bool]) -> Any:
    """Have a schedule be changed; answered when that is durable."""
    name = string_of(arguments, "name")
    changed = change(name)
    await commands.durable()
    return {"name": name, "changed": changed}


async def schedule_rows(of: Listed, after: Key | None, only: str | None = None) -> Rows:
    """Every schedule by name, or the one called ``only``."""
    directory = of.schedules
    for name in directory:
        if (only is None or name == only) and (after is None or name > after[0]):
            try:
                there = directory.get(name)
            except ScheduleNotFoundError:
                continue  # gone meanwhile
            yield (name,), row_of(there)


def row_of(there: Scheduled) -> dict[str, Any]:
    """What is told of a schedule to whoever may look at the broker."""
    schedule, progress, upcoming = there.schedule, there.progress, there.next_time()
    return {
        "name": schedule.name,
        "expression": schedule.expression,
        "zone": schedule.zone,
        "queue": schedule.queue,
        "exchange": schedule.exchange,
        "routing_key": schedule.routing_key,
        "key": schedule.key,
        "ttl_ms": None if schedule.ttl is None else round(schedule.ttl * 1000),
        "priority": schedule.priority,
        "missed": schedule.missed,
        "payload_bytes": len(schedule.payload),
        "paused": schedule.paused,
        "state": there.state,
        "next": None if upcoming is None else instant_text(upcoming),
        "waiting": instant_text(progress.waiting) if progress.waiting else None,
        "times_fired": progress.fired,
        "times_missed": progress.missed,
        "times_failed": progress.failed,
        "error": there.error,
    }


def destination_of(arguments: Options) -> str | None:
    """The queue or the exchange that ``schedule.create`` names; None where it names none."""
    for name in ("queue", "exchange"):
        if arguments.get(name) is not None:
            return string_of(arguments, name)
    return None


def _schedule_of(arguments: Options) -> Schedule:
    """The schedule that ``schedule.create`` says; raises RemoteProtocolError, InvalidNameError."""
    ttl = None if arguments.get("ttl_ms") is None else number_of(arguments, "ttl_ms", 0) / 1000
    headers = table_of(arguments, "headers") or {}
    for name, value in headers.items():
        if not isinstance(value, str):
            raise RemoteProtocolError(f"the header {name!r:.60} must be a string, not {brief(value)}")
    queue, exchange = _text(arguments, "queue"), _text(arguments, "exchange")
    return Schedule(
        check_name(string_of(arguments, "name"), "schedule"),
        string_of(arguments, "expression"),
        _text(arguments, "zone") or UTC_ZONE,
        queue if queue is None else check_name(queue),
        exchange if not exchange else check_name(exchange, "exchange"),
        _text(arguments, "routing_key") or "",
        bytes_of(arguments, "payload"),
        tuple(headers.items()),
        _text(arguments, "key") or "",
        ttl,
        _text(arguments, "missed") or SKIP,
        priority=0 if arguments.get("priority") is None else number_of(arguments, "priority", 0),
    )


def _text(arguments: Options, name: str) -> str | None:
    return None if arguments.get(name) is None else string_of(arguments, name)
