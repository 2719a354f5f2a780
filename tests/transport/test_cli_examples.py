"""The examples in the helps: every verb has some, they fit a terminal, and they work."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from tests.transport.programs import BrokerProcess
from tests.transport.test_commands_documented import calls, check
from transport.cli._examples import EXAMPLES
from transport.cli.app import app
from transport.security.access_sources import VARIABLES

ROOT = Path(__file__).resolve().parents[2]
LINES = [example.line for examples in EXAMPLES.values() for example in examples]
PROGRAM = [sys.executable, "-m", "transport.cli"]
WIDTH = 80 - len("  ")
RUNS_IN_TURN = """
penstock context add test --address BROKER --use
penstock context add prod --address BROKER
echo hello | penstock send --queue greetings
penstock receive --queue greetings --count 1
penstock send --queue orders orders.txt
penstock receive --queue orders --idle-exit 0.2
penstock exchange create orders --kind topic
penstock exchange create news --kind fanout --alternate rest
penstock send --exchange orders --routing-key eu.tea orders.txt
penstock exchange list
penstock exchange list --wide
penstock exchange show orders
penstock exchange show orders --json
penstock exchange route orders eu.tea
penstock exchange route amq.headers '' --header kind=tea
penstock binding list --exchange orders
penstock binding list --queue europe
penstock binding delete orders europe 'eu.*'
penstock exchange delete orders --if-unused
penstock queue create tasks --max-receives 5 --dead-letter-queue failed
penstock queue alter orders --max-messages 5000
penstock queue alter orders --ttl never
penstock queue list
penstock queue peek orders --count 3
penstock queue peek orders --from newest --headers
penstock queue move orders later --count 100 --create
penstock queue export queues.toml
penstock queue export --queue 'orders*' --format json
penstock queue import queues.toml --dry-run
penstock queue import queues.toml --alter
penstock connection list
penstock connection list --wide
penstock stats
penstock stats --json
penstock subscription list
penstock transaction list
penstock queue purge orders
penstock queue delete orders
penstock context list
penstock context show prod
penstock context use prod
penstock context use --none
penstock user add till-7 --no-password
penstock user add ann --password-file ann.password
echo 'a better one' | penstock user passwd ann --password-file -
penstock user grant ann read write --on 'orders*'
penstock user grant ann monitor
penstock user revoke ann write --on 'orders*'
penstock user certificate ann CN=ann
penstock user token ann --days 30 --note laptop
penstock user list
penstock config show --data ./penstock-data --sync always
penstock broker --config penstock.toml --check
"""


def verbs(command: Any, words: tuple[str, ...] = ()) -> Iterator[str]:
    if not command.hidden:
        yield " ".join(words)
        for name, part in getattr(command, "commands", {}).items():
            yield from verbs(part, (*words, name))


def test_every_verb_has_examples_and_every_example_a_verb() -> None:
    assert set(EXAMPLES) == set(verbs(typer.main.get_command(app)))


@pytest.mark.parametrize("verb", [verb for verb in EXAMPLES if len(EXAMPLES[verb]) != 1 or verb], ids=str)
def test_a_verb_has_two_or_three_examples_of_itself(verb: str) -> None:
    parts = {words for words in EXAMPLES if words.startswith(f"{verb} ")}
    assert len(EXAMPLES[verb]) in ({1, 2, 3} if parts else {2, 3})
    for example in EXAMPLES[verb]:
        assert f"penstock {verb}".strip() in example.line
        assert example.does.endswith(".")


@pytest.mark.parametrize("line", LINES)
def test_an_example_fits_a_terminal_and_is_a_command_that_there_is(line: str) -> None:
    assert len(line) <= WIDTH
    found = [each for part in line.replace("$(", "; ").replace(')"', "").split("; ") for each in calls(part)]
    assert found
    for each in found:
        check(each)


def test_examples_run_one_after_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that end by themselves, in the order in which somebody would try them, at a broker and in a folder of their own."""
    (tmp_path / "orders.txt").write_text("a\nb\n")
    (tmp_path / "ann.password").write_text("a long password\n")
    (tmp_path / "ann.password").chmod(0o600)
    (tmp_path / "penstock.toml").write_text(
        '[broker]\nmemory = true\nsend_address = "127.0.0.1:0"\nreceive_address = "127.0.0.1:0"\n'
    )
    for variable in (*VARIABLES.values(), "PENSTOCK_CONTEXT"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.chdir(tmp_path)
    with BrokerProcess() as broker:
        for line in RUNS_IN_TURN.strip().splitlines():
            # Not as it is shown: no test waits for seconds.
            assert "BROKER" in line or line.replace("0.2", "2") in LINES, line
            before, _, after = line.partition("penstock ")
            given = shlex.split(before)[1] + "\n" if before else None
            words = shlex.split(after.replace("BROKER", f"{broker.sending} --receive-address {broker.receiving}"))
            if words[0] == "receive" or words[:3] == ["send", "--queue", "greetings"]:
                # These read and write files of the system's.
                done = subprocess.run(
                    [*PROGRAM, *words], input=given, capture_output=True, text=True, timeout=60, check=False
                )
                code, said = done.returncode, done.stderr
            else:
                result = CliRunner().invoke(app, words, input=given)
                code, said = result.exit_code, result.stderr
            assert code == 0, (line, said)
