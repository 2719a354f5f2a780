"""What is judged before a broker is reached, and what is said when none is: exit codes and one clear line."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from actors.errors import StorageError
from transport.cli._run import explain, run
from transport.cli.administration import show_statistics
from transport.cli.app import app
from transport.cli.exit_codes import EXIT_STORAGE
from transport.errors import BrokerError

ROOT = Path(__file__).resolve().parents[2]
VERBS = [
    ["broker"],
    ["config", "show"],
    ["journal", "verify"],
    ["journal", "repair"],
    ["send"],
    ["receive"],
    ["stats"],
    ["queue", "list"],
    ["queue", "create"],
    ["queue", "delete"],
    ["queue", "purge"],
    ["subscription", "list"],
    ["subscription", "release"],
    ["subscription", "delete"],
    ["transaction", "list"],
    ["transaction", "abort"],
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
        ("--config", "broker"),
        ("--data", "broker"),
        ("--memory", "broker"),
        ("--sync", "broker"),
        ("--segment-bytes", "broker"),
        ("--cache-bytes", "broker"),
        ("--memory-watermark", "broker"),
        ("--disk-floor", "broker"),
        ("--transaction-timeout", "broker"),
        ("--max-staged-messages", "broker"),
        ("--max-staged-bytes", "broker"),
        ("--max-receives", "broker"),
        ("--dead-letter-queue", "broker"),
        ("--no-exclusive", "broker"),
        ("--queue", "broker"),
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


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_names_of_options_are_whole_on_a_narrow_terminal(verb: list[str]) -> None:
    command: Any = typer.main.get_command(app)
    for word in verb:
        command = command.commands[word]
    environment = {"COLUMNS": "80", "TERM": "dumb", "NO_COLOR": "1"}
    shown = CliRunner().invoke(app, [*verb, "--help"], env=environment).stdout
    assert max(map(len, shown.splitlines())) <= 80
    words = shown.replace("/", " ").split()
    for parameter in command.params:
        if parameter.param_type_name == "option" and not parameter.hidden:
            assert {*parameter.opts, *parameter.secondary_opts} <= set(words)


def test_brackets_in_a_help_are_shown() -> None:
    assert "[default: (127.0.0.1:9182)]" in invoke("broker", "--help").stdout
    assert "[default: (the users file's name and .key)]" in invoke("user", "key", "--help").stdout


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
        (["broker", "--max-queue-messages", "many"], "'many' is no whole number"),
        (["broker", "--memory", "--data", "x"], "exclude one another"),
        (["broker", "--sync", "sometimes"], "--sync: sync is 'sometimes'"),
        (["broker", "--segment-bytes", "5m"], "--segment-bytes: '5m' is no size"),
        (["broker", "--disk-floor", "-1"], "--disk-floor: '-1' is no size"),
        (["broker", "--config", "absent.toml"], "absent.toml: cannot be read"),
        (["broker", "--queue", "orders tll=1"], "did you mean ttl?"),
        (["broker", "--dead-letter-queue", "d"], "--dead-letter-queue: a dead-letter queue is given, but neither"),
        (["config", "show", "--ttl", "soon"], "--ttl: 'soon' is no duration"),
        (["journal", "verify"], "DIR"),
        (["journal", "verify", "no-such-folder"], "does not exist"),
        (["journal", "repair", "pyproject.toml"], "is a file"),
        (["queue", "create"], "QUEUE"),
        (["queue", "create", "a", "b"], "b"),
        (["queue", "create", "a", "--ttl", "soon"], "'soon' is no duration"),
        (["queue", "create", "a", "--overflow", "spill"], "--overflow: overflow is 'spill'"),
        (["queue", "create", "a", "--max-receives", "0"], "--max-receives"),
        (["queue", "create", "a", "--ttl", "0.4ms"], "0.4 ms is less than 1ms"),
        (["queue", "create", "a", "--delay", "0.9ms"], "0.9 ms is less than 1ms"),
        (["queue", "create", "a", "--visibility-timeout", "0.0001"], "0.1 ms is less than 1ms"),
        (["config", "show", "--ttl", "0.4ms"], "0.4 ms is less than 1ms"),
        (["queue", "create", "a", "--max-messages", "0"], "max_messages is 0; 1 or more is possible"),
        (["queue", "create", "a", "--max-staged-bytes", "0"], "max_staged_bytes is 0; 1 or more is possible"),
        (["queue", "create", "a", "--dead-letter-queue", "two words"], "white space"),
        (["queue", "alter", "a", "--exclusive"], "exclusive cannot change, for receivers rely on it: delete the queue"),
        (["queue", "alter", "a", "--no-exclusive", "--ttl", "5s"], "exclusive cannot change"),
        (["subscription", "release", "q"], "NAME"),
        (["transaction", "abort", "w"], "VERSION"),
        (["transaction", "abort", "two words", "1"], "white space"),
        (["transaction", "abort", "w", "-1"], "-1"),
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
        ["subscription", "delete", "q", "s"],
        ["transaction", "list"],
        ["transaction", "abort", "w", "1"],
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


def test_a_journal_that_fails_ends_the_broker_with_a_code_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    async def serve() -> int:
        raise StorageError("the journal failed: fdatasync: Input/output error")

    with pytest.raises(typer.Exit) as ended:
        run("broker", serve)
    assert ended.value.exit_code == EXIT_STORAGE == 74
    assert capsys.readouterr().err == "penstock broker: the journal failed: fdatasync: Input/output error\n"


def test_storage_and_why_senders_wait_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    show_statistics(
        {
            "broker": {"paused": "600 MiB of memory are used"},
            "storage": {
                "directory": "data",
                "disk_bytes": 12345,
                "sync_ms": 1.25,
                "paused": None,
                "memory_pressure": False,
            },
        },
        "127.0.0.1:1",
    )
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["senders", "wait:", "600", "MiB", "of", "memory", "are", "used"] in lines
    for row in (["directory", "data"], ["disk", "bytes", "12,345"], ["paused", "-"], ["memory", "pressure", "no"]):
        assert row in lines
