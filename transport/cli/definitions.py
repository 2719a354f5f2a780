"""``penstock definitions``: what RabbitMQ has exported, made here."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from transport.cli import _written as written
from transport.cli._access import STDIN
from transport.cli._administering import administer
from transport.cli._options import CONNECTING, REQUIRED, with_parameters
from transport.cli._run import tell
from transport.cli._tables import put
from transport.cli.exit_codes import EXIT_FAILED, EXIT_USAGE
from transport.errors import BrokerError, InvalidNameError, LocalProtocolError

if TYPE_CHECKING:
    from transport.clients.administration import Administration, Facts
    from transport.gateways.amqp.definitions import Plan, WantedBinding, WantedExchange, WantedQueue

app = typer.Typer(no_args_is_help=True, help="Take over what RabbitMQ has exported.")

VERB = "definitions import"
DELAYED, DELAYED_TYPE = "x-delayed-message", "x-delayed-type"


class There(NamedTuple):
    """What the broker has.

    Attributes:
        exchanges, queues: facts by name.
        bindings: what each is, as `_binding_key` has it.
    """

    exchanges: dict[str, Facts]
    queues: dict[str, Facts]
    bindings: set[tuple[Any, ...]]


class Step(NamedTuple):
    """One thing of the file.

    Attributes:
        text: what it is.
        make: has it made.
        differs: in what it is otherwise than the file has it; empty where it is the same, None where it is not there.
        more: what else there is to say of it once it is made.
        check: has the broker judge it, and change nothing; None where nobody can.
        lacks: what is not there that it needs; empty for nothing.
    """

    text: str
    make: Callable[[Administration], Awaitable[Any]]
    differs: str | None
    more: str = ""
    check: Callable[[Administration], Awaitable[Any]] | None = None
    lacks: str = ""


def import_definitions(file: str, dry_run: bool, virtual_hosts: str, virtual_host: str | None, **where: Any) -> None:
    """Make the exchanges, queues and bindings that RabbitMQ has exported. What is there stays as it is; what is left is told."""
    from transport.wire.shown import MAX_LINE_BYTES, shown  # noqa: PLC0415 - not needed for --help

    plan = _read(file, virtual_hosts, virtual_host)

    async def talk(administration: Administration) -> None:
        there = await _there(administration)
        made = same = 0
        problems: list[str] = []
        for step in _steps(plan, there):
            if step.lacks:
                problems.append(f"{step.text} is not made: {step.lacks}")
            elif step.differs is None:
                act = step.check if dry_run else step.make
                try:
                    if act is not None:
                        await act(administration)
                except (BrokerError, LocalProtocolError, InvalidNameError) as error:
                    problems.append(
                        f"{step.text} is not made: {error.text if isinstance(error, BrokerError) else error}"
                    )
                    continue
                made += 1
                done = "would be created" if dry_run else "created"
                put([shown(f"{step.text} {done}{step.more}", MAX_LINE_BYTES)])
            elif step.differs:
                problems.append(f"{step.text} is left as it is: {step.differs}")
            else:
                same += 1
        warnings = list(_not_served(plan, there))
        for sentence in (*warnings, *plan.left, *problems):
            tell(VERB, sentence)
        done = "would be created" if dry_run else "created"
        warned = f", {written.counted(len(warnings), 'warning')}" if warnings else ""
        tell(VERB, f"{made:,} {done}, {same:,} there already, {written.counted(len(problems), 'problem')}{warned}")
        if problems:
            raise typer.Exit(EXIT_FAILED)

    administer(VERB, where, talk, data_from_stdin=file == STDIN)


def _read(file: str, virtual_hosts: str, virtual_host: str | None) -> Plan:
    """What is to be made; it exits with ``EXIT_USAGE`` where the file is none."""
    from transport.config.virtual_hosts import parse_virtual_hosts  # noqa: PLC0415 - not needed for --help
    from transport.errors import TransportError  # noqa: PLC0415 - as above
    from transport.gateways.amqp.definitions import plan_of  # noqa: PLC0415 - as above
    from transport.gateways.amqp.definitions_file import MAX_FILE_BYTES, read_definitions  # noqa: PLC0415 - as above

    try:
        hosts = parse_virtual_hosts(virtual_hosts)
        if file == STDIN:
            data = sys.stdin.buffer.read(MAX_FILE_BYTES + 1)
        else:
            with Path(file).open("rb") as opened:
                data = opened.read(MAX_FILE_BYTES + 1)
        return plan_of(read_definitions(data, "standard input" if file == STDIN else file, virtual_host), hosts)
    except OSError as error:
        tell(VERB, f"{file}: cannot be read: {error.strerror or error}")
    except (TransportError, ValueError) as error:
        tell(VERB, str(error))
    raise typer.Exit(EXIT_USAGE)


async def _there(administration: Administration) -> There:
    return There(
        {str(each.get("name")): each for each in await administration.exchanges()},
        {str(each.get("name")): each for each in await administration.queues()},
        {_binding_key(each) for each in await administration.bindings()},
    )


def _not_served(plan: Plan, there: There) -> Iterator[str]:
    """Of each virtual host of the file that the broker does not serve, a sentence. One that it serves has exchanges from the start."""
    from transport.config.virtual_hosts import show_virtual_hosts  # noqa: PLC0415 - not needed for --help

    for host, beginning in plan.virtual_hosts.items():
        if f"{beginning}amq.direct" not in there.exchanges:
            option = f'--amqp-virtual-hosts "{show_virtual_hosts({host: beginning})}"'
            yield f"warning: the broker does not serve virtual host {host}, and no client of AMQP can enter it: start it with {option}"


def _binding_key(binding: Facts) -> tuple[Any, ...]:
    import json  # noqa: PLC0415 - not needed for --help

    arguments = json.dumps(binding.get("arguments") or {}, sort_keys=True)
    return *(binding.get(key) for key in ("source", "destination", "to_exchange", "key")), arguments


def _steps(plan: Plan, there: There) -> Iterator[Step]:
    exchanges = {*there.exchanges, *(each.name for each in plan.exchanges)}
    queues = {*there.queues, *(each.name for each in plan.queues)}
    yield from (_exchange(each, there) for each in plan.exchanges)
    yield from (_queue(each, there) for each in plan.queues)
    for each in plan.bindings:
        step = _binding(each, there)
        if each.source not in exchanges:
            yield step._replace(lacks=_no_exchange(each.source))
        elif each.destination not in (exchanges if each.to_exchange else queues):
            lacks = _no_exchange(each.destination) if each.to_exchange else f"there is no queue {each.destination}"
            yield step._replace(lacks=lacks)
        else:
            yield step


def _no_exchange(name: str) -> str:
    beginning, reserved, _ = name.partition("amq.")
    if not (beginning and reserved):
        return f"there is no exchange {name}"
    host = beginning.removesuffix("/")
    return f"there is no exchange {name}: start the broker with the virtual host (--amqp-virtual-hosts {host})"


def _exchange(wanted: WantedExchange, there: There) -> Step:
    def make(client: Administration) -> Awaitable[Any]:
        return client.declare_exchange(
            wanted.name,
            wanted.kind,
            durable=wanted.durable,
            auto_delete=wanted.auto_delete,
            internal=wanted.internal,
            alternate=wanted.alternate,
            delayed=wanted.delayed,
        )

    facts = there.exchanges.get(wanted.name)
    if facts is None:
        return Step(f"exchange {wanted.name}", make, None)
    arguments = facts.get("arguments") or {}
    is_there = facts | {"alternate": arguments.get("alternate-exchange"), "delayed": facts.get("kind") == DELAYED}
    if is_there["delayed"]:
        is_there["kind"] = arguments.get(DELAYED_TYPE)
    different = [
        f"{key.replace('_', ' ')} is {_shown(is_there.get(key))}, the file has {_shown(value)}"
        for key, value in wanted._asdict().items()
        if key != "name" and is_there.get(key) != value
    ]
    return Step(f"exchange {wanted.name}", make, "; ".join(different))


def _queue(wanted: WantedQueue, there: There) -> Step:
    from transport.cli._declarations import differences, explicit  # noqa: PLC0415 - not needed for --help

    settings = explicit(wanted.settings)

    def make(client: Administration) -> Awaitable[Any]:
        return client.create_queue(wanted.name, **settings, declared_with=wanted.declared_with)

    def check(client: Administration) -> Awaitable[Any]:
        return client.check_queue(wanted.name, settings)

    text = f"queue {wanted.name}"
    more = f", with {', '.join(wanted.policies)}" if wanted.policies else ""
    facts = there.queues.get(wanted.name)
    if facts is None:
        return Step(text, make, None, more, check)
    different = differences(wanted.settings, facts)
    return Step(text, make, "; ".join(f"{key} is {was}, the file has {said}" for key, (was, said) in different.items()))


def _binding(wanted: WantedBinding, there: There) -> Step:
    def make(client: Administration) -> Awaitable[Any]:
        return client.bind(
            wanted.source, wanted.destination, wanted.key, wanted.arguments, to_exchange=wanted.to_exchange
        )

    kind = "exchange" if wanted.to_exchange else "queue"
    by = f" by {wanted.key}" if wanted.key else ""
    text = f"binding from exchange {wanted.source} to {kind} {wanted.destination}{by}"
    return Step(text, make, "" if _binding_key(wanted._asdict()) in there.bindings else None)


def _shown(value: object) -> str:
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


IMPORT_PARAMETERS = {
    "file": (
        Annotated[str, typer.Argument(metavar="FILE|-", help="What RabbitMQ has exported; - is standard input.")],
        REQUIRED,
    ),
    "dry_run": (Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")], False),
    "virtual_hosts": (
        Annotated[
            str,
            typer.Option(
                "--virtual-hosts",
                metavar="V[=P],...",
                help="As the broker's --amqp-virtual-hosts says it, where names in one begin with something else than its own and /.",
            ),
        ],
        "",
    ),
    "virtual_host": (
        Annotated[
            str | None,
            typer.Option(
                "--virtual-host",
                metavar="V",
                help="Of what names none, in a file of one virtual host; the one that the file says that it is of, else /.",
            ),
        ],
        None,
    ),
    **CONNECTING,
}


def import_command(**given: Any) -> None:
    """What typer calls."""
    import_definitions(**given)


with_parameters(import_command, import_definitions, IMPORT_PARAMETERS)
app.command("import")(import_command)
