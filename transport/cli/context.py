"""``penstock context``: names for brokers, with their addresses and how one is known there."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeVar

import typer

from transport.cli import _written as written
from transport.cli._access import ACCESS, CONTEXT, STDIN
from transport.cli._options import REQUIRED, Parameter, with_parameters
from transport.cli._run import tell
from transport.cli._tables import show as show_table
from transport.cli.exit_codes import EXIT_USAGE
from transport.errors import LocalProtocolError, TransportError
from transport.wire.address import DEFAULT_SEND_ADDRESS

if TYPE_CHECKING:
    from transport.cli._contexts import Contexts

T = TypeVar("T")

app = typer.Typer(help="Name brokers, with how they are reached: `--context NAME` then says it all.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The context's name.")]
AddAddress = Annotated[
    str | None,
    typer.Option(
        "--address",
        "--send-address",
        metavar="H[:P]",
        help="The broker's sending address.",
        show_default=DEFAULT_SEND_ADDRESS,
    ),
]
AddReceiveAddress = Annotated[
    str | None,
    typer.Option(
        "--receive-address",
        metavar="H[:P]",
        help="Its receiving address.",
        show_default="the same host, and the port after",
    ),
]
Use = Annotated[bool, typer.Option("--use", help="Have it count from now on where none is named.")]
Replace = Annotated[bool, typer.Option("--replace", help="Take the place of a context of this name.")]
AsJson = Annotated[bool, typer.Option("--json", help="JSON instead of a table.")]


def _add(
    name: Name,
    address: AddAddress = None,
    receive_address: AddReceiveAddress = None,
    use: Use = False,
    replace: Replace = False,
    **access: str | bool | None,
) -> None:
    """Remember a broker under a name: its two addresses, and who one is there. Of a secret it keeps the name of its file."""
    from transport.cli._contexts import PATHS, ContextError, both_addresses, check_context_name  # noqa: PLC0415 - the help needs none

    verb = "context add"

    def facts() -> dict[str, Any]:
        check_context_name(name)
        said = {
            **both_addresses(address, receive_address),
            **{key: each for key, each in access.items() if each is not None},
        }
        for key in PATHS:
            if said.get(key) == STDIN:
                raise LocalProtocolError(f"--{key.replace('_', '-')} is kept for later, so it cannot be standard input")
            if key in said:
                said[key] = os.path.abspath(os.path.expanduser(str(said[key])))
        if said.get("tls") is False and any(key.startswith("tls_") for key in said):
            raise LocalProtocolError("--no-tls and options of TLS exclude one another")
        if "user" in said and "token_file" in said:
            raise LocalProtocolError("--token-file says who this is: leave --user out")
        if "password_file" in said and "user" not in said:
            raise LocalProtocolError("--password-file needs the --user whose it is")
        return said

    def change(contexts: Contexts) -> None:
        if name in contexts.by_name and not replace:
            raise ContextError(f"there is a context {name} already: --replace takes its place")
        contexts.by_name[name] = made
        if use:
            contexts.current = name

    made = _attempt(verb, facts)
    for key in PATHS:
        if key in made and not os.path.exists(made[key]):
            tell(verb, f"note: {made[key]} is not there yet")
    _change(verb, change)
    hint = (
        "it counts where none is named" if use else f"name it with --context {name}, or `penstock context use {name}`"
    )
    typer.echo(f"context {name} is {made['send_address']} and {made['receive_address']}; {hint}")


def _add_command(**given: Any) -> None:
    _add(**given)


_PARAMETERS: dict[str, Parameter] = {
    "name": (Name, REQUIRED),
    "address": (AddAddress, None),
    "receive_address": (AddReceiveAddress, None),
    "use": (Use, False),
    "replace": (Replace, False),
    **{name: parameter for name, parameter in ACCESS.items() if name != CONTEXT},
}
app.command("add")(with_parameters(_add_command, _add, _PARAMETERS))


def _shown(contexts: Contexts, name: str) -> dict[str, Any]:
    return {"name": name, "current": name == contexts.current, **contexts.by_name[name]}


@app.command("list")
def list_contexts(as_json: AsJson = False) -> None:
    """List the contexts; `*` marks the one that counts where none is named."""
    contexts = _read("context list")
    rows = [_shown(contexts, name) for name in sorted(contexts.by_name)]
    if as_json:
        _print_json(rows)
        return
    for row in rows:
        row["current"] = "*" if row["current"] else ""
        row["who"] = row.get("user") or ("a token" if "token_file" in row else None)
        row["tls"] = row.get("tls") or any(key.startswith("tls_") for key in row)
    columns = [("current", ""), ("name", "context"), ("send_address", "sending"), ("receive_address", "receiving")]
    show_table(written.counted(len(rows), "context"), rows, [*columns, ("who", "user"), ("tls", "TLS")])


@app.command("show")
def show(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="The context; without one, that which counts now.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what a context says. No secret is shown, for none is kept."""
    from transport.cli._contexts import CONTEXT_VARIABLE  # noqa: PLC0415 - the help needs none

    verb = "context show"
    contexts = _read(verb)
    name = name or os.environ.get(CONTEXT_VARIABLE) or contexts.current
    if name is None:
        tell(verb, "no context counts: name one, or `penstock context use NAME`")
        raise typer.Exit(EXIT_USAGE)
    _attempt(verb, lambda: contexts.get(name))
    facts = _shown(contexts, name)
    if as_json:
        _print_json(facts)
        return
    show_table(f"context {name}", [{"key": key, "value": value} for key, value in facts.items() if key != "name"])


@app.command("use")
def use(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="The context's name.")] = None,
    none: Annotated[bool, typer.Option("--none", help="Have none count.")] = False,
) -> None:
    """Have a context count from now on, wherever neither an option nor PENSTOCK_CONTEXT names one."""
    verb = "context use"
    if (name is None) != none:
        tell(verb, "give the name of a context, or --none, and not both; `penstock context list` shows what there is")
        raise typer.Exit(EXIT_USAGE)

    def change(contexts: Contexts) -> None:
        if name is not None:
            contexts.get(name)
        contexts.current = name

    _change(verb, change)
    typer.echo("no context counts now" if name is None else f"context {name} counts now")


@app.command("remove")
def remove(names: Annotated[list[str], typer.Argument(metavar="NAME...", help="The contexts' names.")]) -> None:
    """Forget contexts; files that they name stay."""

    def change(contexts: Contexts) -> None:
        for name in names:
            contexts.get(name)
        for name in names:
            contexts.by_name.pop(name, None)
        if contexts.current in names:
            contexts.current = None

    _change("context remove", change)
    typer.echo(f"context{'s' if len(names) > 1 else ''} {', '.join(names)} removed")


def _print_json(facts: Any) -> None:
    import json  # noqa: PLC0415 - not needed for --help

    typer.echo(json.dumps(facts, indent=2))


def _read(verb: str) -> Contexts:
    from transport.cli._contexts import contexts_file, read_contexts  # noqa: PLC0415 - the help needs none

    return _attempt(verb, lambda: read_contexts(contexts_file()))


def _change(verb: str, change: Callable[[Contexts], None]) -> None:
    from transport.cli._contexts import change_contexts, contexts_file  # noqa: PLC0415 - the help needs none

    _attempt(verb, lambda: change_contexts(contexts_file(), change))


def _attempt(verb: str, act: Callable[[], T]) -> T:
    try:
        return act()
    except TransportError as error:
        _refuse(verb, str(error))


def _refuse(verb: str, text: str) -> NoReturn:
    tell(verb, text)
    raise typer.Exit(EXIT_USAGE)
