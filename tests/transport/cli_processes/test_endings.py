"""Processes of the command line that end before they are done: signals, readers that leave, inputs that break, wrong ports."""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.transport.cli_processes.conftest import numbered
from tests.transport.programs import DEADLINE, BrokerProcess, Program


def peak_memory(program: Program) -> int:
    """Bytes of the largest resident memory so far."""
    status = Path(f"/proc/{program.process.pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) * 1024


def test_a_long_pipe_passes_in_bounded_memory(broker: BrokerProcess, queue: str) -> None:
    block = (b"y" * 999 + b"\n") * 1000
    blocks = 150
    with (
        broker.start("receive", "--queue", queue, "--count", str(blocks * 1000), stdout=subprocess.DEVNULL) as receiver,
        broker.start("send", "--queue", queue, "-") as sender,
    ):
        for _ in range(blocks):
            sender.stdin.write(block)
        # All but a pipe's worth has been read. The peak is read while they live: what wait() tells begins with the
        # memory that this process had when it forked.
        peaks = {name: peak_memory(program) for name, program in (("sender", sender), ("receiver", receiver))}
        sender.stdin.close()
        assert (sender.process.wait(DEADLINE), receiver.process.wait(DEADLINE)) == (0, 0)
    # 150 MB have passed; an interpreter with its imports takes some 40 of what is allowed.
    assert all(peak < 120_000_000 for peak in peaks.values()), peaks


# Ends


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_receiver_in_good_order(broker: BrokerProcess, queue: str, number: signal.Signals) -> None:
    broker.fill(queue, numbered(10))
    with broker.start("receive", "--queue", queue) as receiver:
        printed = [receiver.line(receiver.stdout) for _ in range(10)]
        receiver.process.send_signal(number)
        code, out, err = receiver.finish()
    assert (code, out) == (0, b"")
    assert err.startswith("penstock receive: 10 messages (")
    assert printed == numbered(10)
    figures = broker.statistics(queue)
    assert (figures["ready"], figures["in_flight"], figures["total_acknowledged"]) == (0, 0, 10)


def test_a_signal_before_the_count_is_reached_is_not_success(broker: BrokerProcess, queue: str) -> None:
    broker.fill(queue, [b"a"])
    with broker.start("receive", "--queue", queue, "--count", "2") as receiver:
        assert receiver.line(receiver.stdout) == b"a"
        receiver.process.send_signal(signal.SIGTERM)
        code, _, err = receiver.finish()
    assert code == 128 + signal.SIGTERM
    assert err.splitlines(keepends=True)[-1] == "penstock receive: stopped by SIGTERM after 1 of 2 messages\n"


def test_a_signal_ends_a_receiver_whose_output_is_stuck_and_nothing_unwritten_is_acknowledged(
    broker: BrokerProcess, queue: str
) -> None:
    lines = [b"%06d" % number + b"x" * 1000 for number in range(2000)]
    broker.fill(queue, lines)
    with broker.start("receive", "--queue", queue, "--max-in-flight", "100") as receiver:
        broker.until(queue, lambda figures: figures["total_acknowledged"] > 0)
        receiver.process.send_signal(signal.SIGINT)
        assert receiver.end() == 0
        whole = receiver.rest(receiver.stdout).count(b"\n")
    figures = broker.until(queue, lambda figures: figures["receivers"] == 0)
    assert figures["total_acknowledged"] <= whole
    assert figures["ready"] + figures["total_acknowledged"] == len(lines)
    assert figures["in_flight"] == 0


def test_a_reader_that_leaves_ends_the_receiver_and_what_was_not_written_stays(
    broker: BrokerProcess, queue: str
) -> None:
    broker.fill(queue, [b"x" * 1000] * 2000)
    with broker.start("receive", "--queue", queue) as receiver:
        receiver.line(receiver.stdout)
        receiver.stdout.close()
        assert receiver.end() == 0
        (summary,) = receiver.rest(receiver.stderr).splitlines()
        assert b" received from queue " in summary
    figures = broker.until(queue, lambda figures: figures["receivers"] == 0)
    assert figures["ready"] + figures["total_acknowledged"] == 2000
    assert figures["ready"] > 0
    assert figures["in_flight"] == 0


def test_a_reader_that_leaves_is_noticed_though_no_message_comes(broker: BrokerProcess, queue: str) -> None:
    with broker.start("receive", "--queue", queue) as receiver:
        broker.fill(queue, [b"a"])
        assert receiver.line(receiver.stdout) == b"a"
        receiver.stdout.close()
        assert receiver.end() == 0


def test_a_sender_stopped_before_its_input_ends_says_what_is_confirmed_and_is_not_success(
    broker: BrokerProcess, queue: str
) -> None:
    with broker.start("send", "--queue", queue, "-") as sender:
        sender.stdin.write(b"a\nb\nc\nunfinished")
        broker.until(queue, lambda figures: figures["ready"] == 3)
        sender.process.send_signal(signal.SIGINT)
        code = sender.end()
        err = sender.rest(sender.stderr).decode()
    assert code == 128 + signal.SIGINT
    assert "messages confirmed" in err
    assert err.endswith("penstock send: stopped by SIGINT before the end of the input\n")


def test_an_input_that_breaks_in_the_middle_is_an_error_and_what_came_before_is_confirmed(
    broker: BrokerProcess, queue: str
) -> None:
    with broker.start("send", "--queue", queue, "-") as sender:
        sender.stdin.write(b"a\nb\n")
        broker.until(queue, lambda figures: figures["ready"] == 2)
        with contextlib.suppress(BrokenPipeError):
            sender.stdin.write(b"x" * (17 * 1024 * 1024))
        code = sender.end()
        err = sender.rest(sender.stderr).decode().splitlines()
    assert code == 1
    assert err[0].startswith("penstock send: 2 messages confirmed")
    assert err[1].startswith("penstock send: standard input: line 3 is longer than")


# Errors


def test_the_wrong_port_is_named_at_once(broker: BrokerProcess, queue: str) -> None:
    began = time.monotonic()
    with Program("send", "--queue", queue, "--address", broker.receiving) as sender:
        sender.stdin.write(b"a\n")
        code, _, err = sender.finish()
    assert code == 1
    assert "unknown-role" in err
    assert "check --address" in err
    assert time.monotonic() - began < 8, "a refusal is not tried again"


def test_a_refused_command_exits_with_1_and_one_line(broker: BrokerProcess, queue: str) -> None:
    code, out, err = broker.run("queue delete", queue)
    assert (code, out) == (1, b"")
    assert err.startswith("penstock queue delete: the broker answered not-found")
    assert "penstock queue list" in err
    assert len(err.splitlines()) == 1


def test_a_second_broker_on_the_same_address_says_so(broker: BrokerProcess) -> None:
    with Program("broker", "--send-address", broker.sending, "--receive-address", "127.0.0.1:0", "--memory") as second:
        code, _, err = second.finish()
    assert code == 1
    assert broker.sending in err
    assert "--send-address" in err
    assert "Traceback" not in err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_broker_that_is_told_to_stop_ends_with_success_and_tells_its_clients(
    number: signal.Signals, queue: str
) -> None:
    with BrokerProcess() as short_lived:
        with short_lived.start("receive", "--queue", queue, "--connect-timeout", "0.2") as receiver:
            short_lived.fill(queue, [b"a"])
            assert receiver.line(receiver.stdout) == b"a"
            short_lived.process.send_signal(number)
            assert short_lived.end() == 0
            assert short_lived.rest(short_lived.stderr) == b""
            code, _, err = receiver.finish()
        assert code == 1
        assert "is the broker running there?" in err or "shutting-down" in err
