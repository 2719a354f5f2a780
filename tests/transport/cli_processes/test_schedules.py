"""The command line about schedules: over a broker's process, and the times of an expression without any."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer.main

from tests.transport.programs import BrokerProcess
from transport.cli.app import app

ROOT: Any = typer.main.get_command(app)


def added(broker: BrokerProcess, name: str, *words: str) -> tuple[int, bytes, str]:
    return broker.run("schedule add", name, *words)


def test_it_is_added_shown_paused_and_removed(broker: BrokerProcess, queue: str, tmp_path: Path) -> None:
    content = tmp_path / "content"
    content.write_bytes(b"from a file")
    words = (
        "@yearly",
        "--queue",
        queue,
        "--payload-file",
        str(content),
        "--header",
        "h=v",
        "--key",
        "k",
        "--ttl",
        "5m",
    )
    assert added(broker, "s", *words) == (0, f"schedule s begins at {broker.sending}\n".encode(), "")
    assert added(broker, "s", *words) == (0, f"schedule s is there already at {broker.sending}\n".encode(), "")
    shown = json.loads(broker.run("schedule show", "s", "--json")[1])
    assert {name: shown[name] for name in ("payload", "headers", "key", "ttl_ms", "queue", "missed")} == {
        "payload": "from a file",
        "headers": {"h": "v"},
        "key": "k",
        "ttl_ms": 300_000,
        "queue": queue,
        "missed": "skip",
    }
    page = broker.run("schedule show", "s")[1].decode()
    assert "  header     h=v\n  key        k\n  ttl        5 min\n" in page
    assert broker.run("schedule pause", "s")[1] == f"schedule s paused at {broker.sending}\n".encode()
    assert broker.run("schedule pause", "s")[1] == f"schedule s is paused already at {broker.sending}\n".encode()
    assert broker.run("schedule resume", "s")[1] == f"schedule s goes on at {broker.sending}\n".encode()
    assert broker.run("schedule resume", "s")[1] == f"schedule s is not paused at {broker.sending}\n".encode()
    assert broker.run("schedule remove", "s") == (0, f"schedule s removed at {broker.sending}\n".encode(), "")
    code, out, err = broker.run("schedule show", "s")
    assert (code, out) == (1, b"")
    assert "there is no schedule 's'; `penstock schedule list` shows what there is" in err


def test_a_payload_that_is_no_text_is_shown_in_base64(broker: BrokerProcess, queue: str, tmp_path: Path) -> None:
    content = tmp_path / "payload"
    content.write_bytes(b"\xff\xfe")
    assert added(broker, "bytes", "every 1h", "--queue", queue, "--payload-file", str(content))[0] == 0
    shown = json.loads(broker.run("schedule show", "bytes", "--json")[1])
    assert (shown["payload_base64"], "payload" in shown) == ("//4=", False)
    assert "  payload    base64 //4=\n" in broker.run("schedule show", "bytes")[1].decode()
    assert broker.run("schedule remove", "bytes")[0] == 0


def test_what_fails_has_its_error_beneath_the_list(broker: BrokerProcess, queue: str) -> None:
    assert added(broker, "fails", "every 1s", "--exchange", "amq.headers", "--header", "a=b")[0] == 0
    assert added(broker, "beats", "every 1s", "--queue", queue)[0] == 0
    # Of two that are due in one second either may come first, and the next second is behind both.
    assert broker.run("receive", "--queue", queue, "--count", "2", "--quiet")[0] == 0
    assert broker.run("schedule remove", "beats")[0] == 0
    (row,) = json.loads(broker.run("schedule list", "--json")[1])
    lines = broker.run("schedule list")[1].decode().splitlines()
    assert (row["state"], lines[0]) == ("failing", "1 schedule")
    assert lines[-1] == "fails: exchange 'amq.headers' has no queue for the routing key ''"
    assert broker.run("schedule remove", "fails")[0] == 0


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("every 1s",), "give either --queue or --exchange"),
        (("every 1s", "--queue", "q", "--exchange", "e"), "give either --queue or --exchange"),
        (
            ("every 1s", "--queue", "q", "--payload", "a", "--payload-file", "b"),
            "give either --payload or --payload-file",
        ),
        (("every 1s", "--queue", "q", "--missed", "never"), "'never' is not one of skip, once, all"),
        (("every 1s", "--queue", "a b"), "white space"),
    ],
)
def test_wrong_words_are_told_in_a_line(broker: BrokerProcess, words: tuple[str, ...], why: str) -> None:
    code, out, err = added(broker, "wrong", *words)
    assert (code, out) == (2, b"")
    assert why in err
    assert err.count("\n") == 1


def said(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = ROOT.main(["schedule", "next", *words], prog_name="penstock", standalone_mode=False)
    return (code or 0, *capsys.readouterr())


def test_the_next_times_are_printed_without_a_broker(capsys: pytest.CaptureFixture[str]) -> None:
    autumn = said(capsys, "*/30 * * * *", "--zone", "Europe/Berlin", "--after", "2026-10-25T01:45", "--count", "3")
    assert autumn == (0, "2026-10-25 02:00:00+02:00\n2026-10-25 02:30:00+02:00\n2026-10-25 02:00:00+01:00\n", "")
    offset = said(capsys, "@hourly", "--after", "2026-01-01T00:30+02:00", "--count", "1")
    assert offset == (0, "2025-12-31 23:00:00+00:00\n", "")
    assert len(said(capsys, "every 1s")[1].splitlines()) == 5


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("nonsense",), "'nonsense' is no cron expression"),
        (("@daily", "--zone", "Mars"), "there is no time zone 'Mars'"),
        (("@daily", "--after", "tomorrow"), "'tomorrow' is no time: write 2026-03-29T01:00"),
        (("@daily", "--after", "9999-12-31T23:59"), "is too far away: years from 1970 to 2999 are possible"),
        (("x" * 300,), "MAX_EXPRESSION_BYTES of 255"),
    ],
)
def test_what_has_no_times_is_told_in_a_line(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], why: str
) -> None:
    code, out, err = said(capsys, *words)
    assert (code, out) == (2, "")
    assert why in err
    assert err.count("\n") == 1
