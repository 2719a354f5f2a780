"""The command with a data directory: restarts, damage, locks, and what is left to read."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.transport.programs import BrokerProcess, Program

EXIT_STORAGE = 74
LINES = [b"line %d" % number for number in range(500)]


def broker_on(data: Path) -> BrokerProcess:
    return BrokerProcess("--data", str(data))


def test_the_first_line_says_where_the_journal_is(tmp_path: Path) -> None:
    with broker_on(tmp_path / "data") as broker:
        assert broker.said.endswith(f"journal in {tmp_path / 'data'}")


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_what_was_confirmed_is_there_after_a_restart_however_the_broker_ended(
    tmp_path: Path, end: signal.Signals
) -> None:
    with broker_on(tmp_path / "data") as broker:
        broker.fill("q", LINES)
        broker.process.send_signal(end)
        assert broker.end() == (0 if end is signal.SIGTERM else -end)
    with broker_on(tmp_path / "data") as broker:
        code, out, err = broker.run("receive", "--queue", "q", "--count", str(len(LINES)))
        assert code == 0, err
        assert out.splitlines() == LINES
        assert broker.statistics("q")["total_acknowledged"] == len(LINES)


def test_what_was_acknowledged_before_an_orderly_end_does_not_come_again(tmp_path: Path) -> None:
    with broker_on(tmp_path / "data") as broker:
        broker.fill("q", LINES)
        assert broker.run("receive", "--queue", "q", "--count", "200")[0] == 0
        broker.process.send_signal(signal.SIGTERM)
        assert broker.end() == 0
    with broker_on(tmp_path / "data") as broker:
        assert broker.statistics("q")["ready"] == 300
        _, out, _ = broker.run("receive", "--queue", "q", "--count", "300")
        assert out.splitlines() == LINES[200:]


def test_queues_keep_the_settings_they_were_created_with(tmp_path: Path) -> None:
    with broker_on(tmp_path / "data") as broker:
        assert broker.run("queue create", "mine", "--max-messages", "7", "--max-receives", "3")[0] == 0
        broker.process.send_signal(signal.SIGKILL)
        broker.end()
    with broker_on(tmp_path / "data") as broker:
        figures = broker.statistics("mine")
        assert (figures["max_messages"], figures["max_receives"]) == (7, 3)


def test_altered_settings_hold_after_a_kill_and_what_the_queue_held_is_there(tmp_path: Path) -> None:
    with broker_on(tmp_path / "data") as broker:
        broker.fill("mine", LINES)
        code, out, _ = broker.run("queue alter", "mine", "--max-messages", "7", "--max-receives", "3", "--ttl", "1h")
        assert (code, out) == (0, f"queue mine altered at {broker.sending}\n".encode())
        assert broker.run("queue alter", "mine", "--ttl", "never")[0] == 0
        broker.process.send_signal(signal.SIGKILL)
        broker.end()
    with broker_on(tmp_path / "data") as broker:
        figures = broker.statistics("mine")
        assert (figures["max_messages"], figures["max_receives"], figures["ttl"]) == (7, 3, None)
        assert figures["ready"] == len(LINES)


def test_altering_nothing_or_what_cannot_be_is_wrong_usage_and_a_queue_that_is_not_there_is_told(
    tmp_path: Path,
) -> None:
    with broker_on(tmp_path / "data") as broker:
        code, _, err = broker.run("queue alter", "mine")
        assert (code, "say what to alter" in err) == (2, True)
        code, _, err = broker.run("queue alter", "mine", "--ttl", "1h")
        assert (code, "there is no queue 'mine'" in err) == (1, True)
        assert broker.run("queue create", "mine")[0] == 0
        code, _, err = broker.run("queue alter", "mine", "--dead-letter-queue", "dead", "--drop-failed")
        assert (code, "drop_failed is set, and a place" in err) == (2, True)


def test_a_directory_belongs_to_one_broker_at_a_time(tmp_path: Path) -> None:
    with broker_on(tmp_path / "data"), _start(tmp_path / "data") as second:
        code, _, err = second.finish()
        assert code == EXIT_STORAGE
        assert "is in use by another broker" in err
        assert len(err.splitlines()) == 1


def test_a_damaged_directory_is_refused_by_file_and_offset_and_repaired_without_the_rest(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with broker_on(data) as broker:
        broker.fill("q", LINES[:250])
        broker.fill("q", LINES[250:])
        broker.process.send_signal(signal.SIGKILL)
        broker.end()
    (segment,) = data.glob("*.segment")
    place = segment.read_bytes().index(b"line 100")
    with segment.open("r+b") as file:
        file.seek(place)
        file.write(b"L")
    with _start(data) as broken:
        code, _, err = broken.finish()
    assert code == EXIT_STORAGE
    assert str(segment) in err
    assert "penstock journal repair" in err

    code, out, _ = _run("journal", "verify", str(data))
    assert code == 1
    assert segment.name in out
    code, out, _ = _run("journal", "repair", str(data))
    assert code == 0
    assert segment.name in out
    with broker_on(data) as broker:
        left = broker.statistics("q")["ready"]
        assert 250 <= left < 500, "what was stored beside the damage is gone, what came before and after it is not"
        _, out_bytes, _ = broker.run("receive", "--queue", "q", "--count", str(left))
        assert set(out_bytes.splitlines()) <= set(LINES)
        assert out_bytes.splitlines()[-1] == LINES[-1]


def test_damage_in_an_old_segment_ends_the_broker_with_one_line_and_every_start_behind_it_until_it_is_repaired(
    tmp_path: Path,
) -> None:
    """A start reads no old record. Who comes upon a damaged one ends the broker, once; the starts after it know the place."""
    data = tmp_path / "data"
    with BrokerProcess("--data", str(data), "--segment-bytes", "256KiB") as broker:
        broker.fill("q", [b"%04d" % number + bytes(500) for number in range(2000)])
        broker.process.send_signal(signal.SIGTERM)
        assert broker.end() == 0
    segment = sorted(data.glob("*.segment"))[2]
    with segment.open("r+b") as file:
        file.seek(segment.stat().st_size // 2)
        file.write(b"\xff" * 8)

    with broker_on(data) as broker:
        code, out, err = broker.run(
            "receive", "--queue", "q", "--count", "2000", "--max-in-flight", "100", "--connect-timeout", "0.1"
        )
        before = len(out.splitlines())
        assert code == 1
        assert 0 < before < 2000
        assert broker.end() == EXIT_STORAGE
        said = broker.rest(broker.stderr).decode()
    assert len(said.splitlines()) == 1, said
    assert said.startswith("penstock broker: the journal is damaged: ")
    assert f"{segment}, offset " in said
    assert f"`penstock journal repair {data}`" in said
    assert "Traceback" not in said
    for _ in range(2):
        with _start(data) as refused:
            code, _, err = refused.finish()
        assert code == EXIT_STORAGE
        assert len(err.splitlines()) == 1, err
        assert f"{segment}, offset " in err
        assert f"`penstock journal repair {data}`" in err

    assert _run("journal", "repair", str(data))[0] == 0
    with broker_on(data) as broker:
        left = broker.statistics("q")["ready"]
        code, out, err = broker.run("receive", "--queue", "q", "--count", str(left))
        assert code == 0, err
        assert out.splitlines()[-1].startswith(b"1999")


def test_statistics_show_the_storage(tmp_path: Path) -> None:
    with broker_on(tmp_path / "data") as broker:
        broker.fill("q", LINES)
        code, out, _ = broker.run("stats", "--json")
        assert code == 0
        assert b'"durable_lsn"' in out
        _, table, _ = broker.run("stats")
        assert b"storage" in table.lower() or b"journal" in table.lower()


def _start(data: Path) -> Program:
    any_port = "127.0.0.1:0"
    return Program("broker", "--send-address", any_port, "--receive-address", any_port, "--data", str(data))


def _run(*arguments: str) -> tuple[int, str, str]:
    with Program(*arguments) as program:
        code, out, err = program.finish()
    return code, out.decode(), err
