"""The results of several sinks as one: the first failure is the whole's, and no other is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from streams.materialize import Materialization


def all_done(
    m: Materialization, results: Sequence[asyncio.Future[Any]], chosen: Callable[[list[Any]], Any] = list
) -> asyncio.Future[Any]:
    """A future of all the results, in their order, or of what ``chosen`` makes of them.

    It is done when all are, or one has failed or was cancelled. The first failure is that of the future. A second one has nobody to
    go to, and is reported.
    """
    together: asyncio.Future[Any] = m.loop.create_future()
    left = len(results)
    failures: list[BaseException] = []

    def done(result: asyncio.Future[Any]) -> None:
        nonlocal left
        left -= 1
        error = None if result.cancelled() else result.exception()
        if error is not None:
            if failures and not any(error is known for known in failures):  # an upstream's failure comes to all sinks
                m.report("a further sink of a stream failed, after the one whose failure is the stream's", error)
            failures.append(error)
        if together.done():
            return
        if error is not None:
            together.set_exception(error)
        elif result.cancelled():
            together.cancel()
        elif not left:
            together.set_result(chosen([result.result() for result in results]))

    for result in results:
        result.add_done_callback(done)
    return together
