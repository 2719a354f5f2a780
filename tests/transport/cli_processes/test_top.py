"""`penstock top` as a process: on a terminal of 80 columns, in a pipe, over HTTP, and whatever becomes of the broker."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import re
import select
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from tests.preconditions import terminal
from tests.transport.broker_helpers import sender_with
from tests.transport.programs import COMMAND, DEADLINE, ROOT, BrokerProcess, Program
from transport import Administration
from transport.wire.messages import Request

SCREEN = """\
penstock top  ADDRESS  2 queues, 1 connection
ready 3, held 0, stored 3 (SIZE), in 0/s, out 0/s

2 queues, by pressure
queue                      pressure           ready     held      in/s     out/s
orders                     no receiver            2        0         0         0
stock                      no receiver            1        0         0         0
"""
SENTENCE = "queue orders has 2 messages ready, and nobody receives: start a receiver"


@pytest.fixture
def quiet() -> Iterator[BrokerProcess]:
    """A broker with two queues, of which nobody receives."""
    with BrokerProcess() as running:
        running.fill("orders", [b"a", b"b"])
        running.fill("stock", [b"c"])
        yield running


class Screen:
    """A terminal of 80 columns and 24 lines, on which `penstock top` is."""

    def __init__(self, ours: int, theirs: int, program: Program) -> None:
        self._ours, self._theirs, self.program = ours, theirs, program
        self.raw = b""

    def press(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def resize(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self._theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.program.process.send_signal(signal.SIGWINCH)

    def until(self, words: str, lines: int = 24) -> list[str]:
        """The lines of the first whole screen that has ``words`` in it and so many lines, no more."""
        ends = monotonic() + DEADLINE
        while monotonic() < ends:
            for part in reversed(self.raw.decode("utf-8", "replace").split("\x1b[H")):
                shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", part).split("\r\n")
                if words in " ".join(line.strip() for line in shown) and len(shown) == lines:
                    self.raw = b""
                    return [line.rstrip() for line in shown]
            self.more()
        raise AssertionError(f"no screen has {words!r}: {self.raw[-4000:]!r}")

    def more(self) -> None:
        assert select.select([self._ours], [], [], DEADLINE)[0], self.raw
        self.raw += os.read(self._ours, 1 << 16)

    def modes(self) -> list[Any]:
        return termios.tcgetattr(self._theirs)


@contextmanager
def top(*arguments: str) -> Iterator[Screen]:
    with terminal() as (ours, theirs):
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        with Program("top", *arguments, stdin=theirs, stdout=theirs) as program:
            yield Screen(ours, theirs, program)


def http_of(broker: BrokerProcess) -> str:
    (url,) = (word for word in broker.said.replace(",", " ").split() if word.startswith("http://"))
    return url


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    for name in ("COLUMNS", "LINES", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
        # GNU readline, which pytest loads, sets the size where only programs that are started see it.
        os.unsetenv(name)


def test_a_screen_of_80_columns_shows_queues_the_sentence_and_the_keys(quiet: BrokerProcess) -> None:
    with top("--address", quiet.sending) as screen:
        before = screen.modes()
        lines = screen.until("no senders no receivers")
        shown = re.sub(r"\(\S+ \S+\)", "(SIZE)", "\n".join(lines)).replace(quiet.sending, "ADDRESS")
        assert shown.startswith(SCREEN)
        assert lines[-5:-1] == ["─" * 80, SENTENCE, "no senders", "no receivers"]
        assert lines[-1].endswith("q quit")
        assert screen.modes() != before
        screen.press("q")
        assert screen.program.end() == 0
        assert screen.modes() == before


def test_keys_select_filter_and_go_to_the_pages(quiet: BrokerProcess) -> None:
    with top("--address", quiet.sending, "--interval", "0.1") as screen:
        screen.until(SENTENCE)
        screen.press("j")
        screen.until("queue stock has 1 message ready")
        screen.press("n")
        screen.until("by name")
        screen.press("/ord\r")
        lines = screen.until("1 queue with 'ord', by name")
        assert not any(line.startswith("stock") for line in lines)
        screen.press("\r")
        assert "stored 2 of" in "\n".join(screen.until("0 receivers"))
        screen.press("c")
        assert any("admin" in line for line in screen.until("1 connection client"))
        screen.press("h")
        screen.until("Pressure says who holds back whom.")
        screen.press("q")
        assert screen.program.end() == 0


def test_a_terminal_that_is_made_larger_or_smaller_is_filled(quiet: BrokerProcess) -> None:
    with top("--address", quiet.sending) as screen:
        screen.until(SENTENCE)
        screen.resize(120, 30)
        assert len(screen.until("granted", lines=30)) == 30
        screen.resize(40, 10)
        assert max(map(len, screen.until("queue orders has 2 messages ready,", lines=10))) <= 40
        screen.press("q")
        assert screen.program.end() == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_is_an_orderly_end_and_the_terminal_as_it_was(quiet: BrokerProcess, number: signal.Signals) -> None:
    with top("--address", quiet.sending) as screen:
        before = screen.modes()
        screen.until(SENTENCE)
        screen.program.process.send_signal(number)
        assert screen.program.end() == 0
        assert screen.modes() == before


SHELL = """
import fcntl, os, signal, subprocess, sys, termios

fcntl.ioctl(0, termios.TIOCSCTTY, 0)
top = subprocess.Popen(sys.argv[2:], process_group=0)
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
if sys.argv[1] == "shown first":
    os.tcsetpgrp(0, top.pid)
    # The first may have come too early, when it was still in the background.
    os.kill(top.pid, signal.SIGCONT)
    os.read(int(os.environ["TOLD"]), 1)
    os.tcsetpgrp(0, os.getpgrp())
else:
    assert os.WIFSTOPPED(os.waitpid(top.pid, os.WUNTRACED)[1])
os.kill(top.pid, signal.SIGTERM)
os.kill(top.pid, signal.SIGCONT)
status = os.waitpid(top.pid, 0)[1]
print(os.waitstatus_to_exitcode(status), file=sys.stderr, flush=True)
"""
"""A shell that has `penstock top` in the background and ends it there, as `timeout` does."""


@pytest.mark.parametrize(("case", "code"), [("never shown", -signal.SIGTERM), ("shown first", 0)])
def test_in_the_background_it_stops_as_others_do_and_ends_when_it_is_told_to(
    quiet: BrokerProcess, case: str, code: int
) -> None:
    told, tell = os.pipe()
    with terminal() as (ours, theirs):
        before = termios.tcgetattr(theirs)
        shell = subprocess.Popen(
            [sys.executable, "-c", SHELL, case, *COMMAND, "top", "--address", quiet.sending],
            stdin=theirs,
            stdout=theirs,
            stderr=subprocess.PIPE,
            start_new_session=True,
            pass_fds=[told],
            env=os.environ | {"TOLD": str(told)},
            cwd=ROOT,
        )
        try:
            raw = b""
            while case == "shown first" and SENTENCE.encode() not in raw:
                assert select.select([ours], [], [], DEADLINE)[0], raw
                raw += os.read(ours, 1 << 16)
            os.write(tell, b"1")
            said = shell.communicate(timeout=DEADLINE)[1].decode()
        finally:
            shell.kill()
            shell.wait()
            os.close(told)
            os.close(tell)
        assert said.splitlines()[-1] == str(int(code)), said
        assert termios.tcgetattr(theirs) == before


def test_a_broker_that_goes_is_told_and_when_it_is_back_it_is_shown(tmp_path: Path) -> None:
    with BrokerProcess("--data", str(tmp_path)) as first:
        first.fill("orders", [b"a", b"b"])
        address = first.sending
        with top("--address", address, "--interval", "0.1") as screen:
            screen.until(SENTENCE)
            first.process.kill()
            first.process.wait()
            assert any(line.startswith("orders") for line in screen.until("trying again: "))
            with BrokerProcess("--data", str(tmp_path), "--send-address", address) as second:
                second.fill("orders", [b"c"])
                screen.until("queue orders has 3 messages ready, and nobody receives")
                screen.press("q")
                assert screen.program.end() == 0


def test_no_broker_at_all_is_told_in_a_line_and_the_terminal_is_as_it_was() -> None:
    with terminal() as (_, theirs):
        before = termios.tcgetattr(theirs)
        with Program(
            "top", "--address", "127.0.0.1:1", "--connect-timeout", "0.1", stdin=theirs, stdout=theirs
        ) as program:
            assert b"no connection to the broker at 127.0.0.1:1" in program.line(program.stderr)
            assert program.end() == 1
        assert termios.tcgetattr(theirs) == before


def test_colours_are_off_where_somebody_wants_none(quiet: BrokerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    coloured = re.compile(rb"\x1b\[[0-9;]*3[0-7]m")
    for wanted in (True, False):
        if not wanted:
            monkeypatch.setenv("NO_COLOR", "1")
        with top("--address", quiet.sending) as screen:
            while SENTENCE.encode() not in screen.raw:
                screen.more()
            assert bool(coloured.search(screen.raw)) is wanted
            screen.press("q")
            assert screen.program.end() == 0


def test_so_many_looks_and_the_last_one_stays(quiet: BrokerProcess) -> None:
    with top("--address", quiet.sending, "--count", "1") as screen:
        assert screen.program.end() == 0
        while b"no receivers" not in screen.raw.rpartition(b"\x1b[?1049l")[2]:
            screen.more()


def test_a_pipe_has_a_line_for_each_queue_that_is_other_than_before(quiet: BrokerProcess) -> None:
    with quiet.start("top", "--interval", "0.1") as program:
        orders, stock = program.line(program.stdout).decode(), program.line(program.stdout).decode()
        assert orders[10:] == f"orders  no receiver  ready 2  held 0  in 0/s  out 0/s  {SENTENCE}"
        assert stock[10:].startswith("stock  no receiver  ready 1")
        quiet.fill("stock", [b"d"])
        while "ready 2" not in stock:
            stock = program.line(program.stdout).decode()
            assert stock[10:].startswith("stock  ")
        program.process.send_signal(signal.SIGINT)
        assert program.finish()[::2] == (0, "")


def test_a_reader_that_has_seen_enough_ends_it_in_good_order(quiet: BrokerProcess) -> None:
    with quiet.start("top", "--interval", "0.1", "--json") as program:
        program.line(program.stdout)
        program.stdout.close()
        assert program.end() == 0


def test_json_is_an_object_a_look(quiet: BrokerProcess) -> None:
    code, out, said = quiet.run(
        "top", "--json", "--count", "2", "--interval", "0.1", "--queue", "orders", "--sort", "name"
    )
    assert (code, said) == (0, "")
    found = [json.loads(line) for line in out.splitlines()]
    assert [[each["name"] for each in one["queues"]] for one in found] == [["orders", "stock"]] * 2
    assert found[0]["flow"]["sentence"] == SENTENCE


def test_over_http_the_same_is_seen() -> None:
    with BrokerProcess("--http", "127.0.0.1:0") as running:
        running.fill("orders", [b"a", b"b"])
        with Program("top", "--http", http_of(running), "--count", "1") as program:
            assert program.line(program.stdout).decode()[10:].endswith(SENTENCE)
            assert program.end() == 0


def test_the_page_shows_what_a_terminal_shows(run: Any, serve: Any, peers: Any) -> None:
    page = (Path(__file__).parents[3] / "docs" / "cli.md").read_text("utf-8")
    (shown,) = [block for block in re.findall(r"```text\n(.*?)```", page, re.DOTALL) if "by pressure\nqueue" in block]

    def look(address: str) -> list[str]:
        with top("--address", address) as screen:
            lines = screen.until("1 receiver: packer")
            screen.press("q")
            assert screen.program.end() == 0
            return lines

    async def main() -> None:
        async with serve() as broker, peers() as opened:
            async with Administration(broker.send_address) as administration:
                await administration.create_queue("orders", max_messages=4)
            receiver = await opened.open(broker.receive_address, "receiver", "orders", "packer")
            receiver.send(Request(4, 1 << 20))
            await sender_with(opened, broker, b"a", b"b", b"c", b"d", client_id="till-1")
            await opened.open(broker.send_address, "sender", "orders", "till-2")
            await sender_with(opened, broker, b"a", queue="stock", client_id="till-3")
            lines = await asyncio.to_thread(look, broker.send_address)
            text = "\n".join(line for line in lines if line).replace(broker.send_address, "127.0.0.1:9182")
            assert _sizes_alike(text) == _sizes_alike("\n".join(line for line in shown.splitlines() if line))

    run(main)


def _sizes_alike(text: str) -> str:
    return re.sub(r"\(\S+ [KM]iB\)", "(SIZE)", text)
