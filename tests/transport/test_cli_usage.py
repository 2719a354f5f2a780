"""What is judged before a broker is reached, and what is said when none is: exit codes and one clear line."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest
import typer
from typer.testing import CliRunner, Result

from actors.errors import StorageError
from tests.transport import forking
from transport.cli import _administering, _options
from transport.cli._run import explain, run
from transport.cli.app import app
from transport.cli.exit_codes import EXIT_STORAGE
from transport.cli.stats import statistics_lines
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
    ["queue", "show"],
    ["queue", "export"],
    ["queue", "import"],
    ["queue", "create"],
    ["queue", "delete"],
    ["queue", "purge"],
    ["exchange", "list"],
    ["exchange", "show"],
    ["exchange", "create"],
    ["exchange", "delete"],
    ["exchange", "route"],
    ["binding", "list"],
    ["binding", "create"],
    ["binding", "delete"],
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
    words = shown.replace("/", " ").replace(",", " ").split()
    for parameter in command.params:
        if parameter.param_type_name == "option" and not parameter.hidden:
            assert {*parameter.opts, *parameter.secondary_opts} <= set(words)


def test_brackets_in_a_help_are_shown() -> None:
    assert "[default: (127.0.0.1:9182)]" in invoke("broker", "--help").stdout
    assert "[default: (the users file's name and .key)]" in invoke("user", "key", "--help").stdout


@pytest.mark.parametrize(
    ("verb", "said", "tried"),
    [
        (["send", "--queue", "q"], "127.0.0.1", "127.0.0.1:9182"),
        (["receive", "--queue", "q"], "127.0.0.1", "127.0.0.1:9183"),
        (["queue", "list"], "[::1]", "[::1]:9182"),
        (["cluster", "status"], "a.example,b.example:1", "a.example:9182,b.example:1"),
    ],
)
def test_a_host_alone_has_the_port_of_what_is_served_there(
    verb: list[str], said: str, tried: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[str] = []

    def take(_: str, given: dict[str, str], **__: bool) -> NoReturn:
        found.append(given["address"])
        raise typer.Exit(0)

    for module in (_options, _administering):
        monkeypatch.setattr(module, "take_access", take)
    assert invoke(*verb, "--address", said).exit_code == 0
    assert found == [tried]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["send"], "--queue"),
        (["send", "--queue", "two words"], "white space"),
        (["send", "--queue", "q", "--address", "nowhere:"], "host:port"),
        (["send", "--queue", "q", "--address", "9182"], "host:port"),
        (["receive", "--queue", "q", "--address", "::1"], "write an IPv6 host in brackets"),
        (["send", "--queue", "q", "no-such-file"], "does not exist"),
        (["send", "--queue", "q", "/"], "is a folder"),
        (["send", "--queue", "q", "--connect-timeout", "0", "-"], "connect-timeout"),
        (["send", "--queue", "q", "--exchange", "e"], "--queue and --exchange exclude one another"),
        (["send", "--exchange", "two words"], "--exchange: the exchange name 'two words' has white space"),
        (["send", "--queue", "q", "--mandatory"], "--mandatory goes with --exchange"),
        (["send", "--queue", "q", "--routing-key", "k"], "--routing-key goes with --exchange"),
        (["send", "--exchange", "e", "--no-create"], "--no-create goes with --queue"),
        (
            ["send", "--exchange", "e", "--routing-key", "k", "--key", "k"],
            "--key and --routing-key exclude one another",
        ),
        (
            ["send", "--exchange", "e", "--routing-key", "k" * 256],
            "--routing-key: 256 bytes, and a routing key has 255",
        ),
        (["send", "--exchange", "e", "--routing-key", "\udcff"], "is not UTF-8"),
        (["receive"], "--queue"),
        (["receive", "--queue", "q", "--count", "0"], "--count"),
        (["receive", "--queue", "q", "--null", "--jsonl"], "--null and --jsonl exclude one another"),
        (["send", "--queue", "q", "--null", "--whole-file"], "--null and --whole-file exclude one another"),
        (["send", "--queue", "q", "--header", "trace"], "write NAME=VALUE"),
        (["send", "--queue", "q", "--key", "\udcff"], "--key: '\\udcff' is not UTF-8"),
        (["queue", "peek", "q", "--from", "9" * 5000], "is neither oldest nor newest, nor a message's number"),
        (["queue", "peek", "q", "--count", "-" + "9" * 400], "the least there can be"),
        (["send", "--queue", "q", "--delay", "soon"], "is no duration"),
        (["send", "--queue", "q", "--delay", "367d"], "366 days"),
        (["send", "--queue", "q", "--ttl", "3661d"], "ten years"),
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
        (["broker", "--dead-letter-queue", "d", "--drop-failed"], "drop_failed is set, and a place"),
        (["broker", "--max-receives", "2", "--max-failures", "3"], "are two names of one setting: give one of them"),
        (["queue", "create", "q", "--max-failures", "3", "--max-receives", "3"], "are two names of one setting"),
        (["queue", "alter", "q", "--max-failures", "3", "--max-receives", "3"], "are two names of one setting"),
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
        (
            ["queue", "alter", "a", "--exclusive"],
            "exclusive cannot change, for its receivers rely on it: delete the queue",
        ),
        (
            ["queue", "alter", "a", "--no-durable"],
            "durable cannot change, for what was confirmed was so for it: delete the queue",
        ),
        (["queue", "alter", "a", "--no-exclusive", "--ttl", "5s"], "exclusive cannot change"),
        (["exchange", "create"], "EXCHANGE"),
        (["exchange", "create", ""], "EXCHANGE: an exchange name of 0 bytes"),
        (["exchange", "create", "two words"], "white space"),
        (["exchange", "create", "e", "--kind", "ring"], "'ring' is not one of direct, fanout, topic, headers"),
        (["exchange", "create", "e", "--alternate", "two words"], "--alternate"),
        (["exchange", "route", "e", "k", "--header", "kind"], "write NAME=VALUE"),
        (["exchange", "route", "e", "\udcff"], "KEY: '\\udcff' is not UTF-8"),
        (["binding", "list", "--queue", ""], "--queue"),
        (["binding", "create", "e"], "QUEUE"),
        (["binding", "create", "e", "two words"], "white space"),
        (["binding", "create", "e", "q", "--argument", "=v"], "write NAME=VALUE"),
        (["binding", "create", "e", "q", "--argument", "a=1", "--argument", "a=2"], "'a' is given twice"),
        (["binding", "create", "e", "q", "--argument", "x-match=any"], "write --match all|any|all-with-x|any-with-x"),
        (["binding", "delete", "e", "q", "--match", "some"], "'some' is not one of all, any"),
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
    (line,) = result.stderr.splitlines()
    assert line.startswith("penstock")
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["send", "--quue", "q"], "penstock send: no such option --quue; did you mean --queue? See penstock send -h"),
        (["send", "-q", "q"], "penstock send: no such option -q. See penstock send -h"),
        (["send"], "penstock send: --queue Q is missing, or --exchange E in its place. See penstock send -h"),
        (["send", "--queue"], "penstock send: --queue needs a value: --queue Q. See penstock send -h"),
        (["stats", "--json=3"], "penstock stats: --json takes no value. See penstock stats -h"),
        (["queue", "create"], "penstock queue create: QUEUE is missing. See penstock queue create -h"),
        (
            ["queue", "list", "a", "b"],
            "penstock queue list: unexpected arguments a b. See penstock queue list -h",
        ),
        (
            ["receive", "--queue", "q", "--count", "abc"],
            "penstock receive: --count: 'abc' is no whole number. See penstock receive -h",
        ),
        (
            ["receive", "--queue", "q", "--count", "0"],
            "penstock receive: --count: 0 is less than 1, the least there can be. See penstock receive -h",
        ),
        (
            ["receive", "--queue", "q", "--idle-exit", "nan"],
            (
                "penstock receive: --idle-exit: 'nan' is no duration: write seconds, or numbers with d, h, m, s, ms, "
                "such as 1h30m. See penstock receive -h"
            ),
        ),
        (
            ["receive", "--queue", "q", "--idle-exit", "0s"],
            "penstock receive: --idle-exit: 0s is less than 1 ms, the least there can be. See penstock receive -h",
        ),
        (
            ["queue", "list", "--watch", "2h"],
            "penstock queue list: --watch: 2h is more than 1 h, the most there can be. See penstock queue list -h",
        ),
        (["sned"], "penstock: no such verb sned; did you mean send? See penstock -h"),
        (["queue", "creat"], "penstock queue: no such verb creat; did you mean create? See penstock queue -h"),
        (["purge"], "penstock: no such verb purge; did you mean queue purge? See penstock -h"),
        (["consume"], "penstock: no such verb consume; did you mean receive? See penstock -h"),
        (
            ["exchange", "declare"],
            "penstock exchange: no such verb declare; did you mean create? See penstock exchange -h",
        ),
        (["queue", "declare"], "penstock queue: no such verb declare; did you mean create? See penstock queue -h"),
        (
            ["exchange", "bind"],
            "penstock exchange: no such verb bind; did you mean penstock binding create? See penstock exchange -h",
        ),
        (["receive"], "penstock receive: --queue Q is missing, or --exchange E in its place. See penstock receive -h"),
        (
            ["receive", "--queue", "q", "--binding-key", "k"],
            "penstock receive: --binding-key goes with --exchange. See penstock receive -h",
        ),
        (
            ["receive", "--exchange", "e", "--no-create"],
            (
                "penstock receive: --no-create goes with --queue: without one the receiver has a queue of its own. "
                "See penstock receive -h"
            ),
        ),
        (
            ["schedule", "delete"],
            "penstock schedule: no such verb delete; did you mean remove? See penstock schedule -h",
        ),
        (["user", "create"], "penstock user: no such verb create; did you mean add? See penstock user -h"),
        (["unbind"], "penstock: no such verb unbind; did you mean penstock binding delete? See penstock -h"),
        (["--versoin"], "penstock: no such option --versoin; did you mean --version? See penstock -h"),
        (["a\x1b[31m\nb"], "penstock: no such verb a\\x1b[31m b. See penstock -h"),
    ],
)
def test_a_usage_error_is_one_line_that_says_what_was_likely_meant(arguments: list[str], line: str) -> None:
    result = CliRunner().invoke(app, arguments, prog_name="penstock", env={"COLUMNS": "40"})
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", f"{line}\n")


@pytest.mark.parametrize("words", [[], ["queue"], ["user"]], ids=" ".join)
def test_who_names_no_verb_gets_the_help_on_stderr(words: list[str]) -> None:
    result = invoke(*words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Verbs:" in result.stderr


def every_command(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words of each verb and group."""
    yield words
    for name, part in getattr(command, "commands", {}).items():
        yield from every_command(part, (*words, name))


@pytest.mark.parametrize("words", list(every_command(typer.main.get_command(app))), ids=" ".join)
def test_every_verb_and_group_has_a_short_help_flag_that_says_the_same(words: tuple[str, ...]) -> None:
    long, short = invoke(*words, "--help"), invoke(*words, "-h")
    assert (long.exit_code, long.stdout) == (0, short.stdout)
    assert "-h, --help" in long.stdout
    assert "<bool>" not in long.stdout
    assert not long.stdout.endswith("\n\n")


HEAVY = {
    *("asyncio", "rich", "pydantic", "msgpack", "pykka", "reactivex", "uvloop", "crc32c", "pyarrow", "numpy"),
    *("ssl", "socket", "tomllib", "streams", "journal", "importlib.metadata"),
}


@pytest.mark.parametrize("words", [["-h"], ["broker", "-h"], ["send", "-h"], ["queue", "-h"], ["user", "add", "-h"]])
def test_a_help_loads_nothing_heavy(words: list[str]) -> None:
    program = (
        "import atexit, sys\n"
        "from transport.cli.app import main\n"
        "atexit.register(lambda: print(*sys.modules, file=sys.stderr))\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *words], cwd=ROOT, capture_output=True, text=True, timeout=30, check=True
    )
    assert "Usage:" in done.stdout
    assert HEAVY & set(done.stderr.split()) == set()


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
    code, out, err = forking.run([*arguments, "--address", nobody, "--connect-timeout", "0.15"], b"", 30)
    told = err.decode()
    assert (code, out) == (1, b"")
    last = told.splitlines()[-1]
    assert last.startswith(f"penstock {arguments[0]}")
    assert nobody in last
    assert "is the broker running there?" in last
    assert "Traceback" not in told


def test_a_broker_that_is_not_there_yet_is_told_once_by_each_command_and_not_with_quiet(nobody: str) -> None:
    where = ("--address", nobody, "--connect-timeout", "60")
    quiet, *telling = (
        subprocess.Popen(
            [sys.executable, "-m", "transport.cli", *words, *where], cwd=ROOT, stderr=subprocess.PIPE, text=True
        )
        for words in (["receive", "--queue", "q", "--quiet"], ["receive", "--queue", "q"], ["queue", "list"])
    )
    said = []
    try:
        for each in telling:
            assert each.stderr is not None
            said.append(each.stderr.readline())
        for each in (quiet, *telling):
            each.send_signal(signal.SIGINT)
        rests = [each.communicate(timeout=30)[1] for each in (quiet, *telling)]
    finally:
        for each in (quiet, *telling):
            each.kill()
            each.wait()
    yet = f"no broker at {nobody} yet: connection refused; trying for"
    assert [line.partition(yet)[:2] for line in said] == [("penstock receive: ", yet), ("penstock queue list: ", yet)]
    assert [rest for rest in rests if "no broker" in rest] == []


def test_a_refusal_that_the_command_line_can_mend_says_how() -> None:
    assert "check --address" in explain(BrokerError("unknown-role", "role 'admin' is not served on this address"))
    assert explain(BrokerError("demand-exceeded", "5 of 3")) == "the broker answered demand-exceeded: 5 of 3"


def test_the_version_is_one_line() -> None:
    result = invoke("--version")
    assert result.exit_code == 0
    assert result.stdout.startswith("penstock ")
    assert len(result.stdout.splitlines()) == 1


@pytest.mark.parametrize("words", [["--version"], ["queue", "--help"], ["config", "show"], ["completion", "bash"]])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_an_output_on_a_full_disk_is_one_line_and_exits_with_1(words: list[str], unbuffered: str) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "transport.cli", *words],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=30,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        )
    assert (done.returncode, done.stderr) == (1, "penstock: No space left on device\n")


def test_a_failure_is_told_once_where_what_was_printed_before_it_cannot_be_written() -> None:
    printed_and_failed = (
        "from transport.cli import _run; print('x' * 99); _run.fail('stats', OSError(28, 'No space left on device'))"
    )
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-c", printed_and_failed],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=30,
            env={**os.environ, "PYTHONUNBUFFERED": ""},
        )
    assert "Exception ignored" not in done.stderr
    assert done.returncode == 1


@pytest.mark.parametrize(
    ("closed", "code", "told"),
    [
        ("0<&-", 0, ""),
        ("1>&-", 1, "penstock: Bad file descriptor\n"),
        ("2>&-", 0, ""),
        ("2>/dev/full", 0, ""),
    ],
)
def test_who_is_started_without_input_or_output_goes_on_where_that_is_not_needed(
    closed: str, code: int, told: str
) -> None:
    done = subprocess.run(
        f"{sys.executable} -m transport.cli context list {closed}",
        shell=True,
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
        env={**os.environ, "PYTHONUNBUFFERED": ""},
    )
    assert (done.returncode, done.stderr) == (code, told)


def test_what_cannot_be_told_changes_no_exit_code() -> None:
    told = "from transport.cli import _run; _run.tell('send', 'done')"
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-c", told],
            stderr=full,
            check=False,
            timeout=30,
            env={**os.environ, "PYTHONUNBUFFERED": ""},
        )
    assert done.returncode == 0


def test_a_reader_that_has_seen_enough_is_told_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    async def printed() -> int:
        raise BrokenPipeError(32, "Broken pipe")

    with pytest.raises(typer.Exit) as ended:
        run("queue peek", printed)
    assert ended.value.exit_code == 1
    assert capsys.readouterr().err == ""


def test_a_journal_that_fails_ends_the_broker_with_a_code_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    async def serve() -> int:
        raise StorageError("the journal failed: fdatasync: Input/output error")

    with pytest.raises(typer.Exit) as ended:
        run("broker", serve)
    assert ended.value.exit_code == EXIT_STORAGE == 74
    assert capsys.readouterr().err == "penstock broker: the journal failed: fdatasync: Input/output error\n"


def test_storage_and_why_senders_wait_are_shown() -> None:
    shown = statistics_lines(
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
        80,
    )
    lines = [line.split() for line in shown]
    assert ["senders", "wait:", "600", "MiB", "of", "memory", "are", "used"] in lines
    for row in (
        ["directory", "data"],
        ["disk", "12.1", "KiB"],
        ["sync", "1.2", "ms"],
        ["paused", "-"],
        ["memory", "pressure", "no"],
    ):
        assert row in lines
