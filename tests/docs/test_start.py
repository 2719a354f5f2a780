"""docs/start.md is typed as it stands, at a broker, and prints what it shows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.docs.console import Step
from tests.docs.typed_page import HTTP, RECEIVE, ROOT, check_page
from tests.streams.pages import python_blocks

PAGE = ROOT / "docs" / "start.md"
EXTRAS = {
    "from spark_bridge import PenstockDataSource": "spark",
    "import spark_bridge.source": "spark",
    "import transport.clients.arrow_batches": "arrow",
    "from transport import Tracing; Tracing()": "otel",
}
"""What needs one, and its name."""
INSTALL_SECONDS = 100.0


def with_address(step: Step) -> str:
    """The programs of the page do not look at contexts."""
    program = step.command.startswith("python examples/")
    return step.command.replace(".py", f".py --address {RECEIVE}", 1) if program else step.command


def without_console(text: str) -> str:
    """What a broker says without the extra for HTTP: no console, and in a line why there is none."""
    lines = text.replace(f", console http://{HTTP}/", "").splitlines()
    return "\n".join(line for line in lines if "pip install 'penstock-mq[http]'" not in line)


def test_the_page_prints_what_it_shows(folder: Path, commands: Path) -> None:
    check_page(PAGE, folder, commands, with_address)


def test_the_page_prints_what_it_shows_where_nothing_is_but_the_wheel(folder: Path, tmp_path: Path) -> None:
    """An environment of its own, with what the wheel asks for and no extra; what needs one says in a line which."""
    empty, wheels = tmp_path / "empty", tmp_path / "wheels"
    run(sys.executable, "-m", "venv", "--without-pip", str(empty))
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "--quiet")
    run(*pip, "wheel", "--no-build-isolation", "--no-deps", "--wheel-dir", str(wheels), str(ROOT))
    (wheel,) = wheels.iterdir()
    lock = str(ROOT / "requirements.lock")
    run(*pip, "--python", str(empty), "install", "--no-compile", "--constraint", lock, str(wheel))
    check_page(PAGE, folder, empty / "bin", with_address, without_console, speaks_http=False)
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
