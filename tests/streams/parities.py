"""Substreams of even and odd numbers."""

from __future__ import annotations

from typing import Any

from streams import (
    Flow,
)
from streams.testkit import TestSink, TestSource
from tests.streams.substream_probes import raw, subscribed


def parity(n: int) -> int:
    return n % 2


def by_parity(*, most: int = 2, recreate: bool = False) -> Flow[int, Any]:
    """The stream of substreams, before it is put together again."""
    return raw(Flow[int, int].identity().group_by(most, parity, allow_closed_substream_recreation=recreate))


async def send(source: TestSource[int], out: TestSink[Any], element: int) -> Any:
    """Sends the first element of a substream; returns a probe that has it."""
    await out.expect_subscription()
    out.request(1)
    await source.probe.expect_request(1)
    source.probe.send_next(element)
    substream = subscribed(await out.expect_next())
    substream.request(1)
    await substream.expect_next(element)
    return substream
