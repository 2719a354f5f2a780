"""Shapes of properties: whatever has a shape that is known is properties, with each where the shape says; what differs in values has it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.examples_tried import tried
from tests.transport.gateways.amqp.test_amqp_properties import ANY
from transport.gateways.amqp import properties as module
from transport.gateways.amqp.errors import AmqpError
from transport.gateways.amqp.properties import Properties, check_properties
from transport.gateways.amqp.shapes import LEAST_BYTES, MOST_SHAPES, ONE_IN, Shapes
from transport.gateways.amqp.tables import Field, Table


def shape_of(raw: bytes, patched: pytest.MonkeyPatch) -> Shapes:
    """What is known once this alone was seen."""
    shapes = Shapes()
    patched.setattr(module, "_shapes", shapes)
    module._remember(raw)
    return shapes


@settings(max_examples=tried(400))
@given(values=ANY, data=st.data())
def test_bytes_of_a_known_shape_are_properties_each_in_its_place(values: dict[str, Any], data: st.DataObject) -> None:
    raw = Properties.of(**values).raw
    other = bytearray(raw)
    for at, octet in data.draw(st.lists(st.tuples(st.integers(0, len(raw) - 1), st.integers(0, 255)), max_size=4)):
        other[at] = octet
    with pytest.MonkeyPatch.context() as patched:
        shape = shape_of(raw, patched).find(bytes(other))
    if shape is None:
        return
    module._walk(bytes(other))
    assert shape.places == module._found_places(bytes(other))


def celery(number: int, **more: Any) -> bytes:
    """Properties as a task of Celery has them."""
    headers = {
        "lang": "py",
        "id": f"{number:036}",
        "eta": None,
        "retries": number,
        "timelimit": [None, number],
        "stamps": {},
    }
    return Properties.of(headers=Table.of(headers | more), correlation_id=f"{number:036}", reply_to="r" * 36).raw


def test_what_differs_in_values_alone_has_the_same_shape() -> None:
    with pytest.MonkeyPatch.context() as patched:
        shapes = shape_of(celery(1), patched)
    assert shapes.find(celery(70_000)) is not None
    assert shapes.find(celery(1, more=1)) is None
    # Of the same length, and a field less.
    longer = celery(1, lang="py" + "x" * (len(celery(1, more=1)) - len(celery(1))))
    assert len(longer) == len(celery(1, more=1))
    with pytest.MonkeyPatch.context() as patched:
        assert shape_of(longer, patched).find(celery(1, more=1)) is None


@pytest.mark.parametrize("kind", ["f", "d"])
def test_a_float_that_is_no_number_is_refused_though_the_rest_is_known(kind: str) -> None:
    raw = celery(1, share=Field(kind, 0.5))
    at = raw.index(b"share" + kind.encode()) + len("share") + 1
    bad = raw[:at] + b"\x7f\xff" + raw[at + 2 :]
    for _ in range(2 * ONE_IN):
        check_properties(raw)
    with pytest.raises(AmqpError, match="no number"):
        check_properties(bad)


@settings(max_examples=tried(200))
@given(values=ANY, cut=st.integers(1, 40))
def test_what_is_cut_short_is_refused_whatever_is_known(values: dict[str, Any], cut: int) -> None:
    raw = Properties.of(**values).raw
    assume(len(raw) - cut >= 2)
    for _ in range(ONE_IN):
        check_properties(raw)
    with pytest.raises(AmqpError):
        check_properties(raw[:-cut])


def test_one_of_some_that_have_no_known_shape_is_remembered_and_nothing_of_little_ones() -> None:
    shapes = Shapes()
    raw = bytes(LEAST_BYTES)
    wanted = [shapes.wants(raw) for _ in range(2 * ONE_IN)]
    assert wanted == [True, *[False] * (ONE_IN - 1)] * 2
    assert not any(shapes.wants(raw[1:]) for _ in range(2 * ONE_IN))


def test_no_more_shapes_are_remembered_than_may() -> None:
    shapes = Shapes()
    for size in range(LEAST_BYTES, LEAST_BYTES + 3 * MOST_SHAPES):
        shapes.remember(bytes(size), b"\xff" * size, ())
        assert shapes.find(bytes(size)) is not None
        assert len(shapes._by_length) <= MOST_SHAPES
