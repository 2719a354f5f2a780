"""How a run comes to its end in good order: its sources are told that nothing more comes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol
from weakref import ref


class Run(Protocol):
    """What is asked of a run here; `Materialization` is one."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop that it lives on."""
        ...

    def call(self, callback: Callable[..., object], *arguments: Any) -> None:
        """Call ``callback``; what it raises fails the run."""
        ...

    def in_context(self, callback: Callable[..., object], *arguments: Any) -> None:
        """Call ``callback`` with the run's context variables."""
        ...


class Drainable(Protocol):
    """A source at work that can be told to have come to its end. Its class has ``__weakref__``."""

    def drained(self) -> None:
        """Completes as if nothing more came, unless it is over; not called from within a signal."""
        ...


class Draining:
    """The sources of a run that can be told, and whether they have been."""

    __slots__ = ("_by", "_sources")

    def __init__(self) -> None:
        self._by: ref[Run] | None = None
        """The run that has told them."""
        self._sources: list[ref[Drainable]] = []
        """Held weakly: a source lets go of its subscriber when that cancels (3.13)."""

    def add(self, source: Drainable) -> None:
        """Register a source; one that comes when the others have been told is told at once."""
        run = None if self._by is None else self._by()
        if run is None:
            self._sources.append(ref(source))
        else:
            run.loop.call_soon(run.call, source.drained)

    def begin(self, run: Run) -> None:
        """Tell them all, as a call within ``run``."""
        self._by = ref(run)
        sources, self._sources = self._sources, []
        for reference in sources:
            if (source := reference()) is not None:
                run.in_context(run.call, source.drained)
