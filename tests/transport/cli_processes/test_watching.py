"""Processes of `--watch`: one look over the other, for as long as somebody looks, whatever becomes of the broker."""

from __future__ import annotations

import asyncio
import os
import select
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from tests.preconditions import terminal
from tests.transport.programs import DEADLINE, BrokerProcess, Program
from tests.transport.scripted_admin import ScriptedBroker, listening
from transport.wire.messages import Command, Error, Frame


def test_a_watch_into_a_pipe_goes_on_until_it_is_interrupted_and_that_is_an_orderly_end(
    broker: BrokerProcess, queue: str
) -> None:
    broker.fill(queue, [b"a"])
    with broker.start("queue", "list", "--watch", "0.1") as watching:
        titles = 0
        while titles < 3:
            titles += watching.line(watching.stdout).startswith(b"queue ")
        watching.process.send_signal(signal.SIGINT)
        assert watching.finish()[::2] == (0, "")


def test_a_watch_is_redrawn_on_a_terminal_and_the_last_picture_stays(
    broker: BrokerProcess, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    broker.fill(queue, [b"a"])
    with terminal() as (ours, theirs):
        with broker.start("queue", "list", "--watch", "0.1", stdout=theirs) as watching:
            shown = b""
            while shown.count(queue.encode()) < 2:
                assert select.select([ours], [], [], DEADLINE)[0]
                shown += os.read(ours, 1 << 16)
            watching.process.send_signal(signal.SIGINT)
            assert watching.end() == 0
        os.close(theirs)
        with suppress(OSError):  # Linux says so at the end of what was written
            while more := os.read(ours, 1 << 16):
                shown += more
    screen, left, after = shown.rpartition(b"\x1b[?1049l")
    assert b"\x1b[?1049h" in screen
    assert left
    assert queue.encode() in after


def test_a_broker_that_ends_cannot_command_the_terminal_by_what_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")

    def ends(_command: Command) -> list[Frame]:
        return [Error("shutting-down", "good bye\n\x1b]0;title\x07", close=True)]

    async def look() -> bytes:
        seen = b""
        with terminal() as (ours, theirs):
            async with listening(ScriptedBroker(ends)) as broker:
                with Program("queue", "list", "--watch", "0.1", "--address", broker.address, stdout=theirs) as watching:
                    while b"trying again" not in seen:
                        seen += await asyncio.to_thread(os.read, ours, 1 << 16)
                    watching.process.send_signal(signal.SIGINT)
                    assert await asyncio.to_thread(watching.end) == 0
            os.close(theirs)
        return seen

    seen = asyncio.run(look())
    assert b"good bye \\x1b]0;title\\x07; trying again" in seen
    assert b"\x1b]" not in seen


def test_who_reads_a_watch_no_more_ends_it_in_good_order(broker: BrokerProcess, queue: str) -> None:
    broker.fill(queue, [b"a"])
    with broker.start("queue", "list", "--watch", "0.1") as watching:
        watching.line(watching.stdout)
        watching.stdout.close()
        assert watching.end() == 0


def test_a_watch_into_a_pipe_tells_that_the_broker_is_gone_and_goes_on_when_it_is_there_again(tmp_path: Path) -> None:
    with BrokerProcess("--data", str(tmp_path)) as first:
        first.fill("orders", [b"a", b"b"])
        address = first.sending
        with watch("queue", "list", "--json", "--address", address) as watching:
            assert watching.line(watching.stdout) == b"["
            first.process.kill()
            first.process.wait()
            told = watching.line(watching.stderr).decode()
            assert told.startswith("penstock queue list: ")
            assert told.endswith("; trying again")
            with BrokerProcess("--data", str(tmp_path), "--send-address", address) as second:
                # A broker that takes long to come back is waited for, and that is told every few seconds.
                for told in iter(lambda: watching.line(watching.stderr), b"penstock queue list: going on"):
                    assert told.startswith(b"penstock queue list: no broker at "), told
                until_line(watching, b'    "ready": 2,')
                # A queue that is not there any more is no reason to end a look at all of them.
                assert second.run("queue delete", "orders")[0] == 0
                until_line(watching, b"[]")
                watching.process.send_signal(signal.SIGINT)
                assert watching.end() == 0


def test_a_watch_on_a_terminal_keeps_its_last_picture_under_why_there_is_no_newer_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    with BrokerProcess("--data", str(tmp_path)) as first, terminal() as (ours, theirs):
        first.fill("orders", [b"a"])
        address = first.sending
        with watch("queue", "list", "--address", address, stdout=theirs) as watching:
            read_until(ours, b"orders")
            first.process.kill()
            first.process.wait()
            shown = read_until(ours, b"trying again")
            assert b"orders" in shown + read_until(ours, b"orders")
            with BrokerProcess("--data", str(tmp_path), "--send-address", address):
                # A picture that begins with its title again.
                read_until(ours, b"\x1b[H1 queue")
                watching.process.send_signal(signal.SIGTERM)
                assert watching.end() == 0
            assert watching.rest(watching.stderr) == b""
        os.close(theirs)


def test_a_watch_of_a_queue_that_is_deleted_ends_and_says_so(broker: BrokerProcess, queue: str) -> None:
    broker.fill(queue, [b"a"])
    with watch("queue", "show", queue, "--address", broker.sending) as watching:
        watching.line(watching.stdout)
        assert broker.run("queue delete", queue)[0] == 0
        assert watching.end() == 1
        assert f"there is no queue '{queue}'" in watching.rest(watching.stderr).decode()


def watch(*words: str, stdout: int = -1) -> Program:
    return Program(*words, "--watch", "0.1", stdout=stdout)


def until_line(program: Program, wanted: bytes) -> None:
    while program.line(program.stdout) != wanted:
        pass


def read_until(terminal: int, wanted: bytes) -> bytes:
    shown = b""
    while wanted not in shown:
        assert len(shown) < 1 << 20, shown[-500:]
        assert select.select([terminal], [], [], DEADLINE)[0], shown
        shown += os.read(terminal, 1 << 16)
    return shown
