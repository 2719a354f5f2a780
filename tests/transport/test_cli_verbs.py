"""Verbs are loaded when they are named: a help loads its own, and the list of all says of each what it says of itself."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import typer.main

from transport.cli._verbs import VERBS
from transport.cli.app import app

ROOT: Any = typer.main.get_command(app)
HEAVY = ("asyncio", "rich", "pydantic", "transport.config.settings", "transport.clients.administration", "msgpack")
"""What no help of a verb without settings needs."""
LIGHT = [
    ["send"],
    ["receive"],
    ["bench"],
    ["user", "add"],
    ["connection", "list"],
    ["journal", "backup"],
    ["exchange", "create"],
    [],
]


@pytest.mark.parametrize("name", VERBS)
def test_the_list_says_of_a_verb_what_it_says_of_itself(name: str) -> None:
    verb = ROOT.commands[name]
    assert ROOT.lines()[name] == " ".join((verb.short_help or verb.help).split())
    assert hasattr(verb, "commands") == VERBS[name].is_group


@pytest.mark.parametrize("name", [name for name, row in VERBS.items() if row.is_group])
def test_the_list_of_a_group_says_of_its_verbs_what_they_say_of_themselves(name: str) -> None:
    group = ROOT.commands[name]
    shown = {each: verb for each, verb in group.commands.items() if not verb.hidden}
    assert group.lines() == {each: " ".join(verb.help.split()) for each, verb in shown.items()}
    assert shown


def test_a_verb_is_made_once() -> None:
    assert ROOT.commands["queue"].commands["create"] is ROOT.commands["queue"].commands["create"]
    assert "no such" not in ROOT.commands
    assert len(ROOT.commands) == len(VERBS)


@pytest.mark.parametrize("words", LIGHT, ids=" ".join)
def test_a_help_loads_the_verb_that_is_named_and_nothing_heavy(words: list[str]) -> None:
    script = (
        "import sys; from transport.cli import main\n"
        f"sys.argv = ['penstock', *{words!r}, '--help']\n"
        "try: main()\n"
        "finally: sys.stderr.write(' '.join(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0
    assert done.stdout.startswith(f"Usage: {' '.join(['penstock', *words])}")
    loaded = set(done.stderr.split())
    assert not loaded & set(HEAVY)
    # What ``bench`` and ``stats`` show of others is none of their loading.
    assert {name for name in VERBS if f"transport.cli.{name}" in loaded} == set(words[:1])
