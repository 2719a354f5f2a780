"""How verbs that look at a broker show what they see: once or again and again, as text or as JSON; and the rates between two looks."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from transport.cli._optional_value import DEFAULT_SECONDS, MAX_SECONDS, MIN_SECONDS, WATCH
from transport.cli._tables import cell_len, on_terminal, put, terminal_width

if TYPE_CHECKING:
    from asyncio import Event

    from transport.clients.administration import Facts

Wide = Annotated[bool, typer.Option("--wide", help="Show everything there is, in lines as long as they need.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document, with the figures as they are.")]
Watch = Annotated[
    float | None,
    typer.Option(
        WATCH,
        metavar="[SECONDS]",
        min=MIN_SECONDS,
        max=MAX_SECONDS,
        help=f"Look again every so many seconds ({DEFAULT_SECONDS:g} unless said), until Ctrl-C.",
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
    look: Callable[[], Awaitable[Any]],
    draw: Callable[[Any, int | None], list[str]],
    *,
    as_json: bool = False,
    wide: bool = False,
    rates: bool = False,
    watch: float | None = None,
) -> None:
    """Show what ``look`` sees.

    Args:
        look: asks the broker.
        draw: the lines of what was seen, on a terminal of so many columns; None for lines of any length.
        as_json: whether it is shown as JSON.
        wide: whether lines may have any length.
        rates: whether to look twice before anything is shown.
        watch: seconds until the next look; None to look once. Then a signal is an orderly end.
    """

    def text(seen: Any, width: int | None) -> list[str]:
        return _json(seen) if as_json else draw(seen, None if wide else width)

    if watch is None:
        put(text(await (measured(look) if rates else look()), terminal_width()))
        return
    from asyncio import Event  # noqa: PLC0415 - not needed for --help

    from transport.cli._run import drop_unwritten, on_signal  # noqa: PLC0415

    stopped = Event()
    with on_signal(lambda _number: stopped.set()):
        try:
            if on_terminal() and not as_json:
                await _redraw(look, text, watch, stopped)
            else:
                async for seen in _looks(look, watch, stopped):
                    put(text(seen, terminal_width()))
        except BrokenPipeError:
            # The reader of the pipe has seen enough.
            drop_unwritten()


async def _looks(look: Callable[[], Awaitable[Any]], watch: float, stopped: Event) -> AsyncGenerator[Any, None]:
    """What is seen, every ``watch`` seconds until ``stopped``."""
    import asyncio  # noqa: PLC0415 - not needed for --help

    stop = asyncio.ensure_future(stopped.wait())
    try:
        while not stop.done():
            looking = asyncio.ensure_future(look())
            await asyncio.wait({looking, stop}, return_when=asyncio.FIRST_COMPLETED)
            if not looking.done():
                looking.cancel()
                await asyncio.wait({looking})
                return
            yield looking.result()
            await asyncio.wait({stop}, timeout=watch)
    finally:
        stop.cancel()


async def _redraw(
    look: Callable[[], Awaitable[Any]], text: Callable[[Any, int | None], list[str]], watch: float, stopped: Event
) -> None:
    """Draw each look over the one before, on a screen of its own. The last one stays when that is over."""
    from rich.console import Console  # noqa: PLC0415 - not needed for --help
    from rich.live import Live  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    console = Console(highlight=False)
    last: list[str] = []
    try:
        with Live(console=console, screen=True, auto_refresh=False) as live:
            async for seen in _looks(look, watch, stopped):
                last = text(seen, console.width)
                picture = _picture(last, console.width, console.height)
                live.update(Text("\n".join(picture), no_wrap=True, overflow="ignore"), refresh=True)
    finally:
        if last:
            put(last)


def _picture(lines: Sequence[str], width: int, height: int) -> list[str]:
    """As much of ``lines`` as a screen has room for; a line that is longer than it goes on in the next."""
    folded: list[str] = []
    for line in lines:
        folded += _chopped(line, width)
        if len(folded) > height:
            break
    if len(folded) <= height:
        return folded
    hidden = "... more than this screen shows: make it larger, or leave --watch out"
    return [*folded[: height - 1], hidden[:width]]


def _chopped(line: str, width: int) -> list[str]:
    parts, part, used = [], "", 0
    for character in line:
        cells = cell_len(character)
        if used + cells > width:
            parts.append(part)
            part, used = "", 0
        part += character
        used += cells
    return [*parts, part]


def _json(seen: Any) -> list[str]:
    import json  # noqa: PLC0415 - not needed for --help

    return [json.dumps(seen, indent=2)]
