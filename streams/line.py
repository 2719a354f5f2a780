"""Flows one behind the other, as a source or a flow holds them: put together in a loop, however many there are."""

from __future__ import annotations

from typing import Any

from streams.contract import Publisher
from streams.keep import Combine
from streams.materialize import Materialization
from streams.shapes import FlowLike, create_flow
from streams.stages.concat import ConcatFlow

Line = tuple[tuple[FlowLike[Any, Any], Combine], ...]
"""Flows, and how the materialized value of each is put together with those before it."""


def longer(line: Line, flow: FlowLike[Any, Any], combine: Combine) -> Line:
    """``line`` with ``flow`` at its end; a concat behind a concat is one, of the sources of both."""
    if line and isinstance(flow, ConcatFlow):
        last, its_combine = line[-1]
        together = last.followed_by(flow) if isinstance(last, ConcatFlow) and its_combine is combine else None
        if together is not None:
            return (*line[:-1], (together, combine))
    return (*line, (flow, combine))


def put_behind(publisher: Publisher[Any], value: Any, line: Line, m: Materialization) -> tuple[Publisher[Any], Any]:
    """Puts ``line`` behind ``publisher`` for one run; with the materialized value of all."""
    for flow, combine in line:
        publisher, its_value = create_flow(flow, publisher, m)
        value = combine(value, its_value)
    return publisher, value
