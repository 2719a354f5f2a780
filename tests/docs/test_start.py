"""docs/start.md is typed as it stands, at a broker, and prints what it shows."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.docs.console import KEY, Step, Terminal, comparable, free_address, steps, terminals
from tests.streams.pages import python_blocks

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "start.md"
SEND, RECEIVE = "127.0.0.1:9182", "127.0.0.1:9183"
"""The addresses that the page has; others may have these ports while the tests run."""

EXTRAS = {
    "from spark_bridge import PenstockDataSource": "spark",
    "import spark_bridge.source": "spark",
    "import transport.clients.arrow_batches": "arrow",
    "from transport import Tracing; Tracing()": "otel",
}
"""What needs one, and its name."""
INSTALL_SECONDS = 100.0


def typed(step: Step, terminal: Terminal, receive: str, goes_on: bool) -> str:
    command = step.command
    if command.startswith("python examples/"):
        command = command.replace(".py", f".py --address {receive}", 1)
    terminal.type(command)
    return terminal.until_shown(len(step.shown)) if goes_on else terminal.until_ready()


def type_the_page(folder: Path, commands: Path) -> None:
    """Type it in ``folder``, with the commands of ``commands``, and compare what comes with what it shows."""
    send, receive = free_address(), free_address()
    ours = ("PENSTOCK_", "PYTHON")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(ours)} | {
        "PATH": f"{commands}:{os.environ['PATH']}",
        "PENSTOCK_SEND_ADDRESS": send,
        "PENSTOCK_RECEIVE_ADDRESS": receive,
        "XDG_CONFIG_HOME": str(folder.parent),
    }
    (folder.parent / "penstock").mkdir()
    page = list(steps(PAGE.read_text("utf-8")))
    assert len(page) > 10
    with terminals(folder, environment) as terminal:
        setup = Terminal(folder, environment | {"PS1": "\x02READY\x03"})
        setup.type(f"penstock context add start --address {send} --receive-address {receive} --use")
        setup.until_ready()
        setup.close()
        for index, step in enumerate(page):
            later = [each for each in page[index + 1 :] if each.terminal == step.terminal]
            goes_on = bool(later) and later[0].command == KEY
            printed = typed(step, terminal[step.terminal], receive, goes_on)
            if step.command == KEY:
                continue
            printed = printed.replace(send, SEND).replace(receive, RECEIVE)
            assert comparable(printed) == comparable("\n".join(step.shown)), step.command


def test_the_page_prints_what_it_shows(folder: Path, commands: Path) -> None:
    type_the_page(folder, commands)


def test_the_page_prints_what_it_shows_where_nothing_is_but_the_wheel(folder: Path, tmp_path: Path) -> None:
    """An environment of its own, with what the wheel asks for and no extra; what needs one says in a line which."""
    empty, wheels = tmp_path / "empty", tmp_path / "wheels"
    run(sys.executable, "-m", "venv", "--without-pip", str(empty))
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "--quiet")
    run(*pip, "wheel", "--no-build-isolation", "--no-deps", "--wheel-dir", str(wheels), str(ROOT))
    (wheel,) = wheels.iterdir()
    run(*pip, "--python", str(empty), "install", "--constraint", str(ROOT / "requirements.lock"), str(wheel))
    type_the_page(folder, empty / "bin")
    for statement, extra in EXTRAS.items():
        said = run(str(empty / "bin" / "python"), "-c", statement, folder=folder, status=1)
        assert f"pip install 'penstock-mq[{extra}]'" in said.splitlines()[-1]


def run(*command: str, folder: Path = ROOT, status: int = 0) -> str:
    """What a program says on its standard error; it ends with ``status``."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=INSTALL_SECONDS)
    assert done.returncode == status, done.stderr
    return done.stderr


def test_the_program_on_the_page_is_the_example() -> None:
    (shown,) = python_blocks(PAGE.read_text("utf-8"))
    body, _, _ = shown.partition("\n\nasyncio.run(")
    assert body.strip() in (ROOT / "examples/start/kitchen.py").read_text("utf-8").replace(
        "import argparse\nimport asyncio", "import asyncio"
    )
    better = (ROOT / "examples/start/better_kitchen.py").read_text("utf-8")
    of_both = body[body.index("async def cook") :].strip()
    assert of_both in better
    assert '"fish"' in better.partition("async def cook")[0]
