"""The methods of AMQP: the generated modules, and every method against pamqp, both ways."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pamqp.frame
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pamqp import commands

from tests.examples_tried import tried
from tests.transport.gateways.amqp.amqp_values import marshalled, methods_of, text_or_bytes, theirs
from transport.errors import LocalProtocolError
from transport.gateways.amqp.basic_methods import BasicAck, BasicConsume, BasicGet, BasicQos
from transport.gateways.amqp.connection_methods import (
    ConnectionClose,
    ConnectionSecureOk,
    ConnectionStartOk,
    ConnectionUpdateSecret,
)
from transport.gateways.amqp.entity_methods import QueueDeclare
from transport.gateways.amqp.errors import AmqpError
from transport.gateways.amqp.method import Method
from transport.gateways.amqp.method_codec import decode_method, encode_method
from transport.gateways.amqp.methods import METHODS, PROPERTIES
from transport.gateways.amqp.reply_codes import CLOSES_CHANNEL, ReplyCode
from transport.gateways.amqp.tables import EMPTY_TABLE, Table

pytestmark = pytest.mark.filterwarnings("ignore:This command is deprecated")  # of recover-async, by pamqp
ROOT = Path(__file__).resolve().parents[4]
UNKNOWN_TO_PAMQP = {"access.request", "access.request-ok"}
THEIRS: dict[int, Any] = dict(commands.INDEX_MAPPING)
ANY_METHOD = st.sampled_from(list(METHODS.values())).flatmap(methods_of)


def values(method: Method) -> list[tuple[str, Any]]:
    """Type and value of each argument."""
    names = [each.name for each in fields(method)]  # type: ignore[arg-type]  # each is a dataclass
    return [(kind, getattr(method, name)) for kind, name in zip(method.LAYOUT.split(), names, strict=True)]


def as_theirs(kind: str, value: Any) -> Any:
    if kind == "table":
        return theirs(value)
    return text_or_bytes(value) if kind == "longstr" else value


def run_script(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "scripts/amqp_methods.py", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_modules_are_what_the_table_says() -> None:
    done = run_script("--check")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_every_method_that_pamqp_knows_has_the_same_numbers_layout_and_answers() -> None:
    assert {method.NAME for method in METHODS.values()} - UNKNOWN_TO_PAMQP == {
        method.NAME for index, method in METHODS.items() if index in THEIRS
    }
    assert set(THEIRS) <= set(METHODS)
    for index, their in THEIRS.items():
        our = METHODS[index]
        assert our.NAME.replace("-", "").lower() == their.name.lower()
        assert our.LAYOUT.split() == [their.amqp_type(name) for name in their.attributes()], our.NAME
        assert bool(our.ANSWERS) == their.synchronous, our.NAME
        answers = [METHODS[each].NAME.replace("-", "").lower() for each in our.ANSWERS]
        assert answers == [name.lower() for name in their.valid_responses], our.NAME


def test_methods_with_a_content_are_publish_return_deliver_and_get_ok() -> None:
    names = {method.NAME for method in METHODS.values() if method.CONTENT}
    assert names == {"basic.publish", "basic.return", "basic.deliver", "basic.get-ok"}


def test_properties_have_pamqps_flags_and_types() -> None:
    their: Any = commands.Basic.Properties
    named = {"type": "message_type"}
    assert {named.get(name, name): kind for name, kind in PROPERTIES} == {
        name: their.amqp_type(name) for name in their.attributes()
    }
    assert {named.get(name, name): 0x8000 >> at for at, (name, _) in enumerate(PROPERTIES)} == their.flags


def test_who_asks_for_no_answer_gets_none() -> None:
    assert QueueDeclare().synchronous
    assert not QueueDeclare(nowait=True).synchronous
    assert BasicGet().synchronous
    assert not BasicAck().synchronous


def test_secrets_are_not_shown() -> None:
    hidden = b"p4ss"
    shown = [
        ConnectionStartOk(client_properties=EMPTY_TABLE, response=hidden),
        ConnectionSecureOk(response=hidden),
        ConnectionUpdateSecret(new_secret=hidden, reason=""),
    ]
    assert [repr(each) for each in shown if "p4ss" in repr(each)] == []


@settings(max_examples=tried(400))
@given(ANY_METHOD)
def test_what_is_written_is_read_again_by_us_and_by_pamqp(method: Method) -> None:
    payload = encode_method(method)
    assert decode_method(payload) == method
    if method.NAME not in UNKNOWN_TO_PAMQP:
        found: Any = pamqp.frame._unmarshal_method_frame(payload)
        assert [value for _, value in found] == [as_theirs(kind, value) for kind, value in values(method)]


@settings(max_examples=tried(400))
@given(ANY_METHOD.filter(lambda method: method.NAME not in UNKNOWN_TO_PAMQP))
def test_what_pamqp_writes_is_read(method: Method) -> None:
    # It writes no type but the smallest for numbers, and short names only: tables are held against it elsewhere.
    method = replace(method, **{each.name: EMPTY_TABLE for each in fields(method) if each.type == "Table"})  # type: ignore[arg-type, type-var]
    their = THEIRS[method.INDEX]()
    for name, (kind, value) in zip(their.attributes(), values(method), strict=True):
        given_value = value.decode("latin-1").encode("ascii", "ignore").decode() if kind == "longstr" else value
        setattr(their, name, {} if kind == "table" else given_value)
    found = decode_method(marshalled(their)[7:-1])
    assert type(found) is type(method)
    assert [as_theirs(*each) for each in values(found)] == [
        value or ({} if value == {} else value) for _, value in their
    ]


def outcome(decode: Any, payload: bytes) -> Any:
    try:
        return decode(payload)
    except AmqpError as error:
        return error.reply_code, error.explanation, error.index


@settings(max_examples=tried(300))
@given(ANY_METHOD, st.data())
def test_a_method_that_is_cut_or_goes_on_is_a_frame_error(method: Method, data: st.DataObject) -> None:
    payload = encode_method(method)
    cut = payload[: data.draw(st.integers(4, len(payload)))]
    for wrong in [payload + b"\0"] + ([cut] if cut != payload else []):
        with pytest.raises(AmqpError) as raised:
            decode_method(wrong)
        assert raised.value.reply_code is ReplyCode.FRAME_ERROR
        assert raised.value.index == method.INDEX
        assert raised.value.closes_connection


@given(st.sampled_from(list(METHODS)), st.binary(max_size=80))
def test_random_arguments_are_a_method_or_an_error_of_ours(index: int, arguments: bytes) -> None:
    found = outcome(decode_method, index.to_bytes(4, "big") + arguments)
    if isinstance(found, Method):
        assert type(found) is METHODS[index]
    else:
        assert found[0] in {ReplyCode.FRAME_ERROR, ReplyCode.SYNTAX_ERROR}
        assert found[2] == index


def test_an_unknown_method_is_not_implemented_here() -> None:
    with pytest.raises(AmqpError, match=r"COMMAND_INVALID - unimplemented method 60\.999") as raised:
        decode_method(bytes([0, 60, 3, 231]))
    assert (raised.value.class_id, raised.value.method_id) == (60, 999)


def test_a_short_string_that_is_no_utf_8_is_refused_in_rabbitmqs_words() -> None:
    with pytest.raises(AmqpError, match="FRAME_ERROR - Malformed UTF-8 in shortstr"):
        decode_method(encode_method(BasicConsume(queue="aa")).replace(b"aa", b"\xff\xfe"))


def test_a_malformed_table_is_a_syntax_error_that_names_its_method() -> None:
    good = encode_method(QueueDeclare(queue="q", arguments=Table.of({"a": 1})))
    with pytest.raises(AmqpError, match="SYNTAX_ERROR") as raised:
        decode_method(good.replace(b"\x01aI", b"\x01aZ"))
    assert raised.value.index == QueueDeclare.INDEX


def test_an_argument_that_does_not_fit_is_our_own_error() -> None:
    for method in (BasicQos(prefetch_count=1 << 16), BasicConsume(queue="q" * 256), BasicConsume(queue="\ud800")):
        with pytest.raises(LocalProtocolError):
            encode_method(method)


def test_errors_say_what_they_close_and_fit_a_short_string() -> None:
    missing = AmqpError(ReplyCode.NOT_FOUND, "no queue 'ä' " + "ä" * 300, QueueDeclare.INDEX, 3)
    assert not missing.closes_connection
    assert len(missing.reply_text.encode()) <= 255
    assert missing.reply_text.endswith("ä...")
    assert AmqpError(ReplyCode.NOT_FOUND, "no such thing").closes_connection
    assert AmqpError(ReplyCode.SYNTAX_ERROR, "bad", 0, 3).closes_connection
    close = ConnectionClose(
        reply_code=missing.reply_code,
        reply_text=missing.reply_text,
        class_id=missing.class_id,
        method_id=missing.method_id,
    )
    assert decode_method(encode_method(close)) == close
    assert {code for code in ReplyCode if code in CLOSES_CHANNEL} == CLOSES_CHANNEL
