"""What a shell is offered: verbs, options, values, files, contexts and queues; and the script of bash, run by a bash."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from transport.cli import _completion_names
from transport.cli._completion_names import queue_names
from transport.cli.app import app
from transport.cli.completion import FILES, NAMES, SCRIPTS, complete
from transport.security.access_sources import VARIABLES

ROOT = Path(__file__).resolve().parents[2]
COMMAND: Any = typer.main.get_command(app)


@pytest.fixture(autouse=True)
def nothing_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in (*VARIABLES.values(), "PENSTOCK_CONTEXT"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


@pytest.fixture
def queues(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    """What was said on the lines for which queues were asked for; the broker has two."""
    asked: list[dict[str, str]] = []

    def names(said: dict[str, str]) -> list[str]:
        asked.append(said)
        return ["orders", "orders:eu"]

    monkeypatch.setattr(_completion_names, "queue_names", names)
    return asked


@pytest.fixture
def exchanges(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    """The same of exchanges."""
    asked: list[dict[str, str]] = []

    def names(said: dict[str, str]) -> list[str]:
        asked.append(said)
        return ["amq.topic", "news"]

    monkeypatch.setattr(_completion_names, "exchange_names", names)
    return asked


def offered(*line: str, split: bool = False) -> list[str]:
    return [word for word, _ in complete(COMMAND, list(line), split=split)[1]]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (["qu"], ["queue"]),
        (["queue", "pu"], ["purge"]),
        (["comp"], ["completion"]),
        (["completion", "w"], []),
        (["send", "--que"], ["--queue"]),
        (["send", "--queue", "q", "--que"], []),
        (["broker", "--queue", "q", "--que"], ["--queue"]),
        (["broker", "--sync", ""], ["always", "interval", "never"]),
        (["broker", "--sync=in"], ["--sync=interval"]),
        (["queue", "create", "q", "--overflow", "r"], ["reject", "reject-dead-letter"]),
        (["stats", "--no-t"], ["--no-tls"]),
        (["nosuch", ""], []),
        (["queue", "nosuch", "--q"], []),
        (["receive", "--queue", "q", "--count", ""], []),
        (["receive", "--queue", "q", ""], []),
        (["--vers"], ["--version"]),
        (["stats", "--hel"], ["--help"]),
    ],
)
def test_verbs_options_and_values_are_offered_where_they_fit(line: list[str], words: list[str]) -> None:
    assert offered(*line) == words


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (["send", "--queue", "q", "--", ""], FILES),
        (["send", "--queue", "q", "some"], FILES),
        (["broker", "--config", ""], FILES),
        (["broker", "--data", "x"], FILES),
        (["journal", "verify", ""], FILES),
        (["stats", "--password-file", ""], FILES),
        (["stats", ""], NAMES),
        (["receive", "--count", ""], NAMES),
        (["queue", ""], NAMES),
    ],
)
def test_files_are_offered_where_one_is_meant(line: list[str], kind: str) -> None:
    assert complete(COMMAND, line)[0] == kind


def test_queues_are_offered_where_one_is_named_at_the_broker_of_the_line(queues: list[dict[str, str]]) -> None:
    assert offered("send", "--queue", "or") == ["orders", "orders:eu"]
    assert offered("send", "--address", "a:1", "--queue=orders:") == ["--queue=orders:eu"]
    assert offered("queue", "delete", "") == ["orders", "orders:eu"]
    assert offered("subscription", "release", "orders", "") == []
    assert offered("queue", "delete", "--context", "prod", "orders:e") == ["orders:eu"]
    assert [said.get("address") or said.get("context") for said in queues] == [None, "a:1", None, "prod"]


def test_exchanges_are_offered_where_one_is_named(
    queues: list[dict[str, str]], exchanges: list[dict[str, str]]
) -> None:
    assert offered("exchange", "delete", "") == ["amq.topic", "news"]
    assert offered("exchange", "create", "e", "--alternate", "n") == ["news"]
    assert offered("binding", "list", "--exchange=a") == ["--exchange=amq.topic"]
    assert offered("binding", "create", "--address", "a:1", "news", "or") == ["orders", "orders:eu"]
    assert offered("binding", "create", "--to-exchange", "news", "") == ["amq.topic", "news"]
    assert offered("exchange", "create", "e", "--kind", "f") == ["fanout"]
    assert [len(queues), len(exchanges)] == [1, 4]
    assert queues[0]["address"] == "a:1"


def test_bash_gets_what_is_behind_its_last_break(queues: list[dict[str, str]]) -> None:
    assert offered("send", "--queue", "=", "or", split=True) == ["orders", "orders:eu"]
    assert offered("send", "--queue", "=", "orders", ":", "e", split=True) == ["eu"]
    assert offered("queue", "delete", "orders", ":", split=True) == ["eu"]
    assert offered("broker", "--sync", "=", split=True) == ["always", "interval", "never"]


def test_contexts_are_offered_by_name() -> None:
    assert CliRunner().invoke(app, ["context", "add", "prod"]).exit_code == 0
    assert offered("stats", "--context", "p") == ["prod"]
    assert offered("context", "use", "") == ["prod"]
    assert offered("context", "remove", "prod", "") == ["prod"]
    assert offered("user", "remove", "") == []


def test_no_broker_no_password_and_a_pipe_nobody_writes_to_are_met_with_silence(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        nobody = f"127.0.0.1:{probe.getsockname()[1]}"
    monkeypatch.setattr(_completion_names, "SECONDS", 0.1)
    os.mkfifo(tmp_path / "pipe")
    assert queue_names({"address": nobody}) == []
    assert queue_names({"address": nobody, "user": "ann"}) == []
    assert queue_names({"address": nobody, "user": "ann", "password_file": str(tmp_path / "pipe")}) == []
    assert queue_names({"address": nobody, "user": "ann", "password_file": "-"}) == []
    assert queue_names({"context": "no such"}) == []
    assert queue_names({"address": "nowhere"}) == []
    assert capfd.readouterr() == ("", "")


def test_names_that_a_shell_would_act_on_are_not_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    async def asked(address: str, access: Any) -> list[str]:
        return ["orders:eu", "$(touch x)", "a;b", "-rf", "~root", "a*", "`x`", "ok_1.2", "a&b", "#x", "ä"]

    monkeypatch.setattr(_completion_names, "_asked", asked)
    assert queue_names({}) == ["ok_1.2", "orders:eu"]


@pytest.mark.parametrize("shell", SCRIPTS)
def test_each_shell_has_its_script(shell: str) -> None:
    result = CliRunner().invoke(app, ["completion", shell])
    assert (result.exit_code, result.stdout) == (0, SCRIPTS[shell])
    # A script is parsed by its shell, where that is here.
    if program := shutil.which(shell):
        done = subprocess.run(
            [program, "-n"], input=result.stdout, capture_output=True, text=True, timeout=30, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
def test_a_bash_completes(tmp_path: Path) -> None:
    program = tmp_path / "penstock"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m transport.cli "$@"\n')
    program.chmod(0o700)
    script = """
        eval "$(penstock completion bash)"
        complete -p penstock
        ask() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _penstock; echo "${COMPREPLY[*]}"; }
        ask penstock queue pu
        ask penstock broker --sync = ""
        ask penstock send --queue q ""
        ask penstock "two words" ""
        ask penstock nosuch --x
    """
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        ["bash", "--norc", "-c", script], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    registered, verbs, values, files, *rest = done.stdout.splitlines()
    assert registered == "complete -o bashdefault -o default -F _penstock penstock"
    assert (verbs, values.split(), files) == ("purge", ["always", "interval", "never"], "")
    assert rest == ["", ""]
    assert done.stderr == ""
