"""An answer that would have to be awaited where nobody awaits it: it is refused, and the operator named."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from streams import RestartSettings, RestartSource, Sink, Source
from streams.testkit import run_in_virtual_time


async def find_out(*_arguments: object) -> bool:
    return True


# ruff: noqa: PLW0108 - lambdas that return coroutines: what they are cannot be seen before they are called
FAILING = Source.of(1, 2).map(lambda n: n // (n - 1))
SETTINGS = RestartSettings(1, 1, restart_on=lambda error: find_out(error))  # type: ignore[return-value,arg-type]
CASES: dict[str, Callable[[], Source[Any]]] = {
    "filter": lambda: Source.of(1, 2).filter(lambda n: find_out(n)),
    "filter_not": lambda: Source.of(1, 2).filter_not(lambda n: find_out(n)),
    "take_while": lambda: Source.of(1, 2).take_while(lambda n: find_out(n)),
    "drop_while": lambda: Source.of(1, 2).drop_while(lambda n: find_out(n)),
    "split_when": lambda: Source.of(1, 2).split_when(lambda n: find_out(n)).merge_substreams(),
    "split_after": lambda: Source.of(1, 2).split_after(lambda n: find_out(n)).merge_substreams(),
    "group_by": lambda: Source.of(1, 2).group_by(4, lambda n: find_out(n)).merge_substreams(),
    "divert_to": lambda: Source.of(1, 2).divert_to(Sink.ignore(), lambda n: find_out(n)),
    "map_async_partitioned": lambda: Source.of(1, 2).map_async_partitioned(2, 1, lambda n: find_out(n), find_out),
    "recover": lambda: FAILING.recover(lambda error: find_out(error)),
    "on_error_complete": lambda: FAILING.on_error_complete(lambda error: find_out(error)),
    "restart": lambda: RestartSource.on_failures_with_backoff(SETTINGS, lambda: FAILING),
}


@pytest.mark.parametrize("name", CASES)
def test_a_coroutine_in_the_place_of_an_answer_fails_the_stream_and_names_the_operator(name: str) -> None:
    async def main() -> None:
        with pytest.raises(TypeError, match="awaitable") as raised:
            await CASES[name]().to(Sink.ignore()).run()
        assert any(name in note for note in raised.value.__notes__)

    run_in_virtual_time(main())


def test_a_partition_by_a_coroutine_is_refused() -> None:
    async def main() -> None:
        with pytest.raises(TypeError, match="awaitable"):
            await Source.of(1).partition(lambda n: find_out(n), Sink.ignore(), Sink.ignore()).run()  # type: ignore[arg-type,return-value]

    run_in_virtual_time(main())


def test_a_future_is_no_answer_either_and_other_values_are_taken_as_they_are() -> None:
    async def main() -> None:
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        with pytest.raises(TypeError, match="awaitable"):
            await Source.of(1).filter(lambda _: future).to(Sink.ignore()).run()
        assert await Source.of(0, 1, 2).filter(lambda n: n).to(Sink.collect()).run() == [1, 2]
        assert await Source.of(0, 1, 2).filter_not(lambda n: [] if n else [n]).to(Sink.collect()).run() == [1, 2]

    run_in_virtual_time(main())
