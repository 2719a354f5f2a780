"""``python -m tests.fault.spark_kills``: kill -9 Spark's JVM, the broker, or both, at every point of a micro-batch, and compare.

Each cell holds a query at one point (``spark_points.py``), checks by Spark's own logs that it stands on the right side of them, kills,
resumes the query from its checkpoint, and compares its output with its input row for row. ``--long`` does it at random moments.
``--exchange`` does it to two queries that name one exchange (``spark_exchange.py``).
"""

from __future__ import annotations

import asyncio
import secrets
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from tests.fault.kill_broker import read_lines
from tests.fault.spark_cells import LATE, VICTIMS, Cell, bench
from tests.fault.spark_exchange import EVERYTHING, PARTS, ExchangeRun
from tests.fault.spark_long import LongOutcome, LongRun
from tests.fault.spark_points import PLANNER_POINTS, SINK_POINTS, SOURCE_POINTS
from tests.fault.spark_query import ROOT, session
from tests.log_lines import log_lines

BATCHES = (0, 2)
"""The first batch, of which Spark's checkpoint knows nothing yet, and one in the middle."""
ACK_MODES = ("commit", "poll")
CORES = "2,3"
"""Of the session that resumes: a task may fail twice."""
WIDTH = 140

Report = Callable[[str], None]
Results = dict[Cell, str | None]


def source_cells(every: bool = False) -> list[Cell]:
    """Every point of the source with everything killed, in both batches and both ways to acknowledge.

    Unless ``every``, without what hardly makes a difference: how a query acknowledges to its tasks, and when a worker is let go that
    Spark ends with its JVM.
    """
    cells = [
        Cell(point, batch, ack_on, victims)
        for ack_on in ACK_MODES
        for point in SOURCE_POINTS
        for batch in BATCHES
        for victims in VICTIMS
    ]
    return [cell for cell in cells if every or not _superfluous(cell)]


def sink_cells(every: bool = False) -> list[Cell]:
    """Every point of the sink; how its source acknowledges makes no difference to it."""
    cells = [
        Cell(point, batch, ACK_MODES[0], victims) for point in SINK_POINTS for batch in BATCHES for victims in VICTIMS
    ]
    return [cell for cell in cells if every or not _superfluous(cell)]


def _superfluous(cell: Cell) -> bool:
    ordinary = cell.point not in PLANNER_POINTS or cell.batch == BATCHES[0]
    return ordinary and (cell.ack_on != ACK_MODES[0] or cell.victims == LATE)


async def run_cells(spark: object, folder: Path, cells: Iterable[Cell], report: Report) -> Results:
    """Runs ``cells`` one after another on one broker; what differed in each, or None."""
    results: Results = {}
    async with bench(spark, folder) as shared:
        for cell in cells:
            start = time.monotonic()
            results[cell] = await shared.run(cell)
            report(f"{cell.name}: {results[cell] or 'OK'} ({time.monotonic() - start:.1f} s)")
    return results


def show(results: Results) -> None:
    """Print the matrix, rows by point and columns by what was killed, and below it what differed."""
    table = Table(
        "held", "batch", "ackOn", *VICTIMS, title="output equals input after kill -9 of", title_justify="left"
    )
    rows: dict[tuple[str, int, str], dict[str, str]] = {}
    for cell, found in results.items():
        rows.setdefault((cell.point, cell.batch, cell.ack_on), {})[cell.victims] = "OK" if found is None else "DIFFERS"
    for (point, batch, ack_on), by_victims in rows.items():
        table.add_row(point, str(batch), ack_on, *(by_victims.get(victims, "") for victims in VICTIMS))
    console = Console(width=WIDTH)
    console.print(table)
    for cell, found in results.items():
        if found is not None:
            console.print(f"  {cell.name}: {found}", markup=False, highlight=False)
    differing = sum(found is not None for found in results.values())
    console.print(f"{len(results)} cells, {differing} differ", highlight=False)


def show_long(outcome: LongOutcome, title: str) -> None:
    """Print what a long run found."""
    table = Table("what", title=title, title_justify="left")
    table.add_column("count", justify="right")
    for name, count in outcome.facts.items():
        table.add_row(name, f"{count:,}")
    console = Console(width=WIDTH)
    console.print(table)
    console.print(
        "output equals input" if outcome.difference is None else f"DIFFERS: {outcome.difference}", markup=False
    )


def main(
    source: Annotated[bool, typer.Option(help="The points of the source.")] = True,
    sink: Annotated[
        bool, typer.Option(help="The points of the sink; with --long, a second query that writes a queue.")
    ] = True,
    every: Annotated[bool, typer.Option("--every", help="Cells too that can hardly differ from others.")] = False,
    only: Annotated[str, typer.Option(metavar="TEXT", help="Only cells whose name has this.")] = "",
    long: Annotated[bool, typer.Option("--long", help="Kills at random moments of one long run instead.")] = False,
    exchange: Annotated[
        bool, typer.Option("--exchange", help="One long run of two queries that name one exchange instead.")
    ] = False,
    binding: Annotated[
        str, typer.Option(metavar="KEY", help=f"Of the second of these queries: {' or '.join(PARTS)}.")
    ] = EVERYTHING,
    jvm: Annotated[int, typer.Option(min=0, metavar="N", help="Kills of JVMs in a long run.")] = 50,
    broker: Annotated[int, typer.Option(min=0, metavar="N", help="Kills of the broker in a long run.")] = 50,
    seed: Annotated[int | None, typer.Option(metavar="S", help="Of a long run's choices; new by default.")] = None,
    file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The log that is sent in a long run; made-up lines by default."),
    ] = None,
) -> None:
    """Kill Spark and the broker at every point of a micro-batch, and tell what was lost, repeated, or out of order."""
    cells = [cell for cell in source * source_cells(every) + sink * sink_cells(every) if only in cell.name]
    if not cells:
        raise typer.BadParameter(f"no cell's name has {only!r}")
    if long and exchange:
        raise typer.BadParameter("--long and --exchange are two runs: give one of them")
    if binding not in PARTS:
        raise typer.BadParameter(f"--binding is {binding!r}: give one of {', '.join(PARTS)}")
    long |= exchange
    if long and file is not None and not file.is_file():
        raise typer.BadParameter(f"{file} is no file; name another with --file")
    seed = secrets.randbits(32) if seed is None else seed
    spark = session(CORES)
    try:
        with tempfile.TemporaryDirectory(prefix="penstock-spark-", dir=ROOT) as folder:
            if long:
                report(f"--jvm {jvm} --broker {broker} --seed {seed}")
                lines = log_lines(seed=seed) if file is None else read_lines(file)
                given = spark, Path(folder), lines, Random(seed)
                run = ExchangeRun(*given, binding, report) if exchange else LongRun(*given, sink, report)
                outcome = asyncio.run(run.run(jvm, broker))
                show_long(
                    outcome, f"two queries of one exchange, {EVERYTHING} and {binding}" if exchange else "long run"
                )
                differs = outcome.difference is not None
            else:
                results = asyncio.run(run_cells(spark, Path(folder), cells, report))
                show(results)
                differs = any(found is not None for found in results.values())
    finally:
        spark.stop()
    raise typer.Exit(1 if differs else 0)


def report(text: str) -> None:
    """A line of progress."""
    sys.stderr.write(f"spark_kills: {text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    typer.run(main)
