"""`Flow.rx`: operators of reactivex as a flow."""

from __future__ import annotations

from typing import Any

from reactivex import Observable

from streams.contract import Subscriber
from streams.materialize import Materialization
from streams.rx.expansion import Unfinished, assemble
from streams.rx.recognise import RxOperator, is_curried, recognise
from streams.rx.stage import ExpandingRxStage, RxStage
from streams.stages.stage import StageFlow


def rx_flow(operators: tuple[RxOperator, ...], trust: bool, max_expansion: int) -> StageFlow[Any, Any]:
    """The flow of one stage that ``operators`` are in; for the arguments see `Flow.rx`."""
    if max_expansion < 1:
        raise ValueError(f"rx: max_expansion must be at least 1, not {max_expansion}")
    steps = tuple(step for operator in operators for step in recognise(operator, trust))
    # A curried operator looks at its arguments when it is put behind a source: what it says of them is said here, not in a run.
    assemble(Observable(), tuple(step for step in steps if is_curried(step.operator)), Unfinished())
    name = f"rx({', '.join(step.name for step in steps)})"

    def make(downstream: Subscriber[Any], m: Materialization) -> RxStage:
        if any(step.expands for step in steps):
            return ExpandingRxStage(downstream, m, steps, name, max_expansion)
        return RxStage(downstream, m, steps, name)

    return StageFlow(make, name)
