"""``penstock top``: what a broker's queues do now, and who holds back whom, for as long as somebody looks."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from transport.cli._access import take_access
from transport.cli._options import CONNECTING, name, parameters_of, time_option, with_parameters
from transport.cli._run import run, tell
from transport.cli._tables import on_terminal
from transport.cli.exit_codes import EXIT_USAGE
from transport.errors import LocalProtocolError

if TYPE_CHECKING:
    from transport.cli._top_sources import Pictures
    from transport.security.access import Access

VERB: Final = "top"
ORDERS: Final = ("pressure", "rate", "backlog", "name")
"""Those of `transport.picture.view`, which a help does not load."""
DEFAULT_INTERVAL: Final = 1.0
MIN_INTERVAL: Final = 0.1
MAX_INTERVAL: Final = 3600.0


def _order(text: str) -> str:
    """Typer callback: an order that there is."""
    if text not in ORDERS:
        raise typer.BadParameter(f"{text!r:.40} is no order; there are {', '.join(ORDERS)}")
    return text


def _queue(text: str | None) -> str | None:
    """Typer callback: a queue's name, where one is given."""
    return None if text is None else name(text)


Order = Annotated[
    str,
    typer.Option(
        "--sort",
        metavar="|".join(ORDERS),
        help="What comes first; a key changes it on a terminal.",
        callback=_order,
    ),
]
Filter = Annotated[str, typer.Option("--filter", metavar="TEXT", help="Only queues with this in their name.")]
OneQueue = Annotated[
    str | None,
    typer.Option("--queue", metavar="Q", help="Begin with this queue: who sends, who receives.", callback=_queue),
]
Count = Annotated[
    int | None, typer.Option("--count", metavar="N", min=1, help="Looks, and then end; until Ctrl-C otherwise.")
]
Interval = Annotated[
    float,
    time_option(
        "--interval",
        "From one look to the next.",
        least=MIN_INTERVAL,
        most=MAX_INTERVAL,
        default=DEFAULT_INTERVAL,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="A JSON object a look, in a line, with the figures as they are.")]
Http = Annotated[
    str | None,
    typer.Option("--http", metavar="URL", help="Ask over HTTP instead, at this address: http://127.0.0.1:9180."),
]


def _top(
    order: Order = "pressure",
    filter_: Filter = "",
    queue: OneQueue = None,
    count: Count = None,
    interval: Interval = DEFAULT_INTERVAL,
    as_json: AsJson = False,
    http: Http = None,
) -> None:
    """Watch queues by pressure, rate or backlog, and who holds back whom.

    On a terminal it has keys; h shows them. Into a pipe it writes a line for each queue that has changed, or with --json an object a look.
    """


def _command(**given: Any) -> None:
    where = {each: given.pop(each) for each in CONNECTING}
    http = given.pop("http")
    if http is not None and where["address"] is not None:
        tell(VERB, "--http and --address exclude one another: say where to ask")
        raise typer.Exit(EXIT_USAGE)
    # An address that is said: a context that is only in use is of another broker, and does not count.
    access = take_access(VERB, where if http is None else where | {"address": http})
    try:
        pictures = _pictures(http, where, access)
    except LocalProtocolError as error:
        tell(VERB, str(error))
        raise typer.Exit(EXIT_USAGE) from None

    async def main() -> int:
        from transport.cli._top_lines import write_looks  # noqa: PLC0415 - not needed for --help
        from transport.cli._top_looks import Looks, wanted_of  # noqa: PLC0415 - as above

        looks = Looks(pictures, given["interval"], given["count"])
        wanted = wanted_of(given["order"], given["filter_"], given["queue"])
        if on_terminal() and sys.stdin.isatty() and not given["as_json"]:
            from transport.cli._top_terminal import show_looks  # noqa: PLC0415 - as above

            await show_looks(looks, wanted)
        else:
            await write_looks(looks, wanted, VERB, as_json=given["as_json"])
        return 0

    run(VERB, main)


def _pictures(http: str | None, where: dict[str, Any], access: Access) -> Pictures:
    from transport.cli._top_sources import HttpPictures, NativePictures  # noqa: PLC0415 - not needed for --help

    if http is not None:
        return HttpPictures(http, access, where["connect_timeout"])
    return NativePictures(where["address"], access, where["connect_timeout"])


top = with_parameters(_command, _top, parameters_of(_top) | CONNECTING)
