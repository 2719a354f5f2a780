"""`RunnableGraph`: a description with no open end, ready to run any number of times."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from streams.keep import Combine, first
from streams.materialize import Materialization
from streams.operators.via import functions
from streams.running import Running, start
from streams.shapes import SinkLike, SourceLike, create_sink, expect_sink, name_of
from streams.supervised_run import SupervisedRun
from streams.supervision import Decider
from streams.type_variables import Generic, V_co

T = TypeVar("T")
M = TypeVar("M")
M_co = TypeVar("M_co", covariant=True)


class RunnableGraph(Generic[M_co, V_co]):
    """An immutable description of a whole stream; ``M`` is what a run results in, ``V`` what it materializes.

    Args:
        assemble: puts one run together: returns the future of the sink's result, and the materialized value.
        name: seen in handles, task names and failures.
    """

    def __init__(self, assemble: Callable[[Materialization], tuple[asyncio.Future[M_co], V_co]], name: str) -> None:
        self._assemble = assemble
        self.name = name

    def run(self) -> Running[M_co, V_co]:
        """Starts one run on the running event loop and returns its handle at once.

        Raises:
            RuntimeError: no event loop is running in this thread.
        """
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            raise RuntimeError("run() needs a running event loop; from synchronous code use run_blocking()") from None
        return start(loop, self._assemble, self.name)

    def run_blocking(self) -> M_co:
        """Runs to the end on an event loop of its own and returns the result: for synchronous code.

        Raises:
            RuntimeError: an event loop is running in this thread, and would be blocked.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(self._run_to_end())
        raise RuntimeError(
            "run_blocking() would block the event loop that runs in this thread: await graph.run() instead"
        )

    async def _run_to_end(self) -> M_co:
        return await self.run()

    def with_supervision(self, decider: Decider) -> RunnableGraph[M_co, V_co]:
        """The same graph, but where a user's function fails on an element, ``decider(failure)`` says what its stage or junction does.

        It holds for all parts but those that have a decider already: see docs/failures.md. In a sink it holds for the flows in front.
        """
        functions("with_supervision", decider=decider)
        return RunnableGraph(lambda m: self._assemble(SupervisedRun(m, decider)), self.name)

    def __repr__(self) -> str:
        return f"<RunnableGraph {self.name}>"


def connect(source: SourceLike[T], sink: SinkLike[T, M], combine: Combine = first) -> RunnableGraph[M]:
    """The graph of a source and a sink. What it materializes is said by the overloads of `Source.to`.

    Raises:
        TypeError: the sink is none.
    """
    expect_sink(sink)

    def assemble(m: Materialization) -> tuple[asyncio.Future[M], Any]:
        publisher, left = source.create(m)
        future, right = create_sink(sink, publisher, m)
        return future, combine(left, right)

    return RunnableGraph(assemble, f"{name_of(source)} -> {name_of(sink)}")
