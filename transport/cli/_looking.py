"""How verbs that look at a broker show what they see: once or again and again, as text or as JSON; and the rates between two looks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from transport.cli._optional_value import DEFAULT_SECONDS, MAX_SECONDS, MIN_SECONDS, WATCH
from transport.cli._options import time_option
from transport.cli._tables import on_terminal, put, terminal_width

if TYPE_CHECKING:
    from transport.clients.administration import Administration, Facts

Wide = Annotated[bool, typer.Option("--wide", help="Show everything there is, in lines as long as they need.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document, with the figures as they are.")]
Watch = Annotated[
    float | None,
    time_option(
        WATCH,
        f"Look again every so often ({DEFAULT_SECONDS:g} s unless said), until Ctrl-C.",
        least=MIN_SECONDS,
        most=MAX_SECONDS,
        metavar="[TIME]",
    ),
]
WithRates = Annotated[bool, typer.Option("--rates", help="Take a second to measure in/s and out/s.")]
MEASURING_SECONDS: Final = 1.0
"""From the first look to the second, where a rate is asked for."""
RATES: Final = {"in_per_s": "total_in", "out_per_s": "total_out"}
"""Rates by what they are called beside a queue's figures, and the totals they come from."""


class Rates:
    """Messages a second of each queue, from one look to the next.

    Args:
        now: monotonic seconds.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._before: dict[str, Facts] = {}
        self._at: float | None = None

    def add(self, queues: Sequence[Facts]) -> None:
        """Give each queue its rates; at the first look there are none, and none of a queue that was made anew meanwhile."""
        at, earlier = self._now(), self._at
        seconds = 0.0 if earlier is None else at - earlier
        totals = {}
        for queue in queues:
            name = str(queue.get("name"))
            totals[name] = {total: queue.get(total) for total in RATES.values()}
            for rate, total in RATES.items():
                now, before = queue.get(total), self._before.get(name, {}).get(total)
                if isinstance(now, int) and isinstance(before, int) and now >= before and seconds > 0:
                    queue[rate] = round((now - before) / seconds, 3)
        # Only the queues that there are: what is gone is forgotten.
        self._before, self._at = totals, at


async def measured(look: Callable[[], Awaitable[Any]]) -> Any:
    """What a second look sees, a while after the first."""
    from asyncio import Event, wait_for  # noqa: PLC0415 - not needed for --help

    await look()
    # Nothing sets it: it is the time that passes.
    with suppress(TimeoutError):
        await wait_for(Event().wait(), MEASURING_SECONDS)
    return await look()


async def present(
    administration: Administration,
    look: Callable[[Administration], Awaitable[Any]],
    draw: Callable[[Any, int | None], list[str]],
    *,
    verb: str,
    as_json: bool = False,
    wide: bool = False,
    rates: bool = False,
    watch: float | None = None,
) -> None:
    """Show what ``look`` sees.

    Args:
        administration: a client of the broker, connected.
        look: asks the broker.
        draw: the lines of what was seen, on a terminal of so many columns; None for lines of any length.
        verb: the command's name, for what is told on stderr.
        as_json: whether it is shown as JSON.
        wide: whether lines may have any length.
        rates: whether to look twice before anything is shown.
        watch: seconds until the next look; None to look once. Then a signal is an orderly end.
    """

    def text(seen: Any, width: int | None) -> list[str]:
        return _json(seen) if as_json else draw(seen, None if wide else width)

    async def look_once() -> Any:
        return await look(administration)

    if watch is None:
        put(text(await (measured(look_once) if rates else look_once()), terminal_width()))
        return
    from transport.cli._watching import watch_over  # noqa: PLC0415 - not needed for --help

    await watch_over(administration, look, text, watch, verb, redraw=on_terminal() and not as_json)


def _json(seen: Any) -> list[str]:
    import json  # noqa: PLC0415 - not needed for --help

    return [json.dumps(seen, indent=2)]
