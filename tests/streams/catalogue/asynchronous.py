"""Cases of the operators that wait for coroutines and threads."""

from __future__ import annotations

import asyncio
from typing import Any

from streams import Flow
from tests.streams.catalogue.case import FlowCase

PARALLELISM = 4
KEYS = 3


def start() -> Flow[int, int]:
    return Flow.identity()


def same(values: list[int]) -> list[Any]:
    return values


def negated(values: list[int]) -> list[Any]:
    return [-value for value in values]


def itself(value: int) -> int:
    return value


def key(value: int) -> int:
    return value % KEYS


async def at_once(value: Any) -> Any:
    return value


async def after_a_turn(value: int) -> int:
    await asyncio.sleep(0)
    return -value


async def keyed_after_a_turn(value: int, _key: int) -> int:
    return await after_a_turn(value)


async def keyed_at_once(value: Any, _key: int) -> Any:
    return value


FLOWS = [
    FlowCase(
        "map_async",
        lambda: start().map_async(PARALLELISM, at_once),
        same,
        ahead=PARALLELISM,
        identity=lambda: start().map_async(1, at_once),
    ),
    FlowCase("map_async, waiting", lambda: start().map_async(PARALLELISM, after_a_turn), negated, ahead=PARALLELISM),
    FlowCase(
        "map_async_unordered",
        lambda: start().map_async_unordered(PARALLELISM, at_once),
        same,
        ahead=PARALLELISM,
        identity=lambda: start().map_async_unordered(1, at_once),
    ),
    FlowCase(
        "map_async_unordered, waiting",
        lambda: start().map_async_unordered(PARALLELISM, after_a_turn),
        negated,
        ahead=PARALLELISM,
    ),
    FlowCase(
        "map_async_partitioned",
        lambda: start().map_async_partitioned(PARALLELISM, 1, key, keyed_at_once),
        same,
        ahead=PARALLELISM,
        identity=lambda: Flow[Any, Any].identity().map_async_partitioned(1, 1, lambda _: 0, keyed_at_once),
    ),
    FlowCase(
        "map_async_partitioned, waiting",
        lambda: start().map_async_partitioned(PARALLELISM, 1, key, keyed_after_a_turn),
        negated,
        ahead=PARALLELISM,
    ),
    FlowCase(
        "map_async_partitioned_unordered",
        lambda: start().map_async_partitioned_unordered(PARALLELISM, 1, key, keyed_at_once),
        ahead=PARALLELISM,
        identity=lambda: Flow[Any, Any].identity().map_async_partitioned_unordered(1, 1, lambda _: 0, keyed_at_once),
    ),
    FlowCase(
        "map_blocking",
        lambda: start().map_blocking(PARALLELISM, itself),
        same,
        ahead=PARALLELISM,
        costly=10,
        identity=lambda: start().map_blocking(1, itself),
        virtual_time=False,
    ),
    FlowCase(
        "map_blocking_unordered",
        lambda: start().map_blocking_unordered(PARALLELISM, itself),
        ahead=PARALLELISM,
        costly=10,
        identity=lambda: start().map_blocking_unordered(1, itself),
        virtual_time=False,
    ),
]
