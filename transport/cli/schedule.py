"""``penstock schedule``: messages that the broker stores at times of its own."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from actors.limits import MAX_PRIORITY
from transport.cli import _written as written
from transport.cli._administering import admin_command
from transport.cli._exchange_options import (
    check_destination,
    check_or_default,
    check_pairs,
    check_text,
    one_of,
    shown_exchange,
    table_of,
)
from transport.cli._looking import AsJson, Watch, Wide, present
from transport.cli._options import checked_name, time_option
from transport.cli._publishing import check_routing_key
from transport.cli._run import tell
from transport.cli._tables import Column, cell, facts_table, put, table
from transport.cli.exit_codes import EXIT_USAGE

if TYPE_CHECKING:
    from transport.clients.administration import Administration, Facts

app = typer.Typer(
    no_args_is_help=True, help="Have messages stored at times: declare, list, pause and remove schedules."
)

MISSED: Final = ("skip", "once", "all")
MOST_NEXT: Final = 1_000
YEARS: Final = (1970, 2999)
"""Of which the next times can be asked for."""
SHORT: tuple[Column, ...] = (
    ("name", "name"),
    ("expression", "when"),
    ("to", "to"),
    ("state", "state"),
    ("next", "next"),
    ("times_fired", "fired", written.count),
    ("times_missed", "missed", written.count),
    ("times_failed", "failed", written.count),
)
WIDE: tuple[Column, ...] = (
    *SHORT[:2],
    ("zone", "zone"),
    *SHORT[2:5],
    ("waiting", "waiting"),
    *SHORT[5:],
    ("missed", "if missed"),
    ("payload_bytes", "size", written.size),
    ("error", "error"),
)


def check_schedule(text: str) -> str:
    """Typer callback: ``text`` when it can name a schedule."""
    return checked_name(text, "schedule")


ScheduleName = Annotated[str, typer.Argument(metavar="SCHEDULE", help="The schedule's name.", callback=check_schedule)]
Expression = Annotated[
    str,
    typer.Argument(
        metavar="WHEN",
        help="A cron expression ('0 8 * * MON-FRI'), with seconds first where it has six fields, or an interval ('every 30s').",
        callback=check_text,
    ),
]
Zone = Annotated[
    str, typer.Option("--zone", metavar="ZONE", help="The time zone of a cron expression.", callback=check_text)
]


@app.command("list")
@admin_command("schedule list")
async def list_schedules(
    administration: Administration, wide: Wide = False, as_json: AsJson = False, watch: Watch = None
) -> None:
    """List the schedules: when each is due, where its messages go, and what came of its times."""

    def draw(found: list[Facts], width: int | None) -> list[str]:
        rows = [facts | {"to": _to(facts)} for facts in found]
        lines = [written.counted(len(rows), "schedule"), *table(rows, WIDE if wide else SHORT, width), ""]
        return lines + [f"{cell(row.get('name'))}: {cell(row['error'])}" for row in rows if row.get("error")]

    await present(
        administration,
        lambda client: client.schedules(),
        draw,
        verb="schedule list",
        as_json=as_json,
        wide=wide,
        watch=watch,
    )


@app.command("show")
@admin_command("schedule show")
async def show_schedule(
    administration: Administration, schedule: ScheduleName, as_json: AsJson = False, watch: Watch = None
) -> None:
    """Show one schedule: what it stores and when, and what came of its times."""

    async def look(client: Administration) -> Facts:
        from transport.clients.json_messages import payload_fields  # noqa: PLC0415 - not needed for --help

        facts = await client.schedule(schedule)
        return {name: value for name, value in facts.items() if name != "payload"} | payload_fields(facts["payload"])

    def draw(facts: Facts, _width: int | None) -> list[str]:
        return [f"schedule {cell(facts.get('name'))}", "", *facts_table(_page(facts)), ""]

    await present(administration, look, draw, verb="schedule show", as_json=as_json, watch=watch)


@app.command("add")
@admin_command("schedule add")
async def add_schedule(
    administration: Administration,
    schedule: ScheduleName,
    when: Expression,
    queue: Annotated[
        str | None, typer.Option("--queue", metavar="Q", help="Where its messages go.", callback=check_destination)
    ] = None,
    exchange: Annotated[
        str | None,
        typer.Option("--exchange", metavar="E", help="Publish them to this exchange.", callback=check_or_default),
    ] = None,
    routing_key: Annotated[
        str,
        typer.Option("--routing-key", metavar="K", help="Their routing key.", callback=check_routing_key),
    ] = "",
    payload: Annotated[
        str, typer.Option("--payload", metavar="TEXT", help="What each message holds.", callback=check_text)
    ] = "",
    payload_file: Annotated[
        Path | None, typer.Option("--payload-file", metavar="FILE", help="The same, from a file.")
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option(
            "--header", metavar="NAME=VALUE", help="A header of each message; may be repeated.", callback=check_pairs
        ),
    ] = None,
    key: Annotated[str, typer.Option("--key", metavar="K", help="The key of each message.", callback=check_text)] = "",
    ttl: Annotated[
        float | None, time_option("--ttl", "How long each message is of use.", metavar="TIME", least=0)
    ] = None,
    priority: Annotated[
        int,
        typer.Option(
            "--priority", metavar="N", min=0, max=MAX_PRIORITY, help="Of each message, where its queue has levels."
        ),
    ] = 0,
    zone: Zone = "UTC",
    missed: Annotated[
        str,
        typer.Option(
            "--missed",
            metavar="|".join(MISSED),
            help="What is made up for of times that passed while the broker was down.",
            callback=one_of(MISSED),
        ),
    ] = "skip",
    replace: Annotated[
        bool, typer.Option("--replace", help="Take the place of one that says something else, and begin anew.")
    ] = False,
) -> None:
    """Declare a schedule. One that is there must say the same, or is replaced with --replace."""
    if (queue is None) == (exchange is None):
        tell("schedule add", "give either --queue or --exchange")
        raise typer.Exit(EXIT_USAGE)
    if payload and payload_file is not None:
        tell("schedule add", "give either --payload or --payload-file")
        raise typer.Exit(EXIT_USAGE)
    body = payload.encode() if payload_file is None else payload_file.read_bytes()
    made = await administration.declare_schedule(
        schedule,
        when,
        queue=queue,
        exchange=exchange,
        routing_key=routing_key,
        payload=body,
        headers=table_of(header),
        key=key,
        ttl=ttl,
        priority=priority,
        zone=zone,
        missed=missed,
        replace=replace,
    )
    typer.echo(f"schedule {schedule} {'begins' if made else 'is there already'} at {administration.address}")


@app.command("remove")
@admin_command("schedule remove")
async def remove_schedule(administration: Administration, schedule: ScheduleName) -> None:
    """Delete a schedule. What it has stored stays."""
    await administration.delete_schedule(schedule)
    typer.echo(f"schedule {schedule} removed at {administration.address}")


@app.command("pause")
@admin_command("schedule pause")
async def pause_schedule(administration: Administration, schedule: ScheduleName) -> None:
    """Have nothing come of a schedule until it is resumed."""
    changed = await administration.pause_schedule(schedule)
    typer.echo(f"schedule {schedule} {'paused' if changed else 'is paused already'} at {administration.address}")


@app.command("resume")
@admin_command("schedule resume")
async def resume_schedule(administration: Administration, schedule: ScheduleName) -> None:
    """Have a schedule go on, from the next of its times."""
    changed = await administration.resume_schedule(schedule)
    typer.echo(f"schedule {schedule} {'goes on' if changed else 'is not paused'} at {administration.address}")


@app.command("next")
def show_next(
    when: Expression,
    count: Annotated[int, typer.Option("--count", metavar="N", help="How many times.", min=1, max=MOST_NEXT)] = 5,
    zone: Zone = "UTC",
    after: Annotated[
        str | None,
        typer.Option("--after", metavar="TIME", help="After this time, as ISO 8601 has it, in place of now."),
    ] = None,
) -> None:
    """Print the next times of an expression, in its zone. No broker is asked; an interval counts from the time that is given."""
    from datetime import datetime  # noqa: PLC0415 - not needed for --help

    from actors.scheduling.errors import ScheduleError  # noqa: PLC0415 - as above
    from actors.scheduling.expressions import times_of, zone_of  # noqa: PLC0415 - as above

    try:
        found = zone_of(zone)
        at = int(time.time() if after is None else _instant(after, found))
        times = times_of(when, zone, at)
        lines: list[str] = []
        following = times.after(at)
        while following is not None and len(lines) < count:
            lines.append(datetime.fromtimestamp(following, found).isoformat(" "))
            following = times.after(following)
    except (ScheduleError, ValueError) as error:
        tell("schedule next", str(error))
        raise typer.Exit(EXIT_USAGE) from None
    put(lines)


def _instant(text: str, zone: Any) -> float:
    """The instant that a text says; without an offset it is meant in the zone."""
    from datetime import datetime  # noqa: PLC0415 - not needed for --help

    try:
        said = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r:.60} is no time: write 2026-03-29T01:00 or 2026-03-29T01:00+02:00") from None
    if not YEARS[0] <= said.year <= YEARS[1]:
        raise ValueError(f"{text!r:.60} is too far away: years from {YEARS[0]} to {YEARS[1]} are possible")
    return (said if said.tzinfo is not None else said.replace(tzinfo=zone)).timestamp()


def _to(facts: Facts) -> str:
    """Where its messages go."""
    if facts.get("queue") is not None:
        return f"queue {cell(facts['queue'])}"
    key = facts.get("routing_key")
    return f"exchange {shown_exchange(facts.get('exchange'))}" + (f", {cell(key)}" if key else "")


def _page(facts: Facts) -> list[tuple[str, str]]:
    zone = facts.get("zone")
    found = [("when", cell(facts.get("expression"))), ("zone", cell(zone)), ("to", _to(facts))]
    encoded = facts.get("payload_base64")
    found += [("payload", cell(facts.get("payload") or None) if encoded is None else f"base64 {encoded}")]
    found += [("header", f"{cell(name)}={cell(value)}") for name, value in (facts.get("headers") or {}).items()]
    if facts.get("key"):
        found.append(("key", cell(facts["key"])))
    if (ttl := facts.get("ttl_ms")) is not None:
        found.append(("ttl", written.milliseconds(ttl)))
    if facts.get("priority"):
        found.append(("priority", cell(facts["priority"])))
    found += [("if missed", cell(facts.get("missed"))), ("state", cell(facts.get("state")))]
    found += [(name, cell(facts.get(name))) for name in ("next", "waiting", "error")]
    found += [(name, cell(facts.get(f"times_{name}"))) for name in ("fired", "missed", "failed")]
    return found
