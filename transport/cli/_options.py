"""Options that several verbs share, checked before anything is connected: a wrong one is a usage error (exit code 2)."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

from transport.clients.backoff import DEFAULT_CONNECT_TIMEOUT
from transport.errors import TransportError
from transport.wire.address import DEFAULT_SEND_ADDRESS, parse_address
from transport.wire.names import check_name

STDIN = "-"
"""The file that is the standard input."""
Parameter = tuple[Any, Any]
"""A command's parameter: its annotation, and its default."""
REQUIRED = inspect.Parameter.empty
"""The default of a parameter that has none."""


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
CONNECTING: dict[str, Parameter] = {
    "address": (SendAddress, DEFAULT_SEND_ADDRESS),
    "connect_timeout": (ConnectTimeout, DEFAULT_CONNECT_TIMEOUT),
}
"""The parameters of every administrative command."""


def with_parameters(
    command: Callable[..., None], act: Callable[..., object], parameters: dict[str, Parameter]
) -> Callable[..., None]:
    """``command`` as typer shall see it: a signature written out would repeat the table of settings, once a command."""
    command.__signature__ = inspect.Signature(  # type: ignore[attr-defined] # what inspect looks for first
        [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
            for name, (annotation, default) in parameters.items()
        ]
    )
    command.__doc__ = act.__doc__
    return command
