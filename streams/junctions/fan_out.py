"""Junctions with one input and several outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from streams.junctions.junction import JunctionPorts
from streams.materialize import Materialization
from streams.operators.via import positive
from streams.stages import fan_out as stages

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)


@dataclass(frozen=True)
class _FanOut(Generic[T]):
    """A junction with one input.

    Attributes:
        outputs: how many outputs.
    """

    outputs: int

    name: ClassVar[str] = "fan_out"
    inputs: ClassVar[int] = 1

    def __post_init__(self) -> None:
        positive(type(self).__name__, "outputs", self.outputs)

    def create_junction(self, m: Materialization, /) -> JunctionPorts[T, Any, None]:
        """The hub of one run."""
        hub = self._hub()
        hub.decider = m.decider
        return JunctionPorts((hub,), hub.outlets)

    def _hub(self) -> stages.FanOut[T]:
        raise NotImplementedError


@dataclass(frozen=True)
class Broadcast(_FanOut[T], Generic[T]):
    """Every output gets every element, at the pace of the slowest that is still there.

    Attributes:
        outputs: how many outputs.
        eager_cancel: the first output that cancels ends the whole: the input is cancelled, the other outputs complete. Else the last does.
    """

    eager_cancel: bool = False

    name: ClassVar[str] = "broadcast"

    def create_junction(self, m: Materialization, /) -> JunctionPorts[T, T, None]:
        """The hub of one run."""
        return super().create_junction(m)

    def _hub(self) -> stages.FanOut[T]:
        return stages.Broadcast(self.outputs, self.eager_cancel)


@dataclass(frozen=True)
class Balance(_FanOut[T], Generic[T]):
    """Each element goes to one output that has asked for it, in turn.

    Attributes:
        outputs: how many outputs.
        wait_for_all: the input is asked for nothing before every output has asked for something.
        eager_cancel: the first output that cancels ends the whole. Else the last does.
    """

    wait_for_all: bool = False
    eager_cancel: bool = False

    name: ClassVar[str] = "balance"

    def create_junction(self, m: Materialization, /) -> JunctionPorts[T, T, None]:
        """The hub of one run."""
        return super().create_junction(m)

    def _hub(self) -> stages.FanOut[T]:
        return stages.Balance(self.outputs, self.wait_for_all, self.eager_cancel)


@dataclass(frozen=True)
class Partition(_FanOut[T], Generic[T]):
    """Each element goes to the output that a function names; while that has not asked for it, the others wait.

    Attributes:
        outputs: how many outputs.
        f: gives the index of the output.
        eager_cancel: the first output that cancels ends the whole. Else elements for it are dropped, and the last ends it.
    """

    f: Callable[[T], int]
    eager_cancel: bool = False

    name: ClassVar[str] = "partition"

    def create_junction(self, m: Materialization, /) -> JunctionPorts[T, T, None]:
        """The hub of one run."""
        return super().create_junction(m)

    def _hub(self) -> stages.FanOut[T]:
        return stages.Partition(self.outputs, self.f, self.eager_cancel)


@dataclass(frozen=True)
class UnzipWith(_FanOut[T], Generic[T]):
    """Each output gets its part of every element, at the pace of the slowest that is still there.

    Attributes:
        outputs: how many outputs.
        f: gives the parts of an element, as many as there are outputs; other numbers of them fail the stream with ``ValueError``.
        eager_cancel: the first output that cancels ends the whole. Else the last does.
    """

    f: Callable[[T], Sequence[Any]]
    eager_cancel: bool = False

    name: ClassVar[str] = "unzip_with"

    def _hub(self) -> stages.FanOut[T]:
        return stages.UnzipWith(self.outputs, self.f, self.eager_cancel)


@dataclass(frozen=True)
class Unzip(_FanOut[Sequence[Any]]):
    """Takes tuples apart: each output gets its place of every one, at the pace of the slowest that is still there.

    Attributes:
        outputs: how many outputs; a tuple of another length fails the stream with ``ValueError``.
        eager_cancel: the first output that cancels ends the whole. Else the last does.
    """

    outputs: int = 2
    eager_cancel: bool = False

    name: ClassVar[str] = "unzip"

    def _hub(self) -> stages.FanOut[Sequence[Any]]:
        return stages.UnzipWith(self.outputs, None, self.eager_cancel)
