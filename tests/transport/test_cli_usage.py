"""What is judged before a broker is reached, and what is said when none is: exit codes and one clear line."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from transport.cli._run import explain
from transport.cli.app import app
from transport.errors import BrokerError

ROOT = Path(__file__).resolve().parents[2]
VERBS = [
    ["broker"],
    ["send"],
    ["receive"],
    ["stats"],
    ["queue", "list"],
    ["queue", "create"],
    ["queue", "delete"],
    ["queue", "purge"],
    ["subscription", "list"],
    ["subscription", "release"],
]


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments, env={"COLUMNS": "200", "TERM": "dumb", "NO_COLOR": "1"})


@pytest.fixture
def nobody() -> str:
    """An address where nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_every_verb_explains_itself(verb: list[str]) -> None:
    result = invoke(*verb, "--help")
    assert result.exit_code == 0
    assert f"penstock {' '.join(verb)}" in result.stdout.replace("root", "penstock")


@pytest.mark.parametrize(
    ("option", "verb"),
    [
        ("--send-address", "broker"),
        ("--receive-address", "broker"),
        ("--max-queue-messages", "broker"),
        ("--max-queue-bytes", "broker"),
        ("--visibility-timeout", "broker"),
        ("--queue", "send"),
        ("--address", "send"),
        ("--queue", "receive"),
        ("--address", "receive"),
        ("--count", "receive"),
        ("--idle-exit", "receive"),
        ("--max-in-flight", "receive"),
        ("--json", "stats"),
        ("--address", "stats"),
    ],
)
def test_the_documented_options_are_there(option: str, verb: str) -> None:
    assert option in invoke(verb, "--help").stdout


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["send"], "--queue"),
        (["send", "--queue", "two words"], "white space"),
        (["send", "--queue", "q", "--address", "nowhere"], "host:port"),
        (["send", "--queue", "q", "no-such-file"], "does not exist"),
        (["send", "--queue", "q", "/"], "is a folder"),
        (["send", "--queue", "q", "--connect-timeout", "0", "-"], "connect-timeout"),
        (["receive"], "--queue"),
        (["receive", "--queue", "q", "--count", "0"], "--count"),
        (["receive", "--queue", "q", "--count", "1", "--idle-exit", "1"], "exclude one another"),
        (["receive", "--queue", "q", "--max-in-flight", "0"], "--max-in-flight"),
        (["receive", "--queue", "", "--count", "1"], "outside 1-255"),
        (["broker", "--send-address", "127.0.0.1:70000"], "port of 0-65535"),
        (["broker", "--max-queue-messages", "0"], "--max-queue-messages"),
        (["queue", "create"], "QUEUE"),
        (["queue", "create", "a", "b"], "b"),
        (["subscription", "release", "q"], "NAME"),
        (["stats", "--address", "::1:9182"], "brackets"),
        (["fly"], "fly"),
    ],
)
def test_a_usage_error_exits_with_2_and_names_the_fault(arguments: list[str], complaint: str) -> None:
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert complaint in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["send", "--queue", "q", "INPUT"],
        ["receive", "--queue", "q", "--count", "1"],
        ["receive", "--queue", "q", "--idle-exit", "0.001"],
        ["stats"],
        ["queue", "list"],
        ["queue", "create", "q"],
        ["queue", "delete", "q"],
        ["queue", "purge", "q"],
        ["subscription", "list"],
        ["subscription", "release", "q", "s"],
    ],
    ids=" ".join,
)
def test_no_broker_in_time_exits_with_1_and_says_where_it_was_looked_for(
    arguments: list[str], nobody: str, tmp_path: Path
) -> None:
    (tmp_path / "input").write_bytes(b"a\nb\n")
    arguments = [str(tmp_path / "input") if argument == "INPUT" else argument for argument in arguments]
    command = [sys.executable, "-m", "transport.cli", *arguments, "--address", nobody, "--connect-timeout", "0.15"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"penstock {arguments[0]}")
    assert nobody in last
    assert "is the broker running there?" in last
    assert "Traceback" not in done.stderr


def test_a_refusal_that_the_command_line_can_mend_says_how() -> None:
    assert "check --address" in explain(BrokerError("unknown-role", "role 'admin' is not served on this address"))
    assert explain(BrokerError("demand-exceeded", "5 of 3")) == "the broker answered demand-exceeded: 5 of 3"


def test_the_version_is_one_line() -> None:
    result = invoke("--version")
    assert result.exit_code == 0
    assert result.stdout.startswith("penstock ")
    assert len(result.stdout.splitlines()) == 1
