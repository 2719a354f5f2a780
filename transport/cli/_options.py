"""What verbs can be told: options that several share.

They are checked before anything is connected: a wrong one is a usage error (exit code 2).
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Coroutine
from typing import Annotated, Any, get_type_hints

import typer

from transport.cli._access import ACCESS, STDIN, take_access
from transport.cli._run import run
from transport.clients.backoff import DEFAULT_CONNECT_TIMEOUT
from transport.errors import TransportError
from transport.wire.address import DEFAULT_RECEIVE_ADDRESS, DEFAULT_SEND_ADDRESS, RECEIVE_PORT, SEND_PORT
from transport.wire.contact_points import parse_contact_points
from transport.wire.contact_points import written as written_points
from transport.wire.names import check_name

Parameter = tuple[Any, Any]
"""A command's parameter: its annotation, and its default."""
REQUIRED = inspect.Parameter.empty
"""The default of a parameter that has none."""


LEAST_SECONDS = 0.001
"""A time that is waited for is not nothing."""


def time_option(
    flag: str,
    text: str,
    *,
    least: float = LEAST_SECONDS,
    most: float = math.inf,
    default: float | None = None,
    metavar: str = "TIME",
) -> Any:
    """A typer option whose value is read by `seconds_of`; ``text`` is its help, which shows the ``default`` where one is given."""
    shown = "" if default is None else f" [default: {default:g} s]"
    return typer.Option(flag, metavar=metavar, parser=seconds_of(least, most), help=text + shown, show_default=False)


def seconds_of(least: float, most: float) -> Callable[[str], float]:
    """What reads a time; ValueError for what is none, or less than ``least`` or more than ``most`` seconds."""

    def seconds(text: str) -> float:
        from transport.cli import _written as written  # noqa: PLC0415 - where one is given
        from transport.config.units import parse_duration  # noqa: PLC0415 - as above

        found = parse_duration(text)
        if found < least:
            raise ValueError(f"{text} is less than {written.duration(least)}, the least there can be")
        if found > most:
            raise ValueError(f"{text} is more than {written.duration(most)}, the most there can be")
        return found

    return seconds


def address(port: int) -> Callable[[str | None], str | None]:
    """Typer callback: an address, or several, each with its port, which is ``port`` where only a host was said.

    None stays, and is left to a context or the default.
    """

    def checked(text: str | None) -> str | None:
        if text is None:
            return None
        try:
            return written_points(parse_contact_points(text, "--address", port))
        except TransportError as error:
            raise typer.BadParameter(str(error)) from None

    return checked


def name(text: str) -> str:
    """Typer callback: ``text`` when it can name a queue, a subscription or a writer."""
    return checked_name(text, "queue, subscription or writer")


def checked_name(text: str, what: str) -> str:
    """``text`` when it can name ``what``; what is wrong with it is told as of an option or argument."""
    try:
        return check_name(text, what)
    except TransportError as error:
        raise typer.BadParameter(str(error)) from None


SendAddress = Annotated[
    str,
    typer.Option(
        "--address",
        metavar="H[:P]",
        help="The broker's sending address; of a cluster several, with commas.",
        callback=address(SEND_PORT),
    ),
]
ReceiveAddress = Annotated[
    str,
    typer.Option(
        "--address",
        metavar="H[:P]",
        help="The broker's receiving address; of a cluster several, with commas.",
        callback=address(RECEIVE_PORT),
    ),
]
QueueOption = Annotated[str, typer.Option("--queue", metavar="Q", help="The queue's name.", callback=name)]
QueueOrNone = Annotated[
    str | None,
    typer.Option(
        "--queue", metavar="Q", help="The queue's name.", callback=lambda said: None if said is None else name(said)
    ),
]
QueueArgument = Annotated[str, typer.Argument(metavar="QUEUE", help="The queue's name.", callback=name)]
ConnectTimeout = Annotated[
    float,
    time_option(
        "--connect-timeout",
        "How long without a connection to the broker before giving up.",
        default=DEFAULT_CONNECT_TIMEOUT,
    ),
]
FORMATS_PANEL = "Formats (lines without any)"

Null = Annotated[bool, typer.Option("--null", help="A NUL byte ends each message.", rich_help_panel=FORMATS_PANEL)]
LengthPrefixed = Annotated[
    bool,
    typer.Option(
        "--length-prefixed",
        help="Each message has its length before it: four bytes, the highest first.",
        rich_help_panel=FORMATS_PANEL,
    ),
]
WholeFile = Annotated[
    bool, typer.Option("--whole-file", help="Each FILE is one message.", rich_help_panel=FORMATS_PANEL)
]
Jsonl = Annotated[
    bool,
    typer.Option(
        "--jsonl",
        help="A JSON object a line, with payload or payload_base64, key, headers and id.",
        rich_help_panel=FORMATS_PANEL,
    ),
]
NoCreate = Annotated[bool, typer.Option("--no-create", help="Make no queue: one that is not there is refused.")]
Quiet = Annotated[
    bool, typer.Option("--quiet", help="Tell errors and no more: no summary, and not what is waited for.")
]


def left_open(default: str) -> Parameter:
    """An address that a context may say, and that is ``default`` where none does: `take_access` makes it whole."""
    role = "receiving" if default == DEFAULT_RECEIVE_ADDRESS else "sending"
    option = typer.Option(
        "--address",
        metavar="H[:P]",
        help=f"The broker's {role} address; of a cluster several, with commas.",
        callback=address(RECEIVE_PORT if role == "receiving" else SEND_PORT),
        show_default=default,
    )
    return Annotated[str | None, option], None


CONNECTING: dict[str, Parameter] = {
    "address": left_open(DEFAULT_SEND_ADDRESS),
    "connect_timeout": (ConnectTimeout, DEFAULT_CONNECT_TIMEOUT),
    **ACCESS,
}
"""The parameters of every administrative command."""


def format_of(**flags: bool) -> str | None:
    """The format that was named, as its option without the dashes; None for lines. Two are a usage error."""
    named = [name.replace("_", "-") for name, given in flags.items() if given]
    if len(named) > 1:
        raise typer.BadParameter(" and ".join(f"--{name}" for name in named) + " exclude one another")
    return named[0] if named else None


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


GIVEN_BESIDES = {"administration", "access"}
"""What a verb is given that the command line does not say as it is."""


def parameters_of(act: Callable[..., object]) -> dict[str, Parameter]:
    """Those of ``act``; what it is given besides, an `Administration` or an `Access`, is none."""
    # Neither is needed for --help.
    hints = get_type_hints(act, localns={"Administration": None, "Access": None}, include_extras=True)
    given = inspect.signature(act).parameters.values()
    return {each.name: (hints[each.name], each.default) for each in given if each.name not in GIVEN_BESIDES}


def verb_command(
    verb: str, inputs: str | None = None
) -> Callable[[Callable[..., Coroutine[Any, Any, int]]], Callable[..., None]]:
    """A typer command of an asynchronous function, which returns the exit code; its ``access`` is told by options of their own.

    Args:
        verb: for messages.
        inputs: its parameter with the files that it reads, if any: the standard input where none is named.
    """

    def made(act: Callable[..., Coroutine[Any, Any, int]]) -> Callable[..., None]:
        parameters = parameters_of(act)
        receiving = False
        if "address" in parameters:
            default = parameters["address"][1]
            receiving = default == DEFAULT_RECEIVE_ADDRESS
            parameters["address"] = left_open(default)

        def command(**given: Any) -> None:
            data_from_stdin = inputs is not None and STDIN in (given[inputs] or [STDIN])
            access = take_access(verb, given, data_from_stdin=data_from_stdin, receiving=receiving)
            run(verb, lambda: act(**given, access=access))

        return with_parameters(command, act, parameters | ACCESS)

    return made
