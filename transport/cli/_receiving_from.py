"""Where ``penstock receive`` has its messages from: a queue, or an exchange by way of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from transport.cli._exchange_options import check_text
from transport.cli._options import name

if TYPE_CHECKING:
    from transport.wire.receiver_bindings import Binding

FromExchange = Annotated[
    str | None,
    typer.Option(
        "--exchange",
        metavar="E",
        help="Have the queue bound to this exchange first; without --queue one of its own, which goes with it.",
        callback=lambda said: None if said is None else name(said),
    ),
]
BindingKey = Annotated[
    list[str] | None,
    typer.Option(
        "--binding-key",
        metavar="K",
        help="With --exchange: what the routing key has to be, of a topic exchange a pattern; may be repeated.",
        callback=lambda said: [check_text(each) for each in said or []],
    ),
]


class Origin(NamedTuple):
    """Where the messages are from.

    Attributes:
        queue: the queue's name; None for one of the receiver's own.
        bindings: what it is bound to first.
        text: in words.
    """

    queue: str | None
    bindings: tuple[Binding, ...]
    text: str


def origin_of(queue: str | None, exchange: str | None, keys: list[str] | None, *, no_create: bool) -> Origin:
    """Where messages are to come from; what cannot be is wrong usage."""
    from transport.wire.receiver_bindings import Binding  # noqa: PLC0415 - not needed for --help

    if queue is None and exchange is None:
        raise typer.BadParameter("--queue Q is missing, or --exchange E in its place")
    if exchange is None:
        if keys:
            raise typer.BadParameter("--binding-key goes with --exchange")
        return Origin(queue, (), f"queue {queue}")
    if queue is None and no_create:
        raise typer.BadParameter("--no-create goes with --queue: without one the receiver has a queue of its own")
    bindings = tuple(Binding(exchange, key) for key in keys or [""])
    return Origin(queue, bindings, f"exchange {exchange}" if queue is None else f"queue {queue}")
