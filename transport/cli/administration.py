"""The administrative verbs, each a conversation over one connection: ``queue``, ``subscription``, ``transaction`` and ``stats``."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from actors.queue.vocabulary.settings import QUEUE_SETTINGS
from transport.cli._access import take_access
from transport.cli._options import (
    CONNECTING,
    REQUIRED,
    QueueArgument,
    name,
    parameters_of,
    queue_settings_command,
    with_parameters,
)
from transport.cli._run import run, tell
from transport.cli._tables import Column, console, show
from transport.cli.exit_codes import EXIT_USAGE
from transport.errors import BrokerError, LocalProtocolError

if TYPE_CHECKING:
    from transport.clients.administration import Administration, Facts

queues = typer.Typer(no_args_is_help=True, help="Declare, alter, list, empty and delete queues.")
subscriptions = typer.Typer(no_args_is_help=True, help="See, release and forget named consumers.")
transactions = typer.Typer(no_args_is_help=True, help="See and discard what writers have staged.")

QUEUE_HOLDS: tuple[Column, ...] = (
    ("name", "queue"),
    ("failed", "failed"),
    ("ready", "ready"),
    ("in_flight", "in flight"),
    ("reserved", "reserved"),
    ("delayed", "delayed"),
    ("staged_messages", "staged"),
    ("demand_waiting", "demand"),
)
"""What every table of queues begins with."""
DECLARED: list[Column] = [
    *QUEUE_HOLDS,
    ("stored_bytes", "bytes"),
    *((setting.name, setting.heading) for setting in QUEUE_SETTINGS),
]
EXPLICIT_NONE: dict[str, Any] = {setting.name: setting.none for setting in QUEUE_SETTINGS if setting.none is not None}
"""What the protocol has for never and for the queue's own."""
SUBSCRIPTION_COLUMNS = (
    ("queue", "queue"),
    ("name", "name"),
    ("backlog", "backlog"),
    ("reserved", "reserved"),
    ("opened", "opened"),
    ("used", "last used"),
    ("owner", "owner"),
    ("epoch", "epoch"),
    ("base", "base"),
    ("high", "high"),
)
"""A broker that was started anew does not know when a subscription was last used: then it is when its owner took it."""

SubscriptionArgument = Annotated[str, typer.Argument(metavar="NAME", help="The subscription's name.", callback=name)]
QUEUE_FIGURES: list[Column] = [
    *QUEUE_HOLDS,
    ("capacity_granted", "granted"),
    ("stored_bytes", "bytes"),
    ("staged_bytes", "staged bytes"),
    ("total_in", "in"),
    ("total_out", "out"),
    ("total_acknowledged", "acked"),
    ("total_redelivered", "redelivered"),
    ("total_expired", "expired"),
    ("total_dead_lettered", "dead letters"),
    ("oldest_ms", "oldest ms"),
    ("senders", "senders"),
    ("receivers", "receivers"),
    ("subscriptions", "subscriptions"),
]
CONNECTION_COLUMNS: list[Column] = [
    ("id", "connection"),
    ("role", "role"),
    ("queue", "queue"),
    ("client_id", "client"),
    ("user", "user"),
    ("peer", "peer"),
    ("demand", "demand"),
    ("in_flight", "in flight"),
    ("connected_s", "seconds"),
    ("bytes_in", "bytes in"),
    ("bytes_out", "bytes out"),
]


def administer(
    verb: str, where: dict[str, Any], talk: Callable[[Administration], Coroutine[Any, Any, None]]
) -> NoReturn:
    """Run ``talk`` with a connection to the broker that ``where`` names, in the parameters of ``CONNECTING``; then exit."""
    access = take_access(verb, where)

    async def main() -> int:
        from transport.clients.administration import Administration  # noqa: PLC0415 - not needed for --help

        async with Administration(**where, access=access) as administration:
            await talk(administration)
        return 0

    run(verb, main)


def admin_command(verb: str) -> Callable[[Callable[..., Coroutine[Any, Any, None]]], Callable[..., None]]:
    """A typer command of a function that is given a connection, then its own parameters; it also has where to connect, and for how long."""

    def made(act: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
        def command(**given: Any) -> None:
            where = {name: given.pop(name) for name in CONNECTING}
            administer(verb, where, lambda administration: act(administration, **given))

        return with_parameters(command, act, parameters_of(act) | CONNECTING)

    return made


# Queues


@queues.command("list")
@admin_command("queue list")
async def list_queues(administration: Administration) -> None:
    """List the queues and what they hold."""
    queues = sorted(await administration.queues(), key=lambda queue: str(queue.get("name")))
    present = [column for column in DECLARED if not queues or any(column[0] in queue for queue in queues)]
    show(f"{len(queues)} queues", queues, present)


def _create(settings: dict[str, Any], queue: str, **where: Any) -> None:
    """Declare a queue. One that is only used is created with the broker's settings."""
    # Its options are made of QUEUE_SETTINGS.
    _set("queue create", "created", lambda client: client.create_queue, settings, queue, where)


def _alter(settings: dict[str, Any], queue: str, exclusive: bool | None = None, **where: Any) -> None:
    """Give a queue that is there other settings. What is not said stays as it is; what it holds stays too."""
    # Its options are made of QUEUE_SETTINGS.
    if exclusive is not None:
        tell("queue alter", "exclusive cannot change, for receivers rely on it: delete the queue and create it anew")
        raise typer.Exit(EXIT_USAGE)
    if not settings:
        tell("queue alter", "say what to alter, as --max-messages 1000; `penstock queue alter --help` has it all")
        raise typer.Exit(EXIT_USAGE)
    _set("queue alter", "altered", lambda client: client.alter_queue, settings, queue, where)


def _set(
    verb: str,
    done: str,
    act: Callable[[Administration], Callable[..., Coroutine[Any, Any, None]]],
    settings: dict[str, Any],
    queue: str,
    where: dict[str, Any],
) -> None:
    """Run a verb that gives a queue settings."""
    # None was said, and so means never or none; what was not said is not there.
    said = {key: EXPLICIT_NONE[key] if value is None else value for key, value in settings.items()}

    async def talk(administration: Administration) -> None:
        try:
            await act(administration)(queue, **said)
        except BrokerError as error:
            if error.code != LocalProtocolError.code:
                raise
            # What is left of a setting that cannot be: it depends on another, which may be the broker's.
            tell(verb, error.text)
            raise typer.Exit(EXIT_USAGE) from None
        typer.echo(f"queue {queue} {done}")

    administer(verb, where, talk)


WHICH = {"queue": (QueueArgument, REQUIRED), **CONNECTING}
UNALTERABLE = frozenset({"exclusive"})
queues.command("create")(queue_settings_command(_create, WHICH))
EXCLUSIVE = Annotated[bool | None, typer.Option("--exclusive/--no-exclusive", hidden=True)]
"""Known to be refused with the reason."""
queues.command("alter")(
    queue_settings_command(_alter, WHICH | {"exclusive": (EXCLUSIVE, None)}, unsaid="as it is", without=UNALTERABLE)
)


@queues.command("delete")
@admin_command("queue delete")
async def delete_queue(administration: Administration, queue: QueueArgument) -> None:
    """Delete a queue with all it holds, and end its connections."""
    ended = await administration.delete_queue(queue)
    typer.echo(f"queue {queue} deleted" + (f", {ended} connections ended" if ended else ""))


@queues.command("purge")
@admin_command("queue purge")
async def purge_queue(administration: Administration, queue: QueueArgument) -> None:
    """Drop the messages that wait in a queue; what receivers hold stays theirs."""
    purged = await administration.purge_queue(queue)
    typer.echo(f"queue {queue} purged" if purged is None else f"queue {queue} purged of {purged} messages")


# Subscriptions


@subscriptions.command("list")
@admin_command("subscription list")
async def list_subscriptions(administration: Administration) -> None:
    """List the subscriptions of all queues: what they hold, what is behind, who owns them and since when nobody does."""
    found = sorted(
        await administration.subscriptions(), key=lambda facts: (str(facts.get("queue")), str(facts.get("name")))
    )
    now = time.time()
    show(f"{len(found)} subscriptions", [_subscription_row(facts, now) for facts in found], SUBSCRIPTION_COLUMNS)


@subscriptions.command("release")
@admin_command("subscription release")
async def release_subscription(
    administration: Administration, queue: QueueArgument, subscription: SubscriptionArgument
) -> None:
    """Return what a subscription has reserved to its queue; a query that still runs on it will fail."""
    released = await administration.release_subscription(queue, subscription)
    typer.echo(f"subscription {subscription} of queue {queue} released{_returned(released)}")


@subscriptions.command("delete")
@admin_command("subscription delete")
async def delete_subscription(
    administration: Administration, queue: QueueArgument, subscription: SubscriptionArgument
) -> None:
    """Forget a subscription that nobody uses any more; what it has reserved returns to its queue."""
    released = await administration.delete_subscription(queue, subscription)
    typer.echo(f"subscription {subscription} of queue {queue} deleted{_returned(released)}")


def _returned(messages: int | None) -> str:
    return "" if messages is None else f", {messages} messages returned"


def _subscription_row(facts: Facts, now: float) -> Facts:
    """What a table shows of a subscription; of an older broker, which says less, what there is."""
    from actors.queue.structures.deadlines import US_PER_SECOND  # noqa: PLC0415 - not needed for --help

    base, high, opened = (facts.get(key) for key in ("base", "high", "opened_us"))
    reserved = high - base if isinstance(base, int) and isinstance(high, int) else None
    age = now - opened / US_PER_SECOND if isinstance(opened, int) and opened else None
    idle = facts.get("idle_ms")
    return facts | {
        "reserved": reserved,
        "opened": _ago(age),
        "used": "now" if facts.get("owned") else _ago(idle / 1000 if isinstance(idle, int) else age),
    }


def _ago(seconds: float | None) -> str | None:
    """A time in the largest unit that is full: "3 d ago"."""
    if seconds is None:
        return None
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size:
            return f"{int(seconds // size)} {unit} ago"
    return f"{max(0, int(seconds))} s ago"


# Transactions


@transactions.command("list")
@admin_command("transaction list")
async def list_transactions(administration: Administration) -> None:
    """List the transactions that are neither committed nor aborted."""
    rows = [
        {**facts, "queues": ", ".join(map(str, facts.get("queues") or []))}
        for facts in await administration.transactions()
    ]
    show(f"{len(rows)} open transactions", rows, None if rows else [("writer", "writer"), ("version", "version")])


@transactions.command("abort")
@admin_command("transaction abort")
async def abort_transaction(
    administration: Administration,
    writer: Annotated[str, typer.Argument(metavar="WRITER", help="Who writes.", callback=name)],
    version: Annotated[int, typer.Argument(metavar="VERSION", min=0, help="The transaction's number.")],
) -> None:
    """Discard what a transaction has staged; a query that still works on it writes that batch again."""
    discarded = await administration.abort_transaction(writer, version)
    if discarded == 0:
        typer.echo(f"nothing to abort: no message is staged for transaction {version} of {writer}")
        return
    dropped = "" if discarded is None else f", {discarded} messages discarded"
    typer.echo(f"transaction {version} of {writer} aborted{dropped}")


# Statistics


@admin_command("stats")
async def stats(
    administration: Administration,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of tables.")] = False,
) -> None:
    """Show per queue what is ready, in flight, wanted and moved, and per connection its demand."""
    figures = await administration.statistics()
    if as_json:
        import json  # noqa: PLC0415 - not needed for --help

        typer.echo(json.dumps(figures, indent=2))
    else:
        show_statistics(figures, str(administration.address))


def show_statistics(figures: Facts, address: str) -> None:
    """Print what ``stats`` answers as tables."""
    broker = figures.get("broker") or {}
    console().print(
        f"broker {address}: version {broker.get('version', '?')}, epoch {broker.get('epoch', '?')}, "
        f"up {broker.get('uptime_s') or 0:,.0f} s, {(broker.get('rss_bytes') or 0) / 2**20:,.1f} MiB resident, "
        f"{broker.get('connections', '?')} connections",
        markup=False,
    )
    if reason := broker.get("paused"):
        console().print(f"senders wait: {reason}", markup=False)
    queues = sorted(figures.get("queues") or [], key=lambda queue: str(queue.get("name")))
    failed = any("failed" in queue for queue in queues)
    show(f"{len(queues)} queues", queues, [column for column in QUEUE_FIGURES if failed or column[0] != "failed"])
    if storage := figures.get("storage"):
        # Two dozen facts about one thing read better down the page than across it.
        rows = [{"figure": key.replace("_", " "), "value": value} for key, value in storage.items()]
        show("storage", rows, [("figure", "figure"), ("value", "value")])
    connections = figures.get("connections") or []
    show(f"{len(connections)} connections", connections, CONNECTION_COLUMNS)
