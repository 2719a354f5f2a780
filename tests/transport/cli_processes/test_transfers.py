"""The command as its users run it: processes that send and receive."""

from __future__ import annotations

import signal
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.log_lines import log_lines
from tests.transport.cli_processes.conftest import numbered
from tests.transport.programs import BrokerProcess


@pytest.fixture(scope="module")
def real_lines() -> list[bytes]:
    """A web server's log."""
    return log_lines()


# Round trips


def test_a_file_sent_and_received_is_the_same_file(
    broker: BrokerProcess, queue: str, real_lines: list[bytes], tmp_path: Path
) -> None:
    path = tmp_path / "access.log"
    path.write_bytes(b"\n".join(real_lines) + b"\n")
    code, out, err = broker.run("send", "--queue", queue, str(path))
    assert (code, out) == (0, b"")
    assert err.startswith(f"penstock send: {len(real_lines):,} messages confirmed in queue {queue} at {broker.sending}")
    assert len(err.splitlines()) == 1
    code, out, err = broker.run("receive", "--queue", queue, "--count", str(len(real_lines)))
    assert code == 0
    assert err.startswith(f"penstock receive: {len(real_lines):,} messages (")
    assert f") received from queue {queue} at {broker.receiving} in " in err
    assert len(err.splitlines()) == 1
    assert out == path.read_bytes()
    figures = broker.statistics(queue)
    assert (figures["ready"], figures["in_flight"], figures["total_acknowledged"]) == (0, 0, len(real_lines))


@pytest.mark.parametrize("places", [1, 3])
def test_an_input_that_takes_the_last_place_of_a_queue_is_sent_and_the_command_ends(
    broker: BrokerProcess, queue: str, places: int, tmp_path: Path
) -> None:
    assert broker.run("queue create", queue, "--max-messages", str(places))[0] == 0
    for _ in range(places):
        code, _, err = broker.run("send", "--queue", queue, stdin=b"x\n")
        assert (code, err.split(" confirmed")[0]) == (0, "penstock send: 1 message")
    assert broker.statistics(queue)["ready"] == places


def test_two_receivers_together_get_the_whole_file_and_nothing_twice(
    broker: BrokerProcess, queue: str, real_lines: list[bytes]
) -> None:
    with (
        broker.start("receive", "--queue", queue, "--max-in-flight", "100") as first,
        broker.start("receive", "--queue", queue, "--max-in-flight", "100") as second,
    ):
        broker.until_requested_by(2, queue)
        with ThreadPoolExecutor(2) as threads:
            # Read side by side: neither may wait for the other's pipe.
            reading = [threads.submit(program.finish) for program in (first, second)]
            try:
                broker.fill(queue, real_lines)
                broker.until(queue, lambda figures: figures["total_acknowledged"] == len(real_lines))
            finally:
                # Told to stop, not left to notice the silence: on a busy machine, silence says nothing.
                for program in (first, second):
                    program.process.send_signal(signal.SIGTERM)
        (code, out, _), (other_code, other_out, _) = (read.result() for read in reading)
    assert (code, other_code) == (0, 0)
    assert Counter(out.splitlines() + other_out.splitlines()) == Counter(real_lines)
    assert out
    assert other_out


def test_a_receiver_killed_in_the_middle_leaves_the_rest_to_the_other(broker: BrokerProcess, queue: str) -> None:
    lines = [b"%06d" % number + b"x" * 1000 for number in range(3000)]
    in_flight = 500
    with broker.start("receive", "--queue", queue, "--max-in-flight", str(in_flight)) as doomed:
        broker.fill(queue, lines)
        printed = [doomed.line(doomed.stdout) for _ in range(600)]
        # Its pipe is not read further and takes no whole batch, so it stops in the middle of one that it holds.
        broker.until(queue, lambda figures: figures["in_flight"] > 0 and figures["total_acknowledged"] > 0)
        doomed.process.kill()
        # Written by itself, so whole lines but for the last.
        *killed, _ = doomed.rest(doomed.stdout).split(b"\n")
        left = broker.until(queue, lambda figures: figures["receivers"] == figures["in_flight"] == 0)
        code, out, _ = broker.run("receive", "--queue", queue, "--count", str(left["ready"]))
    assert code == 0
    union = Counter(printed + killed) + Counter(out.splitlines())
    assert not Counter(lines) - union, "a line is lost"
    twice = union - Counter(lines)
    assert sum(twice.values()) <= in_flight, "only what was written and not yet acknowledged may come twice"
    assert broker.statistics(queue)["ready"] == 0


def test_a_line_is_delivered_while_the_pipe_it_came_from_is_still_open(broker: BrokerProcess, queue: str) -> None:
    with broker.start("receive", "--queue", queue) as receiver, broker.start("send", "--queue", queue, "-") as sender:
        for line in (b"first", b"second", b""):
            sender.stdin.write(line + b"\n")
            assert receiver.line(receiver.stdout) == line
        sender.stdin.write(b"no newline")
        sender.stdin.close()
        assert sender.end() == 0
        assert receiver.line(receiver.stdout) == b"no newline"


def test_bytes_that_are_no_text_pass_unchanged(broker: BrokerProcess, queue: str) -> None:
    data = bytes(range(256)).replace(b"\n", b"") + b"\r\n" + b"\xff\xfe\n" + b"\0\n"
    assert broker.run("send", "--queue", queue, stdin=data)[0] == 0
    assert broker.run("receive", "--queue", queue, "--count", "3")[:2] == (0, data)


# Demand


def test_count_prints_and_acknowledges_exactly_that_many_and_requests_no_more(
    broker: BrokerProcess, queue: str
) -> None:
    lines = numbered(5000)
    broker.fill(queue, lines)
    for part, (amount, start) in enumerate(((1, 0), (1500, 1), (999, 1501))):
        code, out, err = broker.run("receive", "--queue", queue, "--count", str(amount), "--quiet")
        assert (code, err) == (0, "")
        assert out.splitlines() == lines[start : start + amount], f"part {part}"
    figures = broker.statistics(queue)
    assert figures["total_out"] == figures["total_acknowledged"] == 2500
    assert (figures["ready"], figures["in_flight"], figures["total_redelivered"]) == (2500, 0, 0)


def test_count_waits_for_messages_that_come_later(broker: BrokerProcess, queue: str) -> None:
    with broker.start("receive", "--queue", queue, "--count", "3") as receiver:
        broker.fill(queue, [b"a"])
        assert receiver.line(receiver.stdout) == b"a"
        broker.fill(queue, [b"b", b"c", b"d"])
        assert receiver.finish()[:2] == (0, b"b\nc\n")
    assert broker.statistics(queue)["ready"] == 1


def test_idle_exit_ends_an_empty_wait_with_success(broker: BrokerProcess, queue: str) -> None:
    assert broker.run("receive", "--queue", queue, "--idle-exit", "0.1", "--quiet") == (0, b"", "")


def test_count_and_idle_exit_end_with_whichever_comes_first_and_the_exit_code_says_which(
    broker: BrokerProcess, queue: str
) -> None:
    broker.fill(queue, [b"a", b"b", b"c"])
    both = ["--queue", queue, "--count", "2", "--quiet"]
    assert broker.run("receive", *both, "--idle-exit", "20") == (0, b"a\nb\n", "")
    for seconds in ("0.2", "1", "3", "10"):  # a busy machine may need longer for the message that is there
        code, out, told = broker.run("receive", *both, "--idle-exit", seconds)
        assert (code, told) == (
            3,
            f"penstock receive: no message has come for {seconds} s, after {len(out) // 2} of 2 messages\n",
        )
        if out:
            break
    assert out == b"c\n"


def test_a_receiver_whose_output_is_not_read_holds_no_more_than_its_limit(broker: BrokerProcess, queue: str) -> None:
    broker.fill(queue, [b"x" * 1000] * 2000)
    with broker.start("receive", "--queue", queue, "--max-in-flight", "50") as receiver:
        # 64 KiB of pipe, then it stops.
        stuck = broker.until(queue, lambda figures: figures["total_acknowledged"] >= 50)
        assert stuck["in_flight"] <= 50
        assert receiver.line(receiver.stdout) == b"x" * 1000


def test_a_full_queue_stops_the_sender_and_room_lets_it_go_on(broker: BrokerProcess, queue: str) -> None:
    lines = numbered(3000)
    assert broker.run("queue create", queue, "--max-messages", "1000")[0] == 0
    with broker.start("send", "--queue", queue, "-") as sender:
        sender.stdin.write(b"".join(line + b"\n" for line in lines))
        sender.stdin.close()
        full = broker.until(queue, lambda figures: figures["ready"] == 1000)
        assert full["total_in"] == 1000
        assert sender.process.poll() is None
        code, out, _ = broker.run("receive", "--queue", queue, "--count", "3000")
        assert code == 0
        assert out.splitlines() == lines
        assert sender.end() == 0
