"""Flows that are parts of graphs."""

from __future__ import annotations

from typing import Any

from streams import Flow


def identity() -> Flow[Any, Any]:
    return Flow.identity()


def plus(n: int) -> Flow[int, int]:
    return identity().map(lambda element: element + n)
