"""map_async_partitioned: an asynchronous function over the elements, with a bound on how many of one partition are worked on at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from types import CoroutineType
from typing import Any, Generic

from streams.contract import Subscriber
from streams.errors import FAILURES
from streams.materialize import Materialization
from streams.plain import plain
from streams.stages.in_flight import Place
from streams.stages.map_async import MapAsync
from streams.stages.stage import I, O


class MapAsyncPartitioned(MapAsync[I, O], Generic[I, O]):
    """As `MapAsync`, but an element whose partition is busy waits until that is not; those behind it in other partitions do not.

    Args:
        downstream: where the results go.
        m: the run.
        parallelism: elements under way, waiting ones and results that nobody has asked for among them.
        per_partition: those of one partition that are worked on at once; with 1 they are worked on in their order.
        partition: gives an element's partition.
        f: gets the element and its partition.
        name: names the stage in failures.
    """

    __slots__ = ("_at_work", "_held", "_partition", "_per_partition")

    def __init__(
        self,
        downstream: Subscriber[O],
        m: Materialization,
        parallelism: int,
        per_partition: int,
        partition: Callable[[I], Hashable],
        f: Callable[..., Awaitable[O]],
        name: str = "map_async_partitioned",
    ) -> None:
        super().__init__(downstream, m, parallelism, f, name)
        self._per_partition = per_partition
        self._partition = partition
        self._at_work: dict[Hashable, int] = {}
        """Elements of each partition that are worked on; no entry where there are none."""
        self._held: dict[Hashable, deque[tuple[Place, I]]] = {}
        """Elements that wait for their partition; no entry where there are none."""

    def _begin(self, place: Place, element: I) -> None:
        try:
            key = place.key = self._partition(element)
            if type(key) is CoroutineType:
                plain(key)
            at_work = self._at_work.get(key, 0)
        except FAILURES as error:  # whatever user code raises goes down the stream
            place.fail(error, self._partition, element)
            super()._settled(place)
            return
        if at_work < self._per_partition:
            self._at_work[place.key] = at_work + 1
            super()._begin(place, element)
        else:
            self._held.setdefault(place.key, deque()).append((place, element))

    def _settled(self, place: Place) -> None:
        if not self._done:
            self._make_way(place.key)
        super()._settled(place)

    def _make_way(self, key: Hashable) -> None:
        """Work on an element of this partition has ended: the next begins."""
        held = self._held.get(key)
        if held is not None:
            super()._begin(*held.popleft())
            if not held:
                del self._held[key]
        elif self._at_work[key] > 1:
            self._at_work[key] -= 1
        else:
            del self._at_work[key]

    def _call(self, place: Place, element: I) -> Any:
        return self._f(element, place.key)

    def _finish(self) -> None:
        super()._finish()
        self._held.clear()
        self._at_work.clear()


class MapAsyncPartitionedUnordered(MapAsyncPartitioned[I, O], Generic[I, O]):
    """Results as they are done: with one at a time, in order within each partition."""

    __slots__ = ()

    ordered = False
