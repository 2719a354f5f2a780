"""`penstock top` on a terminal: a screen of its own, keys, its size, and how all of that is put back."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, aclosing, contextmanager

from rich.console import Console
from rich.live import Live
from rich.text import Text

from transport.cli._tables import put
from transport.cli._top_keys import pressed, until_foreground
from transport.cli._top_looks import Looks, Wanted
from transport.cli._top_screen import screen
from transport.cli._top_state import FLOW, LIST, State

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


async def show_looks(looks: Looks, wanted: Wanted) -> None:
    """Show what is seen until q, a signal, or the last look.

    Raises:
        TransportError, OSError: as of `Looks.all`; the terminal is as it was by then.
    """
    state = State(wanted.order, wanted.contains, LIST if wanted.queue is None else FLOW, wanted.queue)
    terminal = _Terminal(looks, state)
    looks.want(state.wanted)
    looking = asyncio.ensure_future(terminal.look())
    looking.add_done_callback(lambda _: terminal.end())
    with terminal.entered():
        await terminal.until_ended()
    counted = looking.done()
    looking.cancel()
    await asyncio.wait({looking})
    if counted and not looking.cancelled() and looking.exception() is None:
        # Whoever asks for so many looks wants to see the last.
        terminal.leave_last()
    if not looking.cancelled() and (error := looking.exception()) is not None:
        raise error


class _Terminal:
    def __init__(self, looks: Looks, state: State) -> None:
        self._looks = looks
        self._state = state
        self._ended = asyncio.Event()
        self._console = Console(highlight=False)
        self._live: Live | None = None
        self._stack = ExitStack()

    async def look(self) -> None:
        async with aclosing(self._looks.all()) as all_looks:
            async for seen in all_looks:
                self._state.see(seen)
                self._looks.want(self._state.wanted)
                self._draw()

    def end(self) -> None:
        self._ended.set()

    def leave_last(self) -> None:
        """Write what was seen last where the screen was before."""
        width, height = self._console.size
        lines = [line.plain.rstrip() for line in screen(self._state, self._looks.where, width, height)[:-1]]
        while lines and not lines[-1]:
            lines.pop()
        put(lines)

    async def until_ended(self) -> None:
        await self._ended.wait()

    @contextmanager
    def entered(self) -> Iterator[None]:
        """The terminal is ours; whatever happens, it is given back."""
        try:
            self._resume()
            yield
        finally:
            self._leave()
            self._hear_no_signals()

    def _resume(self) -> None:
        """Begin, or go on, once we are in the foreground."""
        until_foreground(sys.stdin.fileno())
        loop = asyncio.get_running_loop()
        for number in ENDING:
            loop.add_signal_handler(number, self.end)
        loop.add_signal_handler(signal.SIGWINCH, self._draw)
        loop.add_signal_handler(signal.SIGTSTP, self._suspend)
        self._enter()

    def _hear_no_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (*ENDING, signal.SIGWINCH, signal.SIGTSTP):
            loop.remove_signal_handler(number)

    def _enter(self) -> None:
        self._stack = ExitStack()
        self._live = self._stack.enter_context(
            Live(console=self._console, screen=True, auto_refresh=False, redirect_stdout=False, redirect_stderr=False)
        )
        self._stack.enter_context(pressed(sys.stdin.fileno(), self._press, self.end))
        self._draw()

    def _leave(self) -> None:
        self._live = None
        self._stack.close()

    def _suspend(self) -> None:
        """Ctrl-Z: the shell gets its terminal as it was, and we ours when we are in the foreground again."""
        self._leave()
        # Whoever is told to end while stopped ends at once: the terminal is the shell's.
        self._hear_no_signals()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._resume()

    def _press(self, key: str) -> None:
        self._state.press(key)
        if self._state.ended:
            self.end()
            return
        self._looks.want(self._state.wanted)
        self._draw()

    def _draw(self) -> None:
        if self._live is None:
            return
        width, height = self._console.size
        lines = screen(self._state, self._looks.where, width, height)
        self._live.update(Text("\n", no_wrap=True, overflow="ignore").join(lines), refresh=True)
