"""The log: a line is a line, whatever a peer puts into it, and it says who did what to which resource."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.transport.broker_helpers import command
from transport.broker import audit
from transport.broker.served import RefusalError
from transport.cli._logs import FIELDS, JsonFormatter, LogFormatter, TextFormatter
from transport.wire.messages import VERSION, Command, Enlist, Error, Hello
from transport.wire.names import MAX_NAME_BYTES
from transport.wire.shown import CUT, MAX_LINE_BYTES, shown

LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (DEBUG|INFO|WARNING|ERROR|CRITICAL) [\w.]+: ")
FORGED = "2026-01-01T00:00:00.000Z INFO penstock.audit: alice: queue.delete orders, from 10.0.0.1:1"
EVIL = [
    f"x\n{FORGED}",
    f"x\r\n{FORGED}",
    f"x\u2028{FORGED}",
    f"x\x85{FORGED}",
    "\x1b[2J\x1b[31mred",
    "a\u202egnp.exe",
    "\x00\x08\x7f",
]
"""What a client may try to have in a line of the log."""


@contextmanager
def logged(formatter: LogFormatter, level: int = logging.DEBUG) -> Iterator[io.StringIO]:
    """What the loggers of the broker write by this formatter."""
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(formatter)
    root = logging.getLogger("penstock")
    before = root.level
    root.addHandler(handler)
    root.setLevel(level)
    try:
        yield written
    finally:
        root.removeHandler(handler)
        root.setLevel(before)


def lines(written: io.StringIO) -> list[str]:
    return written.getvalue().splitlines()


@pytest.mark.parametrize("text", [*EVIL, "half a letter: \ud800"])
def test_what_acts_on_a_terminal_or_ends_a_line_is_shown_escaped(text: str) -> None:
    safe = shown(text)
    assert safe.isprintable()
    assert len(f"[{safe}]".splitlines()) == 1


@pytest.mark.hypothesis
@given(st.text(), st.integers(min_value=1, max_value=300))
def test_any_text_becomes_one_printable_line_of_bounded_length(text: str, most: int) -> None:
    safe = shown(text, most)
    assert safe.isprintable()
    assert len(safe.encode()) <= most + len(CUT)
    if text.isprintable() and len(text.encode()) <= most:
        assert safe == text


def test_a_name_is_shown_whole_whatever_its_letters_are() -> None:
    for name in ("é" * 127 + "x", "x" * MAX_NAME_BYTES, "日" * 85, "😀" * 63):
        assert len(name.encode()) <= MAX_NAME_BYTES
        assert shown(name) == name
    assert shown("x" * 256) == "x" * 255 + CUT
    assert shown("日" * 86) == "日" * 85 + CUT


# Lines


@pytest.mark.parametrize("text", EVIL)
def test_a_record_is_one_line_of_text_and_its_exception_is_indented(text: str) -> None:
    with logged(TextFormatter()) as written:
        logger = logging.getLogger("penstock.test")
        logger.warning("said: %s", text)
        try:
            raise RuntimeError(text)
        except RuntimeError:
            logger.exception("failed")
    first, second, *trace = lines(written)
    assert LINE.match(first)
    assert LINE.match(second)
    assert all(line.startswith("    ") and line.isprintable() for line in trace)
    assert "RuntimeError" in trace[-2] + trace[-1]


@pytest.mark.parametrize("text", EVIL)
def test_a_record_is_one_json_object_with_its_fields(text: str) -> None:
    with logged(JsonFormatter()) as written:
        audit.allowed(text, text, text, text)
        audit.refused(text, "write", text, None, text)
        try:
            raise RuntimeError(text)
        except RuntimeError:
            logging.getLogger("penstock.test").exception("failed")
    objects = [json.loads(line) for line in lines(written)]
    assert [each["level"] for each in objects] == ["info", "warning", "error"]
    assert [each["logger"] for each in objects] == ["penstock.audit", "penstock.audit", "penstock.test"]
    assert {each["resource"] for each in objects[:1]} == {shown(text)}
    assert "resource" not in objects[1]
    for each in objects:
        assert LINE.match(f"{each['time']} INFO x: ")
        assert all(each.get(field, "").isprintable() for field in ("message", *FIELDS))
    assert "RuntimeError" in objects[2]["exception"]


def test_a_long_message_is_cut() -> None:
    with logged(TextFormatter()) as written:
        logging.getLogger("penstock.test").error("%s", "x" * 10 * MAX_LINE_BYTES)
    [line] = lines(written)
    assert len(line) < MAX_LINE_BYTES + 100


# What a client can set


@pytest.mark.parametrize("formatter", [TextFormatter(), JsonFormatter()], ids=["text", "json"])
@pytest.mark.parametrize("text", EVIL)
def test_no_field_that_a_client_sets_makes_a_second_line(
    run: Any, serve: Any, peers: Any, formatter: LogFormatter, text: str
) -> None:
    async def main() -> None:
        with logged(formatter) as written:
            async with serve() as broker, peers() as opened:
                hellos = [
                    Hello(VERSION, text, "q", "c", {}),
                    Hello(VERSION, "sender", text, "c", {}),
                    Hello(VERSION, "sender", "q", text, {}),
                    Hello(VERSION, "sender", "q", "c", {"temporary": text}),
                    Hello(VERSION, "sender", "q", "c", {text: text}),
                    Hello(VERSION, "transaction", None, text, {"writer": text, "version": 1}),
                ]
                for hello in hellos:
                    peer = await opened.connect(broker.send_address)
                    peer.send(hello)
                    await peer.frame()
                reader = await opened.connect(broker.receive_address)
                reader.send(Hello(VERSION, "subscription", "q", "c", {"subscription": text, "mode": text}))
                await reader.frame()
                admin = await opened.open(broker.send_address, "admin", None)
                for number, (name, arguments) in enumerate(
                    [
                        (text, {}),
                        ("queue.create", {"name": text}),
                        ("queue.create", {"name": "q", "dead_letter_queue": text, "max_receives": 1}),
                        ("queue.delete", {"name": text}),
                        ("queue.purge", {"name": text}),
                        ("subscription.delete", {"queue": text, "name": text}),
                        ("transaction.abort", {"writer": text, "version": 1}),
                    ]
                ):
                    admin.send(Command(number, name, arguments))
                    await admin.frame()
                writer = await opened.open(broker.send_address, "transaction", None, writer="w", version=1)
                writer.send(Enlist(text, text, 1))
                await writer.frame()
                said = await opened.open(broker.send_address, "admin", None)
                said.send(Error(text, text, close=True))
                await said.rest()
            # What the broker's own tasks and errors may carry.
            logging.getLogger("penstock.broker").error("ended", exc_info=RefusalError(text, text))
        for line in lines(written):
            assert line.isprintable(), line
            if isinstance(formatter, JsonFormatter):
                assert set(json.loads(line)) >= {"time", "level", "logger", "message"}
            else:
                assert LINE.match(line) or line.startswith("    "), line
                assert not line.startswith(FORGED)
        assert sum(
            "penstock.audit" in line and "queue.delete" in line and not line.startswith("    ")
            for line in lines(written)
        )

    run(main)


def test_who_has_something_configured_is_logged_with_where_they_are(run: Any, serve: Any, peers: Any) -> None:
    async def main() -> None:
        with logged(JsonFormatter(), logging.INFO) as written:
            async with serve() as broker, peers() as opened:
                admin = await opened.open(broker.send_address, "admin", None)
                await command(admin, "queue.create", name="orders")
                await command(admin, "queue.list")
        [said] = [json.loads(line) for line in lines(written) if "penstock.audit" in line]
        assert (said["who"], said["what"], said["resource"]) == ("anyone", "queue.create", "orders")
        assert re.fullmatch(r"127\.0\.0\.1:\d+", said["peer"])
        assert said["message"] == f"anyone: queue.create orders, from {said['peer']}"

    run(main)


def test_what_was_allowed_and_is_not_done_has_a_line_that_says_why(run: Any, serve: Any, peers: Any) -> None:
    async def main() -> None:
        with logged(JsonFormatter(), logging.INFO) as written:
            async with serve() as broker, peers() as opened:
                admin = await opened.open(broker.send_address, "admin", None)
                await command(admin, "queue.create", name="orders")
                admin.send(Command(2, "queue.create", {"name": "orders", "max_messages": 7}))
                assert "other settings" in (await admin.expect(Error)).text
        said = [json.loads(line) for line in lines(written) if "penstock.audit" in line]
        assert [each["level"] for each in said] == ["info", "info", "warning"]
        assert {each["resource"] for each in said} == {"orders"}
        assert re.match(
            r"anyone: queue\.create orders, from 127\.0\.0\.1:\d+, was not done: .*other settings", said[2]["message"]
        )

    run(main)


def test_whatever_changes_something_is_logged_with_all_that_it_is_about_and_a_look_is_not(
    run: Any, serve: Any, peers: Any
) -> None:
    async def main() -> None:
        with logged(JsonFormatter(), logging.INFO) as written:
            async with serve() as broker, peers() as opened:
                admin = await opened.open(broker.send_address, "admin", None)
                await command(admin, "queue.create", name="orders")
                await command(admin, "queue.move", **{"from": "orders", "to": "other", "create": True})
                await command(admin, "queue.purge", name="orders")
                await command(admin, "queue.peek", name="orders", count=1)
                for what, arguments in (
                    ("subscription.release", {"queue": "orders", "name": "report"}),
                    ("connection.close", {"id": 9999, "reason": "why not"}),
                    ("transaction.abort", {"writer": "w", "version": 3}),
                ):
                    admin.send(Command(2, what, arguments))
                    await admin.frame()
        said = [json.loads(line)["message"] for line in lines(written) if "penstock.audit" in line]
        assert [each.split(", from")[0] for each in said] == [
            "anyone: queue.create orders",
            "anyone: makes, as queue.move, the queue other",
            "anyone: queue.move orders",
            "anyone: queue.purge orders",
            "anyone: subscription.release report of orders",
            "anyone: subscription.release report of orders",
            "anyone: connection.close 9999",
            "anyone: connection.close 9999",
            "anyone: transaction.abort w 3",
        ]

    run(main)
