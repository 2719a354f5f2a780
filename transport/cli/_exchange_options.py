"""Options and arguments of the verbs about exchanges and bindings, and how pairs of a name and a value are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

import typer

from transport.cli._options import checked_name
from transport.cli._tables import cell

KINDS: Final = ("direct", "fanout", "topic", "headers")
MATCHES: Final = ("all", "any", "all-with-x", "any-with-x")
MATCH: Final = "x-match"
"""The argument of a binding that says how many of the others have to be in a message's headers."""
DEFAULT: Final = "(default)"
"""How the default exchange is shown, whose name is empty."""


def check_exchange(text: str | None) -> str | None:
    """Typer callback: ``text`` when it can name an exchange."""
    return None if text is None else checked_name(text, "exchange")


def check_or_default(text: str | None) -> str | None:
    """Typer callback: the same; empty is the default exchange."""
    return check_exchange(text) if text else text


def check_destination(text: str | None) -> str | None:
    """Typer callback: ``text`` when it can name a queue or an exchange."""
    return None if text is None else checked_name(text, "queue or exchange")


def check_pairs(said: list[str] | None) -> list[str] | None:
    """Typer callback: each is ``NAME=VALUE``, and no name is there twice."""
    names: set[str] = set()
    for pair in said or []:
        name, equals, _ = pair.partition("=")
        if not (name and equals):
            raise typer.BadParameter(f"{pair!r:.60} is no pair: write NAME=VALUE")
        if name in names:
            raise typer.BadParameter(f"{name!r:.60} is given twice")
        names.add(name)
        check_text(pair)
    return said


def check_arguments(said: list[str] | None) -> list[str] | None:
    """Typer callback: the same; how many have to match has an option of its own."""
    if MATCH in table_of(check_pairs(said)):
        raise typer.BadParameter(f"{MATCH} is what --match says: write --match {'|'.join(MATCHES)}")
    return said


def check_text(said: str | None) -> str | None:
    """Typer callback: a text that can be sent."""
    try:
        (said or "").encode()
    except UnicodeEncodeError:
        raise typer.BadParameter(f"{said!r:.60} is not UTF-8") from None
    return said


def one_of(words: Sequence[str]) -> Any:
    """A typer callback: one of these words."""

    def check(said: str | None) -> str | None:
        if said is not None and said not in words:
            raise typer.BadParameter(f"{said!r:.40} is not one of {', '.join(words)}")
        return said

    return check


ExchangeName = Annotated[str, typer.Argument(metavar="EXCHANGE", help="The exchange's name.", callback=check_exchange)]
ExchangeOrDefault = Annotated[
    str,
    typer.Argument(
        metavar="EXCHANGE",
        help="The exchange's name; '' is the default exchange.",
        callback=check_or_default,
    ),
]
Kind = Annotated[
    str,
    typer.Option("--kind", metavar="|".join(KINDS), help="Which queues get a message of it.", callback=one_of(KINDS)),
]
Headers = Annotated[
    list[str] | None,
    typer.Option(
        "--header", metavar="NAME=VALUE", help="A header of the message; may be repeated.", callback=check_pairs
    ),
]
KeyArgument = Annotated[
    str,
    typer.Argument(
        metavar="[KEY]",
        help="What the routing key has to be; of a topic exchange a pattern.",
        callback=check_text,
        show_default=False,
    ),
]
RoutingKey = Annotated[
    str,
    typer.Argument(metavar="[KEY]", help="The message's routing key.", callback=check_text, show_default=False),
]
Destination = Annotated[
    str,
    typer.Argument(
        metavar="QUEUE",
        help="The queue that it leads to, or the exchange with --to-exchange.",
        callback=check_destination,
    ),
]
ToExchange = Annotated[
    bool, typer.Option("--to-exchange", help="It leads to another exchange, which is named in place of the queue.")
]
Arguments = Annotated[
    list[str] | None,
    typer.Option(
        "--argument",
        metavar="NAME=VALUE",
        help="Of a headers exchange, what a header has to be; may be repeated.",
        callback=check_arguments,
    ),
]
Match = Annotated[
    str | None,
    typer.Option(
        "--match",
        metavar="|".join(MATCHES),
        help="How many of the arguments the headers have to match; all unless said.",
        callback=one_of(MATCHES),
    ),
]


def table_of(said: Sequence[str] | None) -> dict[str, Any]:
    """The names and values of pairs."""
    found: dict[str, Any] = {}
    for pair in said or ():
        name, _, value = pair.partition("=")
        found[name] = value
    return found


def arguments_of(said: Sequence[str] | None, match: str | None) -> dict[str, Any]:
    """The arguments of a binding."""
    found = table_of(said)
    return found if match is None else {MATCH: match, **found}


def written_table(table: object) -> list[str] | None:
    """Arguments as the options say them, each by itself; None where there are none."""
    if not isinstance(table, Mapping) or not table:
        return None
    return [f"{name}={_value(value)}" for name, value in table.items()]


def _value(value: object) -> str:
    if isinstance(value, str):
        return value
    import json  # noqa: PLC0415 - not needed for --help

    return json.dumps(value)


def shown_exchange(name: object) -> str:
    """An exchange's name in a table or a sentence."""
    return DEFAULT if name == "" else cell(name)
