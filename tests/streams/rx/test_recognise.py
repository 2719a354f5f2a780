"""Operators are told apart by what they return: alone, composed, wrapped, and by another version's way of making them."""

from __future__ import annotations

import functools
import subprocess
import sys
from typing import Any

import pytest
import reactivex
from reactivex import operators as ops

from streams import Flow, OperatorRefusedError
from streams.rx.recognise import recognise


def names(operator: Any, trust: bool = False) -> list[str]:
    return [step.name for step in recognise(operator, trust)]


def test_a_composition_is_its_parts() -> None:
    composed = reactivex.compose(ops.map(str), reactivex.compose(ops.take(3), ops.count()))
    assert names(composed) == ["map", "take", "count"]
    assert repr(Flow.rx(composed, ops.last())) == "<Flow rx(map, take, count, last)>"


def test_an_operator_that_reactivex_composes_is_itself() -> None:
    assert names(ops.starmap(max)) in (["map"], ["starmap"])
    assert names(ops.first_or_default(bool, 1)) in (["first"], ["first_or_default"])
    if hasattr(ops, "concat_map"):
        assert names(ops.concat_map(reactivex.of)) == ["concat_map"]


def test_a_refused_operator_is_found_inside_of_a_composition() -> None:
    with pytest.raises(OperatorRefusedError) as caught:
        Flow.rx(reactivex.compose(ops.map(str), reactivex.compose(ops.take(3), ops.delay(1.0))))
    assert caught.value.operator == "delay"
    assert caught.value.instead == ("delay",)


def test_a_merge_after_a_map_is_not_taken_for_the_concat_map_that_is_made_of_the_two() -> None:
    for merge in (ops.merge(reactivex.of(1)), ops.merge(reactivex.of(1), max_concurrent=1)):
        with pytest.raises(OperatorRefusedError) as caught:
            Flow.rx(reactivex.compose(ops.map(reactivex.of), merge))
        assert caught.value.operator == "merge"


def test_the_users_functions_are_not_taken_for_operators() -> None:
    assert names(ops.map(ops.delay(1.0))) == ["map"]
    assert names(ops.flat_map(lambda n: reactivex.of(n).pipe(ops.delay(1.0)))) == ["flat_map"]


def test_what_is_none_of_reactivexs_is_refused_unless_it_is_trusted() -> None:
    def custom(source: Any) -> Any:
        return source

    for unknown in (custom, functools.partial(custom), functools.wraps(ops.map)(custom), Exception, custom.__call__):
        with pytest.raises(OperatorRefusedError, match="trust=True"):
            Flow.rx(ops.map(str), unknown)
        (step,) = recognise(unknown, trust=True)
        assert step.expands, "what is not known may give any number of elements"


def test_trust_does_not_extend_to_what_is_known() -> None:
    with pytest.raises(OperatorRefusedError, match="delay"):
        Flow.rx(ops.delay(1.0), trust=True)


def test_what_is_no_operator_at_all_is_refused() -> None:
    with pytest.raises(TypeError, match="takes operators of reactivex"):
        Flow.rx("map")  # type: ignore[arg-type]  # what is tested


def test_arguments_that_make_no_sense_are_refused_when_the_flow_is_described() -> None:
    with pytest.raises(Exception, match="out of range"):
        Flow.rx(ops.take(-1))
    with pytest.raises(Exception, match="out of range"):
        Flow.rx(reactivex.compose(ops.map(str), ops.element_at(-1)))


def test_no_operators_let_everything_through() -> None:
    assert names(reactivex.compose()) == []
    assert repr(Flow.rx()) == "<Flow rx()>"


def test_nothing_of_the_users_is_called_by_the_look_at_an_operator() -> None:
    called: list[Any] = []
    Flow.rx(ops.map(called.append), ops.flat_map(called.append), ops.finally_action(lambda: called.append(1)))
    assert called == []


def test_reactivex_is_not_imported_before_it_is_used() -> None:
    program = "import sys, streams; assert 'reactivex' not in sys.modules; streams.Flow.rx(); assert 'reactivex' in sys.modules"
    assert subprocess.run([sys.executable, "-c", program], check=False, capture_output=True).returncode == 0
