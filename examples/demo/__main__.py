"""The whole system on real text: `python -m examples.demo [INPUT]`.

A sender's process streams every line through a broker's process into a Spark query, which is made slow in its middle. In the
end the query's counts are held against those made directly from the files.

Exit status: 0 when they are equal, 1 when they are not or a process failed, 2 when Spark or the input is missing.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path

from rich.console import Console

from examples.demo import counting, report
from examples.demo.picture import draw
from examples.demo.processes import ROOT, ProcessFailedError
from examples.demo.run import Demo
from examples.demo.text import Text
from examples.demo.view import view_for
from transport import TransportError

PICTURE = Path("demo-output", "demo.png")
EQUAL, DIFFERENT, UNUSABLE, INTERRUPTED = 0, 1, 2, 130
JAVA_SECONDS = 120.0


def main(arguments: list[str] | None = None) -> int:
    """Run the demo; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m examples.demo", description="The whole system on real text.")
    parser.add_argument(
        "input", nargs="?", type=Path, help="a text file or a folder of them (the standard library's sources)"
    )
    options = parser.parse_args(arguments)
    console = Console()
    try:
        text = Text(options.input.resolve(strict=True)) if options.input else Text.standard_library()
        files, total = text.size()
    except OSError as error:
        return _unusable(str(error))
    if not total:
        return _unusable(f"there is no line of text in {text.root}")
    if reason := why_no_spark():
        return _unusable(reason)
    console.print(f"{total:,} lines in {files:,} files of {text.root}", highlight=False, soft_wrap=True)
    status = DIFFERENT
    try:
        status = asyncio.run(demonstrate(text, total, console))
    except* (ProcessFailedError, TransportError) as failed:
        for failure in failed.exceptions:
            console.print(str(failure), style="red", markup=False, highlight=False, soft_wrap=True)
    except* (KeyboardInterrupt, asyncio.CancelledError):
        console.print("interrupted; every process has ended")
        status = INTERRUPTED
    return status


async def demonstrate(text: Text, total: int, console: Console) -> int:
    """Run the processes, then count directly and compare."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    demo = Demo(text, total, view_for(console))
    query = await demo.run()
    report.print_counts(console, query, "Counted by the query")
    direct = counting.count(text.files())
    report.print_counts(console, direct, "Counted directly from the files")
    equal = report.print_comparison(console, query, direct)
    report.print_phases(console, demo.history, demo.slow_rate)
    draw(demo.history, PICTURE)
    console.print(f"Rates, backlog, demand and memory over time: {PICTURE}", highlight=False, soft_wrap=True)
    return EQUAL if equal else DIFFERENT


def why_no_spark() -> str | None:
    """Why Spark cannot run here, or None; sets JAVA_HOME where it can."""
    if importlib.util.find_spec("pyspark") is None:
        return "the demo runs a Spark query, and PySpark is not installed: pip install 'penstock-mq[spark]'"
    look = subprocess.run(
        [str(ROOT / "scripts" / "ensure-java"), "--no-install"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=JAVA_SECONDS,
    )
    if look.returncode != 0:
        return f"the demo runs a Spark query: {look.stderr.strip().removeprefix('penstock: ')}"
    os.environ["JAVA_HOME"] = look.stdout.strip()
    return None


def _unusable(reason: str) -> int:
    print(f"penstock demo: {reason}", file=sys.stderr)
    return UNUSABLE


if __name__ == "__main__":
    sys.exit(main())
