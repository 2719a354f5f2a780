"""Programs of pages that have no test of their own, and the texts that docs/failures.md shows."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from pathlib import Path

import pytest

from streams import Sink, Source
from tests.docs.programs import printed
from tests.docs.typed import block
from tests.streams.pages import DOCS, ROOT, python_blocks
from transport.testing import HostedBroker

SLOW = 0.02
DEADLINE = 30.0


def test_the_program_of_the_readme_prints_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    readme = (ROOT / "README.md").read_text("utf-8")
    exec(compile(python_blocks(readme)[0], "README.md", "exec", dont_inherit=True), {"__name__": "__main__"})
    lines = capsys.readouterr().out.splitlines()
    assert lines == ["order 1", "order 2", "order 3"]
    assert "It prints " + ", ".join(f"`{line}`" for line in lines[:2]) + f" and `{lines[2]}`" in readme


def test_the_program_of_the_command_lines_page_prints_the_queue() -> None:
    (program,) = python_blocks((DOCS / "cli.md").read_text("utf-8"))
    with HostedBroker() as broker:
        assert printed(program, broker) == "invoices 0 ready, 0 in flight\n"


def parse(line: bytes) -> int:
    return int(line.decode())


told: list[logging.LogRecord] = []


def look_up(element: int) -> int:
    """Holds up the loop until that is told of, however seldom a busy machine lets the watch look."""
    until = time.monotonic() + DEADLINE
    while not told and time.monotonic() < until:
        pass
    return element


def test_a_failure_says_what_the_page_shows(tmp_path: Path) -> None:
    (tmp_path / "numbers.txt").write_text("1\ntwo\n")
    with pytest.raises(ValueError, match="two") as raised:
        Source.lines(tmp_path / "numbers.txt").map(parse).to(Sink.foreach(str)).run_blocking()
    error = raised.value
    shown = block("docs/failures.md", "ValueError: invalid literal").splitlines()
    assert [f"ValueError: {error}", *error.__notes__] == shown


def test_a_stage_that_blocks_is_told_of_as_the_page_shows(
    caplog: pytest.LogCaptureFixture, loop_reports: list[str]
) -> None:
    async def main() -> None:
        asyncio.get_running_loop().slow_callback_duration = SLOW
        await Source.of(1).map(look_up).run_with(Sink.ignore())

    told.clear()
    listener = logging.Handler()
    listener.emit = told.append  # type: ignore[method-assign]  # all that it does
    logger = logging.getLogger("penstock.streams")
    logger.addHandler(listener)
    try:
        with caplog.at_level(logging.WARNING, "penstock.streams"):
            asyncio.run(main(), debug=True)
    finally:
        logger.removeHandler(listener)
    (said,) = [record.getMessage() for record in told]
    assert without_figures(said) == without_figures(block("docs/failures.md", "the stage map has").rstrip())
    assert loop_reports


def without_figures(text: str) -> str:
    return re.sub(r"\([\w/.-]+\.py:\d+\)", "(FILE)", re.sub(r"\d+\.\d+ s", "TIME", text))


def test_the_pieces_of_the_exactly_once_page_are_in_its_example() -> None:
    example = (ROOT / "examples" / "spark_exactly_once.py").read_text("utf-8")
    pieces = python_blocks((DOCS / "spark-exactly-once.md").read_text("utf-8"))
    assert len(pieces) == 3
    for piece in pieces:
        assert piece.rstrip() in example


def test_the_codemap_names_folders_that_there_are() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    package = ""
    rooms = 0
    for indent, folder in re.findall(r"^( *)([a-z_]+(?:/[a-z_]+)*)/ ", page.split("```")[1], re.MULTILINE):
        package = folder if not indent else package
        assert (ROOT / (folder if not indent else f"{package}/{folder}")).is_dir(), folder
        rooms += 1
    assert rooms > 20
