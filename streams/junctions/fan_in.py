"""Junctions with several inputs and one output."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from streams.junctions.junction import JunctionPorts
from streams.materialize import Materialization
from streams.operators.via import positive
from streams.stages import concat, merges, zips
from streams.stages.fan_in import FanIn

T = TypeVar("T")
R = TypeVar("R")


class _FanIn(Generic[T, R]):
    """A junction with one output."""

    name: ClassVar[str] = "fan_in"
    outputs: ClassVar[int] = 1
    inputs: int

    def __post_init__(self) -> None:
        positive(type(self).__name__, "inputs", self.inputs)

    def create_junction(self, m: Materialization, /) -> JunctionPorts[T, R, None]:
        """The hub of one run."""
        hub = self._hub()
        hub.m = m
        return JunctionPorts(hub.inlets, (hub,))

    def _hub(self) -> FanIn[Any]:
        raise NotImplementedError


@dataclass(frozen=True)
class Merge(_FanIn[T, T], Generic[T]):
    """Elements of all inputs, as they come.

    Attributes:
        inputs: how many inputs.
        eager_complete: the first input that ends is the end. Else the last is.
    """

    inputs: int
    eager_complete: bool = False

    name: ClassVar[str] = "merge"

    def _hub(self) -> FanIn[Any]:
        return merges.Merge(self.inputs, self.eager_complete)


@dataclass(frozen=True)
class MergePreferred(_FanIn[T, T], Generic[T]):
    """Elements of all inputs, as they come; where several have one, ``inlets[0]`` goes first, then the others in turn.

    Attributes:
        inputs: how many inputs, the preferred one among them.
        eager_complete: the first input that ends is the end. Else the last is.
    """

    inputs: int
    eager_complete: bool = False

    name: ClassVar[str] = "merge_preferred"

    def _hub(self) -> FanIn[Any]:
        return merges.MergePreferred(self.inputs, self.eager_complete)


@dataclass(frozen=True)
class MergePrioritized(_FanIn[T, T], Generic[T]):
    """Elements of all inputs, as they come; those that have some wait are served in proportion to their weights, evenly spread.

    Attributes:
        weights: one for each input, 1 or more.
        eager_complete: the first input that ends is the end. Else the last is.
    """

    weights: tuple[int, ...]
    eager_complete: bool = False

    name: ClassVar[str] = "merge_prioritized"

    def __post_init__(self) -> None:
        super().__post_init__()
        for weight in self.weights:
            positive("MergePrioritized", "a weight", weight)

    @property
    def inputs(self) -> int:  # type: ignore[override]  # a field of the others, and what the weights say here
        """As many as there are weights."""
        return len(self.weights)

    def _hub(self) -> FanIn[Any]:
        return merges.MergePrioritized(self.weights, self.eager_complete)


@dataclass(frozen=True)
class MergeSorted(_FanIn[T, T], Generic[T]):
    """The smallest of the inputs' next elements, so sorted inputs make a sorted output; of equals, the earlier input's first.

    Attributes:
        inputs: how many inputs.
        key: gives what is compared with ``<``; None compares the elements.
    """

    inputs: int
    key: Callable[[T], Any] | None = None

    name: ClassVar[str] = "merge_sorted"

    def _hub(self) -> FanIn[Any]:
        return merges.MergeSorted(self.inputs, self.key)


@dataclass(frozen=True)
class MergeLatest(_FanIn[T, list[T]], Generic[T]):
    """After each element of any input, the list of the latest of each, from where every input has had one.

    Attributes:
        inputs: how many inputs.
        eager_complete: the first input that ends is the end. Else the last is.
    """

    inputs: int
    eager_complete: bool = False

    name: ClassVar[str] = "merge_latest"

    def _hub(self) -> FanIn[Any]:
        return zips.MergeLatest(self.inputs, self.eager_complete)


@dataclass(frozen=True)
class Interleave(_FanIn[T, T], Generic[T]):
    """``segment_size`` elements of each input in turn; an input that has ended is passed over.

    Attributes:
        inputs: how many inputs.
        segment_size: elements in a turn.
        eager_close: the end is where the next element would be of an input that has ended. Else the last that ends is the end.
    """

    inputs: int
    segment_size: int
    eager_close: bool = False

    name: ClassVar[str] = "interleave"

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("Interleave", "segment_size", self.segment_size)

    def _hub(self) -> FanIn[Any]:
        return merges.Interleave(self.inputs, self.segment_size, self.eager_close)


@dataclass(frozen=True)
class Concat(_FanIn[T, T], Generic[T]):
    """All elements of the first input, then all of the second, and so on; only the one whose turn it is gets asked.

    Attributes:
        inputs: how many inputs.
    """

    inputs: int = 2

    name: ClassVar[str] = "concat"

    def _hub(self) -> FanIn[Any]:
        return concat.ConcatInputs(self.inputs)


@dataclass(frozen=True)
class Zip(_FanIn[Any, tuple[Any, ...]]):
    """Tuples of the first of each, the second of each ...; ends when one input has and its elements are used up.

    Attributes:
        inputs: how many inputs.
    """

    inputs: int = 2

    name: ClassVar[str] = "zip"

    def _hub(self) -> FanIn[Any]:
        return zips.Zip(self.inputs)


@dataclass(frozen=True)
class ZipWith(_FanIn[Any, R], Generic[R]):
    """What ``f`` makes of the first of each, the second of each ...; ends as `Zip` does.

    Attributes:
        inputs: how many inputs.
        f: is called with one element of each input, in their order.
    """

    inputs: int
    f: Callable[..., R]

    name: ClassVar[str] = "zip_with"

    def _hub(self) -> FanIn[Any]:
        return zips.ZipWith(self.inputs, self.f)


@dataclass(frozen=True)
class ZipAll(_FanIn[Any, tuple[Any, ...]]):
    """Tuples of the first of each, the second of each ...; an input that has ended is stood for by its default, until all have.

    Attributes:
        defaults: one for each input.
    """

    defaults: tuple[Any, ...]

    name: ClassVar[str] = "zip_all"

    @property
    def inputs(self) -> int:  # type: ignore[override]  # a field of the others, and what the defaults say here
        """As many as there are defaults."""
        return len(self.defaults)

    def _hub(self) -> FanIn[Any]:
        return zips.ZipAll(self.defaults)


@dataclass(frozen=True)
class ZipLatest(_FanIn[Any, tuple[Any, ...]]):
    """After each element of any input, the tuple of the latest of each, from where every input has had one; ends when any has.

    Attributes:
        inputs: how many inputs.
    """

    inputs: int = 2

    name: ClassVar[str] = "zip_latest"

    def _hub(self) -> FanIn[Any]:
        return zips.ZipLatest(self.inputs, eager_complete=True)


@dataclass(frozen=True)
class ZipLatestWith(_FanIn[Any, R], Generic[R]):
    """What ``f`` makes of the latest of each, after each element of any input, from where every input has had one.

    Attributes:
        inputs: how many inputs.
        f: is called with the latest of each input, in their order.
        eager_complete: the first input that ends is the end. Else the last is.
    """

    inputs: int
    f: Callable[..., R]
    eager_complete: bool = True

    name: ClassVar[str] = "zip_latest_with"

    def _hub(self) -> FanIn[Any]:
        return zips.ZipLatestWith(self.inputs, self.f, self.eager_complete)
