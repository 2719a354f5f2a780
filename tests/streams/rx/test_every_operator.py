"""Every operator of the installed reactivex: accepted ones do under demand what they do in reactivex, refused ones name ours."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import reactivex
from reactivex import operators as ops
from reactivex.subject import Subject

import streams
from streams import Flow, OperatorRefusedError, Sink, Source
from streams.rx.recognise import recognise
from streams.rx.table import OPERATORS
from streams.testkit import TestSink, TestSource, run_in_virtual_time, settle
from tests.streams.rx.drive import plain, under_demand
from tests.streams.rx.table import CLOCK, TRIALS, WITHOUT_ELEMENTS, Trial

INSTALLED = {
    name
    for name, value in vars(ops).items()
    if inspect.isfunction(value) and value.__module__ == ops.__name__ and not name.startswith("_")
}
ACCEPTED = sorted(name for name in INSTALLED & OPERATORS.keys() if OPERATORS[name].kind.accepted)
REFUSED = sorted(name for name in INSTALLED & OPERATORS.keys() if not OPERATORS[name].kind.accepted)
NUMBERED = [
    pytest.param(name, trial, id=f"{name}-{i}") for name in ACCEPTED for i, trial in enumerate(TRIALS.get(name, ()))
]
each_trial = pytest.mark.parametrize(("name", "trial"), NUMBERED)


def not_in_the_table(installed: set[str]) -> str:
    """What to do about operators that the table does not know; nothing if there are none."""
    unknown = sorted(installed - OPERATORS.keys())
    return unknown and (
        f"reactivex has operators that streams/rx/table.py does not have: {', '.join(unknown)}. Give each a row there: its kind, how it "
        "is called, and if it is refused what to use instead; if it is accepted, a Trial in tests/streams/rx/table.py as well. Then print "
        "the table of docs/reactivex.md anew: python -m tests.streams.rx.table"
    )  # fmt: skip


def test_every_operator_that_is_installed_is_in_the_table() -> None:
    assert len(INSTALLED) > 120, "the test looks in the wrong place"
    assert not not_in_the_table(INSTALLED)


def test_an_operator_that_a_new_version_has_is_told_apart() -> None:
    message = not_in_the_table(INSTALLED | {"brand_new"})
    assert "does not have: brand_new." in message
    assert "streams/rx/table.py" in message


def test_every_accepted_operator_is_tried() -> None:
    assert set(ACCEPTED) <= TRIALS.keys()
    assert {name for name, row in OPERATORS.items() if row.kind.accepted} == TRIALS.keys()


@each_trial
@pytest.mark.parametrize("error", [None, KeyError("burst")], ids=["complete", "error"])
@pytest.mark.parametrize("requests", [(1,), (3, 1), (100,)], ids=["one by one", "three and one", "all at once"])
def test_an_accepted_operator_does_under_demand_what_it_does_in_reactivex(
    name: str, trial: Trial, error: Exception | None, requests: tuple[int, ...]
) -> None:
    expected = plain([trial.make()], trial.elements, error)
    outcome = under_demand(Flow.rx(trial.make()), trial.elements, error, requests)
    if name in CLOCK:
        assert [element.value for element in outcome.elements] == [element.value for element in expected.elements]
        assert outcome.end == expected.end
    else:
        assert outcome.comparable() == expected.comparable()


@each_trial
def test_an_accepted_operator_that_does_not_expand_gives_one_element_for_one_at_most(name: str, trial: Trial) -> None:
    (step,) = recognise(trial.make(), trust=False)
    counts: list[int] = []
    out: list[Any] = []
    subject: Subject[Any] = Subject()
    subject.pipe(trial.make()).subscribe(out.append, lambda _: None)
    for element in trial.elements:
        out.clear()
        subject.on_next(element)
        counts.append(len(out))
    assert step.expands or max(counts, default=0) <= 1


@each_trial
def test_an_accepted_operator_is_told_apart_by_what_it_returns(name: str, trial: Trial) -> None:
    (step,) = recognise(trial.make(), trust=False)
    assert OPERATORS[step.name].kind.accepted
    assert step.expands is (OPERATORS[name].kind.value == "finite expansion")


@pytest.mark.parametrize("name", sorted(set(ACCEPTED) - WITHOUT_ELEMENTS))
def test_an_accepted_operator_lets_go_of_everything_when_it_is_cancelled(name: str) -> None:
    trial = TRIALS[name][0]

    async def main() -> None:
        source, sink = TestSource[Any](), TestSink[Any](timeout=1e6)
        running = source.via(Flow.rx(trial.make())).to(sink).run()
        sink.request(1)
        await settle()
        sink.cancel()
        await settle()
        assert source.probe.cancelled
        await running

    run_in_virtual_time(main(), io_grace=0)


def stand_ins() -> dict[str, Any]:
    return {"f": lambda *_: None, "n": 1, "s": reactivex.never(), "o": Subject(), "k": "key", "l": []}


@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_operator_is_refused_when_the_flow_is_described_and_names_ours(name: str) -> None:
    row = OPERATORS[name]
    for call in row.calls:
        operator = getattr(ops, name)(*(stand_ins()[letter] for letter in call))
        with pytest.raises(OperatorRefusedError) as caught:
            Flow.rx(ops.map(str), operator)
        assert name in caught.value.operator.split(" / ")
        assert set(row.instead) <= set(caught.value.instead)
        for ours in row.instead:
            assert ours in str(caught.value)


NAMES = sorted({ours for row in OPERATORS.values() for ours in row.instead})


@pytest.mark.parametrize("ours", NAMES)
def test_what_a_refusal_names_exists(ours: str) -> None:
    if ours[0].isupper():
        value: Any = streams
        for part in ours.split("."):
            value = getattr(value, part)
        assert callable(value)
    else:
        assert callable(getattr(Source, ours))
        assert callable(getattr(Flow, ours))


def test_a_refused_operator_says_what_to_use() -> None:
    assert all(row.instead for row in OPERATORS.values() if not row.kind.accepted)
    assert not any(row.instead for row in OPERATORS.values() if row.kind.accepted)


def test_operators_that_cannot_be_told_apart_are_of_one_opinion() -> None:
    """What an operator returns does not always say which of several names it was made by."""
    from streams.rx.recognise import _known

    for names in _known().values():
        assert len({OPERATORS[name].kind.accepted for name in names}) == 1, names
        assert len({OPERATORS[name].kind.value == "finite expansion" for name in names}) == 1, names


def test_the_whole_of_a_stream_goes_through_a_chain_of_them() -> None:
    flow = Flow.rx(ops.start_with(-1), ops.map(lambda n: n + 1), ops.buffer_with_count(2), ops.flat_map(lambda ns: ns))
    assert Source.from_iterable(range(5)).via(flow).to(Sink.collect()).run_blocking() == [0, 1, 2, 3, 4, 5]
