"""``penstock config show``: what is in force, and who said so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from transport.cli.app import app
from transport.config.settings import OPTIONS, QUEUE_OPTIONS

FILE = '[broker]\ndata = "data"\n\n[journal]\nsync = "interval"\n\n[queues."a.b"]\nttl = "1h"\n'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "penstock.toml"
    path.write_text(FILE)
    return path


def show(*arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(app, ["config", "show", *arguments], env={"COLUMNS": "200"} | environment)


def rows(result: Result) -> dict[str, list[str]]:
    assert result.exit_code == 0, result.stderr
    cells = (line.split() for line in result.stdout.splitlines()[3:] if line.strip())
    return {first: rest for first, *rest in cells}


def test_each_setting_is_a_row_with_its_value_and_where_it_is_from(path: Path) -> None:
    shown = rows(show("--config", str(path), "--segment-bytes", "1048576", PENSTOCK_SYNC_INTERVAL="0.02"))
    assert shown["broker.data"] == [str(path.parent / "data"), f"{path}:2"]
    assert shown["journal.sync"] == ["interval", f"{path}:5"]
    assert shown["journal.sync_interval"] == ["20ms", "PENSTOCK_SYNC_INTERVAL"]
    assert shown["journal.segment_bytes"] == ["1MiB", "--segment-bytes"]
    assert shown["journal.cache_bytes"] == ["64MiB", "default"]
    assert shown['queues."a.b".ttl'] == ["1h", f"{path}:8"]
    assert len(shown) == len(OPTIONS) + len(QUEUE_OPTIONS)


def test_as_json_it_is_one_object_with_numbers_in_bytes_and_seconds(path: Path) -> None:
    result = show("--json", "--memory", "--exclusive", PENSTOCK_CONFIG=str(path), PENSTOCK_DISK_FLOOR="2GiB")
    assert (result.exit_code, result.stderr) == (0, "")
    shown = json.loads(result.stdout)
    file = {"source": "file", "name": str(path)}
    assert shown["broker.data"] == {"value": None, "text": "", "source": "command line", "name": "--memory"}
    assert shown["limits.disk_floor"] == {
        "value": 2**31, "text": "2GiB", "source": "environment", "name": "PENSTOCK_DISK_FLOOR",
    }  # fmt: skip
    assert shown["queue_defaults.exclusive"] == {
        "value": True, "text": "true", "source": "command line", "name": "--exclusive",
    }  # fmt: skip
    assert shown["queue_defaults.max_receives"] == {"value": None, "text": "never", "source": "default"}
    assert shown['queues."a.b".ttl'] == {"value": 3600.0, "text": "1h"} | file | {"line": 8}
    assert shown['queues."a.b".exclusive']["value"] is True


def test_a_flag_can_be_taken_back_on_the_command_line(path: Path) -> None:
    path.write_text("[queue_defaults]\nexclusive = true\n")
    assert rows(show("--config", str(path)))["queue_defaults.exclusive"][0] == "true"
    assert rows(show("--config", str(path), "--no-exclusive"))["queue_defaults.exclusive"] == ["false", "--exclusive"]


def test_the_file_of_the_command_line_goes_before_that_of_the_environment(path: Path) -> None:
    shown = rows(show("--config", str(path), PENSTOCK_CONFIG="absent.toml"))
    assert shown["journal.sync"][0] == "interval"


def test_problems_are_told_a_line_each_and_exit_with_2(path: Path) -> None:
    path.write_text("[journal]\nsnyc = 1\nsync = 2\n")
    result = show("--config", str(path), "--ttl", "x")
    assert (result.exit_code, result.stdout) == (2, "")
    assert [line.split(": ")[1] for line in result.stderr.splitlines()] == [f"{path}:2", f"{path}:3", "--ttl"]


def test_a_variable_much_like_a_setting_is_told_of_and_a_platforms_is_not() -> None:
    service = ("PORT", "SERVICE_HOST", "SERVICE_PORT", "PORT_9182_TCP", "PORT_9182_TCP_ADDR", "PORT_9182_TCP_PROTO")
    result = show(PENSTOCK_SNYC="never", **{f"PENSTOCK_{name}": "10.0.0.1" for name in service})
    assert result.exit_code == 0
    assert result.stderr == (
        "penstock config show: PENSTOCK_SNYC in the environment is no setting; did you mean sync?\n"
    )


def test_it_starts_nothing_and_makes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert show("--data", "made").exit_code == 0
    assert list(tmp_path.iterdir()) == []
