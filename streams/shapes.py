"""What can stand at each place of a graph, by shape: `via`, `to` and `merge` accept anything that has the one method."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol, TypeVar

from streams.contract import Publisher
from streams.materialize import Materialization

I_contra = TypeVar("I_contra", contravariant=True)
O_co = TypeVar("O_co", covariant=True)
M = TypeVar("M")


class SourceLike(Protocol[O_co]):
    """The beginning of a graph."""

    def create(self, m: Materialization, /) -> tuple[Publisher[O_co], Any]:
        """A publisher for this run, and the source's materialized value."""
        ...


class FlowLike(Protocol[I_contra, O_co]):
    """The middle of a graph."""

    def attach_flow(self, publisher: Publisher[I_contra], m: Materialization, /) -> Publisher[O_co]:
        """What comes out when ``publisher`` flows in."""
        ...


class SinkLike(Protocol[I_contra, M]):
    """The end of a graph."""

    def attach_sink(self, publisher: Publisher[I_contra], m: Materialization, /) -> asyncio.Future[M]:
        """Subscribes to ``publisher``; the future is done when the sink is done.

        A sink stops its upstream when the run is cancelled: it registers its subscription's ``cancel`` with ``m.on_cancel``.
        """
        ...
