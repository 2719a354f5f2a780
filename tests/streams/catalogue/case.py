"""What a case is: one operator, source or sink as the generated tests need it. Each group of operators lists its cases in a module here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from streams import Flow, Sink, Source


@dataclass(frozen=True, slots=True)
class FlowCase:
    """An operator, as a flow of the numbers 0, 1, 2, ...

    Attributes:
        name: as in the docs; a variant after a comma: ``"buffer, drop_head"``.
        flow: makes the flow.
        model: what comes out, as a list, when the numbers of a list flow in and downstream takes all; None if that depends on time.
        ratio: elements upstream gives for one that downstream takes, on average over an endless stream.
        ahead: elements that upstream may have given beyond ``ratio`` times what downstream has asked for; None where upstream is not
            held back, because the operator drops or condenses what downstream does not take.
        ends: it ends a stream that has no end.
        costly: how many times fewer elements it gets where others get millions: for what takes so much longer by its nature.
        identity: the operator in a form that lets everything through as it comes, if it has one.
        virtual_time: it can be tested in virtual time: no thread or file takes part.
    """

    name: str
    flow: Callable[[], Flow[Any, Any]]
    model: Callable[[list[int]], list[Any]] | None = None
    ratio: float = 1.0
    ahead: int | None = 0
    ends: bool = False
    costly: int = 1
    identity: Callable[[], Flow[Any, Any]] | None = None
    virtual_time: bool = True


@dataclass(frozen=True, slots=True)
class SourceCase:
    """A source.

    Attributes:
        name: as in the docs.
        exactly: makes a source of that many elements, if it can.
        endless: makes a source without end, if it can; elements of 1 KiB at most.
        virtual_time: it can be tested in virtual time: no thread or file takes part.
    """

    name: str
    exactly: Callable[[int], Source[Any]] | None = None
    endless: Callable[[], Source[Any]] | None = None
    virtual_time: bool = True


@dataclass(frozen=True, slots=True)
class SinkCase:
    """A sink for numbers.

    Attributes:
        name: as in the docs.
        sink: makes it.
        result: what a run results in when the numbers of a list flow in; None if that is of no interest.
        endless: it can take a stream without end in bounded memory, by itself.
        virtual_time: it can be tested in virtual time: no thread or file takes part.
    """

    name: str
    sink: Callable[[], Sink[Any, Any]]
    result: Callable[[list[int]], Any] | None = None
    endless: bool = True
    virtual_time: bool = True
