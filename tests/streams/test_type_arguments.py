"""The arguments of our types at run time: the materialized value may be said or left out, and nobody counts.

Type checkers are in `test_types`.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Any, Generic, TypeVar, get_args, get_origin

import pytest

from streams import (
    BidiFlow,
    Flow,
    GraphPart,
    Materialization,
    Publisher,
    RunnableGraph,
    Running,
    Sink,
    Source,
    SourceLike,
    SourceQueue,
    SubFlow,
    SubSource,
)
from streams.junctions import Junction, JunctionPorts
from streams.testkit import run_in_virtual_time

T = TypeVar("T")
TAKES: dict[Any, int] = {
    Source: 1,
    Flow: 2,
    Sink: 2,
    BidiFlow: 4,
    RunnableGraph: 1,
    Running: 1,
    GraphPart: 2,
    SourceLike: 1,
    Junction: 2,
    JunctionPorts: 2,
    SubSource: 1,
    SubFlow: 2,
}


@pytest.mark.parametrize("kind", TAKES, ids=lambda kind: kind.__name__)
def test_the_materialized_value_may_be_said_or_left_out(kind: Any) -> None:
    elements = (int,) * TAKES[kind]
    for arguments in (elements, (*elements, SourceQueue[int]), (*elements, None)):
        assert get_origin(kind[arguments]) is kind
        assert get_args(kind[arguments]) == arguments
    assert get_args(kind[(T,) * TAKES[kind]][str]) == (str,) * TAKES[kind]
    assert get_args(kind[elements] | None) == (kind[elements], type(None))


def test_what_is_made_of_a_type_with_arguments_is_made_of_the_type() -> None:
    async def main() -> list[str]:
        flow = Flow[int, int, None].identity().map(str)
        source = Source[int, None](Source[int].of(1, 2).create, "two")
        assert type(source) is Source
        assert type(flow) is Flow
        return await source.via(flow).run_with(Sink[str, list[str]].collect())

    assert run_in_virtual_time(main()) == ["1", "2"]


def test_a_type_with_arguments_can_be_derived_from() -> None:
    class Pairs(Source[tuple[T, T], str], Generic[T]):
        def __init__(self, element: T) -> None:
            super().__init__(lambda m: (Source.of((element, element)).create(m)[0], "pairs"))

    class Beginning(SourceLike[int]):
        def create(self, m: Materialization, /) -> tuple[Publisher[int], Any]:
            return Source.of(1).create(m)

    async def main() -> None:
        running = Pairs[int](1).run_with(Sink.collect())
        assert running.value == "pairs"
        assert await running == [(1, 1)]
        assert await Source.of(2).concat(Beginning()).run_with(Sink.collect()) == [2, 1]

    run_in_virtual_time(main())


def test_no_library_is_loaded_for_type_variables_that_only_type_checkers_read() -> None:
    program = "import sys, streams; streams.Source, streams.GraphBuilder; print('typing_extensions' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert said.stdout == "False\n"
