"""Options that several verbs share, checked before anything is connected: a wrong one is a usage error (exit code 2)."""

from __future__ import annotations

from typing import Annotated

import typer

from transport.errors import TransportError
from transport.wire.address import parse_address
from transport.wire.names import check_name


def address(text: str) -> str:
    """Typer callback: ``text`` when it is host:port."""
    try:
        parse_address(text)
    except TransportError as error:
        raise typer.BadParameter(str(error)) from None
    return text


def name(text: str) -> str:
    """Typer callback: ``text`` when it can name a queue, a subscription or a writer."""
    try:
        return check_name(text, "queue, subscription or writer")
    except TransportError as error:
        raise typer.BadParameter(str(error)) from None


SendAddress = Annotated[
    str, typer.Option("--address", metavar="H:P", help="The broker's sending address.", callback=address)
]
ReceiveAddress = Annotated[
    str, typer.Option("--address", metavar="H:P", help="The broker's receiving address.", callback=address)
]
QueueOption = Annotated[str, typer.Option("--queue", metavar="Q", help="The queue's name.", callback=name)]
QueueArgument = Annotated[str, typer.Argument(metavar="QUEUE", help="The queue's name.", callback=name)]
ConnectTimeout = Annotated[
    float,
    typer.Option(
        "--connect-timeout",
        metavar="S",
        min=0.001,
        help="Seconds without a connection to the broker after which to give up.",
    ),
]
