"""map_blocking: a function that blocks over the elements, several at a time, each call in a thread."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Generic

from streams.contract import Subscriber
from streams.materialize import Materialization
from streams.stages.in_flight import InFlight, Place
from streams.stages.stage import I, O, describe
from streams.threads import Threads


class MapBlocking(InFlight[I, O], Generic[I, O]):
    """Results in the order of the elements. The threads are the stage's own, as many as are needed up to ``parallelism``."""

    __slots__ = ("_f", "_threads")

    def __init__(
        self,
        downstream: Subscriber[O],
        m: Materialization,
        parallelism: int,
        f: Callable[[I], O],
        name: str = "map_blocking",
    ) -> None:
        super().__init__(downstream, m, parallelism, name)
        self._f = f
        self._threads: Threads | None = None

    def _begin(self, place: Place, element: I) -> None:
        if self._threads is None:
            name = describe(self._name, self._f)
            self._threads = Threads(self._m.loop, self._parallelism, name)
            self._m.on_end(self._threads.ended, f"threads of {name}")
        try:
            self._threads.call(self._f, element, partial(self._returned, place, element))
        except RuntimeError as error:  # there is no thread for it
            place.fail(error, self._f)
            self._settled(place)

    def _blamed(self) -> Callable[..., Any]:
        return self._f

    def _returned(self, place: Place, element: I, result: Any, error: BaseException | None) -> None:
        if error is None:
            place.result = result
        else:
            place.fail(error, self._f, element)
        self._m.call(self._settled, place)

    def _finish(self) -> None:
        super()._finish()
        if self._threads is not None:
            self._threads.stop()


class MapBlockingUnordered(MapBlocking[I, O], Generic[I, O]):
    """Results as they are done."""

    __slots__ = ()

    ordered = False
