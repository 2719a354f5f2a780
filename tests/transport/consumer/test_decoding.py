"""From payloads to what handlers' annotations say, and what cannot be."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable
from typing import Any

import msgpack
import pytest

from tests.transport.consumer import shapes
from transport import Consumer, DeadLetterError, Delivery, LocalProtocolError
from transport.consumer.decoding import Codec, decoder
from transport.consumer.parameters import parameters_of

ORDER = {"id": 1, "item": "tea"}
CASES: list[tuple[Any, Any, Any]] = [
    (dict, ORDER, ORDER),
    (dict[str, Any], ORDER, ORDER),
    (list, [1, "a"], [1, "a"]),
    (Any, [1], [1]),
    (object, None, None),
    (int, 3, 3),
    (float, 3, 3.0),
    (bool, True, True),
    (None, None, None),
    (shapes.Order, ORDER, shapes.Order(1, "tea")),
    (list[shapes.Order], [ORDER], [shapes.Order(1, "tea")]),
    (dict[str, int], {"a": 1}, {"a": 1}),
    (int | None, None, None),
]
BAD: list[tuple[Any, Any]] = [
    (dict, [1]),
    (list, {}),
    (int, "3"),
    (int, True),
    (float, "x"),
    (shapes.Order, {"id": "x"}),
    (list[shapes.Order], ORDER),
    (dict[str, int], {"a": "b"}),
]


def packed(value: Any, codec: Codec) -> bytes:
    from json import dumps

    return dumps(value).encode() if codec == "json" else bytes(msgpack.packb(value))


@pytest.fixture(params=["msgspec", "pydantic"])
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The one library that there is."""
    pytest.importorskip(request.param)
    without(monkeypatch, "pydantic" if request.param == "msgspec" else "msgspec")
    return str(request.param)


def without(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    for name in names:
        monkeypatch.setitem(sys.modules, name, None)


@pytest.mark.parametrize("codec", ["json", "msgpack"])
@pytest.mark.parametrize(("annotation", "value", "wanted"), CASES, ids=[str(case[0]) for case in CASES])
def test_a_payload_is_decoded_as_its_annotation_says(
    library: str, codec: Codec, annotation: Any, value: Any, wanted: Any
) -> None:
    decode = decoder(annotation, codec)
    assert decode is not None
    found = decode(packed(value, codec))
    assert found == wanted
    assert type(found) is type(wanted)


@pytest.mark.parametrize("codec", ["json", "msgpack"])
@pytest.mark.parametrize(("annotation", "value"), BAD, ids=[f"{case[0]} {case[1]}" for case in BAD])
def test_what_is_of_another_shape_is_refused(library: str, codec: Codec, annotation: Any, value: Any) -> None:
    decode = decoder(annotation, codec)
    assert decode is not None
    with pytest.raises(Exception):  # noqa: B017, PT011 - whatever the library raises
        decode(packed(value, codec))


def test_structs_are_decoded_by_msgspec_and_models_by_pydantic_where_both_are_there() -> None:
    msgspec, pydantic = pytest.importorskip("msgspec"), pytest.importorskip("pydantic")
    struct = msgspec.defstruct("Struct", [("id", int)])
    model = pydantic.create_model("Model", id=(int, ...))
    for annotation in (struct, model):
        decode = decoder(list[annotation], "json")  # type: ignore[valid-type]
        assert decode is not None
        (found,) = decode(b'[{"id": 1}]')
        assert type(found) is annotation
        assert found.id == 1


def test_without_a_library_plain_kinds_are_decoded_and_the_error_for_others_names_the_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    without(monkeypatch, "msgspec", "pydantic")
    decode = decoder(dict[str, Any], "json")
    assert decode is not None
    assert decode(b"{}") == {}
    with pytest.raises(
        LocalProtocolError,
        match=r"handler of_order: to decode messages as Order takes msgspec or pydantic: "
        r"pip install 'penstock-mq\[msgspec\]' or 'penstock-mq\[pydantic\]'",
    ):
        parameters_of(shapes.of_order, "json", batch=False)


def test_a_handler_of_plain_kinds_imports_neither_library(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    real = builtins.__import__

    def noting(name: str, *arguments: Any) -> Any:
        asked.append(name)
        return real(name, *arguments)

    monkeypatch.setattr(builtins, "__import__", noting)
    for handler in (
        shapes.of_bytes,
        shapes.of_str,
        shapes.of_dict,
        shapes.of_dict_of_any,
        shapes.of_list,
        shapes.of_any,
    ):
        parameters_of(handler, "json", batch=False)
    assert not {"msgspec", "pydantic"} & set(asked)


def test_a_codec_may_be_a_function_of_the_payload() -> None:
    parameters = parameters_of(shapes.of_int, len, batch=False)
    assert parameters.decode is len


class Payload:
    """As much of a delivery as decoding asks for."""

    def __init__(self, payload: bytes) -> None:
        self.payload = payload


@pytest.mark.parametrize(
    ("handler", "payload", "reason"),
    [
        (shapes.of_str, b"\xff", "it cannot be decoded as str: UnicodeDecodeError: 'utf-8' codec"),
        (shapes.of_dict, b"{", "it cannot be decoded as dict: JSONDecodeError: Expecting"),
        (
            shapes.of_dict_of_any,
            b"[]",
            "it cannot be decoded as dict[str, Any]: TypeError: it is of type list, not dict",
        ),
        (shapes.of_any, b"[" * 100_000, "it cannot be decoded as Any: RecursionError"),
    ],
)
def test_what_cannot_be_decoded_is_a_dead_letter_with_the_reason(
    handler: Callable[..., Any], payload: bytes, reason: str
) -> None:
    delivery: Any = Payload(payload)
    with pytest.raises(DeadLetterError) as caught:
        parameters_of(handler, "json", batch=False).of(delivery)
    assert caught.value.reason.startswith(reason)
    assert "\n" not in caught.value.reason


def test_a_handler_gets_the_delivery_where_it_asks_for_it_in_its_place() -> None:
    delivery: Any = Payload(b"{}")
    assert parameters_of(shapes.of_both, "json", batch=False).of(delivery) == ({}, delivery)
    assert parameters_of(shapes.of_delivery_first, "json", batch=False).of(delivery) == (delivery, {})
    assert parameters_of(shapes.of_unsaid, "json", batch=False).of(delivery) == (delivery,)
    assert parameters_of(shapes.of_default, "json", batch=False).of(delivery) == ({},)


@pytest.mark.parametrize(
    ("handler", "batch", "words"),
    [
        (shapes.of_none, False, "it takes a payload"),
        (shapes.of_two, False, "it takes a payload"),
        (shapes.of_keyword, False, "it takes a payload"),
        (shapes.of_unseen, False, "not under TYPE_CHECKING"),
        (shapes.of_both, True, "it takes one argument, a list"),
        (shapes.of_dict, True, "it takes a list"),
    ],
)
def test_a_function_that_is_no_handler_is_told_which_are(handler: Any, batch: bool, words: str) -> None:
    with pytest.raises(LocalProtocolError, match=f"handler {handler.__name__}: .*{words}"):
        parameters_of(handler, "json", batch=batch)


@pytest.mark.parametrize("annotation", [list, list[Delivery]])
def test_a_batch_handler_gets_deliveries_unless_its_list_is_of_something_else(annotation: Any) -> None:
    def handler(deliveries: Any) -> None: ...

    handler.__annotations__["deliveries"] = annotation
    assert parameters_of(handler, "json", batch=True).wants == (True,)


def test_what_a_consumer_is_given_is_checked_when_it_is_given() -> None:
    def yields(payload: bytes) -> Any:
        yield

    for wrong, words in [
        ({"concurrency": 0}, "concurrency is 0"),
        ({"on_failure": "retry"}, "on_failure is 'retry'"),
        ({"grace": -1}, "grace is -1"),
        ({"max_in_flight": 0}, "max_in_flight is 0"),
    ]:
        with pytest.raises(LocalProtocolError, match=words):
            Consumer(queue="orders", **wrong)  # type: ignore[arg-type]
    consumer = Consumer(max_in_flight=10)
    with pytest.raises(LocalProtocolError, match="handler of_bytes has no queue"):
        consumer.handler(shapes.of_bytes)
    with pytest.raises(LocalProtocolError, match="it is a whole number"):
        consumer.batch_handler(max_messages=0)
    with pytest.raises(LocalProtocolError, match="no list would ever be full"):
        consumer.batch_handler(queue="orders", max_messages=11)(_of_bytes)
    with pytest.raises(LocalProtocolError, match="codec is 'xml'"):
        consumer.handler(queue="orders", codec="xml")(shapes.of_dict)  # type: ignore[call-overload]
    with pytest.raises(LocalProtocolError, match="has a yield in it"):
        consumer.handler(queue="orders")(yields)
    with pytest.raises(LocalProtocolError, match="a handler is a function"):
        consumer.handler(3)  # type: ignore[type-var]
    with pytest.raises(LocalProtocolError, match="the consumer has no handler"):
        consumer.run()


def _of_bytes(payloads: list[bytes]) -> None: ...
