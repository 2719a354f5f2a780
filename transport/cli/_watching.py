"""Looking at a broker again and again: each look is drawn over the one before, or written behind it; a broker that goes may come back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any, Final

from rich.console import Console
from rich.live import Live
from rich.text import Text

from transport.cli._run import drop_unwritten, failures, on_signal, tell
from transport.cli._tables import cell_len, put, terminal_width
from transport.clients.administration import Administration
from transport.clients.backoff import is_transient
from transport.wire.shown import MAX_LINE_BYTES, shown

Look = Callable[[Administration], Awaitable[Any]]
Draw = Callable[[Any, int | None], list[str]]
"""The lines of what was seen, on a terminal of so many columns."""
AGAIN: Final = "trying again"


async def watch_over(
    administration: Administration, look: Look, draw: Draw, watch: float, verb: str, *, redraw: bool
) -> None:
    """Show what ``look`` sees every ``watch`` seconds, until a signal.

    A broken connection is told, and made again; what was seen last stays on the screen meanwhile. A refusal ends it.

    Args:
        administration: a client of the broker, connected.
        look: asks the broker.
        draw: the lines of what was seen.
        watch: seconds from one look to the next.
        verb: the command's name, for what is told on stderr.
        redraw: whether one look is drawn over the other, on a screen of its own.

    Raises:
        TransportError: the broker refused, or what came is not the protocol.
    """
    stopped = asyncio.Event()
    with on_signal(lambda _number: stopped.set()):
        try:
            async with aclosing(_looks(administration, look, watch, stopped)) as looks:
                await (_redraw(looks, draw) if redraw else _write(looks, draw, verb))
        except BrokenPipeError:
            # The reader of the pipe has seen enough.
            drop_unwritten()


class _Lost(Exception):  # noqa: N818 - seen in the place of what was looked for, and never raised
    """There is no connection to the broker at the moment; the text says why."""


class _Looker:
    """Looks at a broker, over another connection when one is broken."""

    def __init__(self, first: Administration, look: Look) -> None:
        self._first = first
        self._client: Administration | None = first
        self._look = look

    async def once(self) -> Any:
        """What is seen, or `_Lost`."""
        try:
            if self._client is None:
                client = self._first.another()
                await client.__aenter__()
                self._client = client
            return await self._look(self._client)
        except failures() as error:
            if not is_transient(error):
                raise
            await self.close()
            return _Lost(str(error))

    async def close(self) -> None:
        """End the connection."""
        if self._client is not None:
            client, self._client = self._client, None
            await client.close()


async def _looks(
    administration: Administration, look: Look, watch: float, stopped: asyncio.Event
) -> AsyncGenerator[Any, None]:
    """What is seen, every ``watch`` seconds until ``stopped``."""
    looker = _Looker(administration, look)
    stop = asyncio.ensure_future(stopped.wait())
    try:
        while not stop.done():
            looking = asyncio.ensure_future(looker.once())
            await asyncio.wait({looking, stop}, return_when=asyncio.FIRST_COMPLETED)
            if not looking.done():
                looking.cancel()
                await asyncio.wait({looking})
                return
            yield looking.result()
            await asyncio.wait({stop}, timeout=watch)
    finally:
        stop.cancel()
        await looker.close()


async def _write(looks: AsyncGenerator[Any, None], draw: Draw, verb: str) -> None:
    """Each look behind the one before; that the broker is gone, and is there again, is told on stderr once."""
    lost = False
    async for seen in looks:
        if isinstance(seen, _Lost):
            if not lost:
                tell(verb, f"{seen}; {AGAIN}")
            lost = True
            continue
        if lost:
            tell(verb, "going on")
            lost = False
        put(draw(seen, terminal_width()))


async def _redraw(looks: AsyncGenerator[Any, None], draw: Draw) -> None:
    """Draw each look over the one before, on a screen of its own. The last one stays when that is over."""
    console = Console(highlight=False)
    last: list[str] = []
    try:
        with Live(console=console, screen=True, auto_refresh=False) as live:
            async for seen in looks:
                if isinstance(seen, _Lost):
                    # Whoever answers there chose the words.
                    lines = [shown(" ".join(f"{seen}; {AGAIN}".split()), MAX_LINE_BYTES), "", *last]
                else:
                    lines = last = draw(seen, console.width)
                picture = _picture(lines, console.width, console.height)
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
