"""What the demo prints at its end: the counts, whether they are right, and what back-pressure did."""

from __future__ import annotations

from collections import Counter

from rich.console import Console
from rich.table import Table

from examples.demo.counting import Counts, differences
from examples.demo.history import History, Phase

ROWS = 12
"""Rows of a table; the comparison is of all of them."""
MOST_DIFFERENCES = 20
PHASES = {"before": "before", "slow": "slow query", "after": "after"}


def print_counts(console: Console, counts: Counts, title: str) -> None:
    """The packages with most lines beside the modules imported most."""
    table = Table(title=title, title_justify="left")
    for name, count in (("package", "lines"), ("module", "imported by lines")):
        table.add_column(name)
        table.add_column(count, justify="right")
    packages, modules = ranked(counts.lines), ranked(counts.imports)
    for row in range(min(ROWS, max(len(packages), len(modules)))):
        table.add_row(*_cells(packages, row), *_cells(modules, row))
    table.add_section()
    table.add_row(
        f"{len(packages):,} packages",
        f"{counts.lines.total():,}",
        f"{len(modules):,} modules",
        f"{counts.imports.total():,}",
    )
    console.print(table)


def print_comparison(console: Console, query: Counts, direct: Counts) -> bool:
    """Say "equal", or what differs; whether they are equal."""
    different = differences(query, direct)
    if not different:
        console.print(
            f"equal: all {len(direct.lines):,} packages and {len(direct.imports):,} modules, "
            f"{direct.lines.total():,} lines",
            style="bold green",
            highlight=False,
        )
        return True
    console.print(f"different in {len(different):,} counts:", style="bold red", highlight=False)
    for text in different[:MOST_DIFFERENCES]:
        console.print(f"  {printable(text)}", markup=False, highlight=False)
    if len(different) > MOST_DIFFERENCES:
        console.print("  ...")
    return False


def print_phases(console: Console, history: History, slow_rate: float) -> None:
    """The rates before, during and after the slow middle, and the broker's memory."""
    table = Table(title="What the slow query did to the rest", title_justify="left")
    table.add_column("")
    for name in ("seconds", "sender, lines/s", "query, lines/s", "most backlog", "broker's memory, MB"):
        table.add_column(name, justify="right")
    for key, phase in history.phases().items():
        table.add_row(PHASES[key], *_phase_cells(phase))
    console.print(table)
    console.print(
        f"While slow, the query takes {slow_rate:,.0f} lines/s at most; the queue stores {history.limit:,} lines at most.",
        highlight=False,
        soft_wrap=True,
    )


def ranked(counts: Counter[str]) -> list[tuple[str, int]]:
    """The greatest first, equal ones by name."""
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def printable(name: str) -> str:
    """A name as a terminal can show it: file names may be any bytes."""
    return name.encode("utf-8", "backslashreplace").decode("utf-8")


def _cells(rows: list[tuple[str, int]], row: int) -> tuple[str, str]:
    if row >= len(rows):
        return "", ""
    name, count = rows[row]
    return printable(name), f"{count:,}"


def _phase_cells(phase: Phase | None) -> list[str]:
    if phase is None:
        return ["too short"] + [""] * 4
    return [
        f"{phase.seconds:.1f}",
        f"{phase.sender_rate:,.0f}",
        f"{phase.query_rate:,.0f}",
        f"{phase.most_backlog:,}",
        f"{phase.least_rss / 1e6:.1f} - {phase.most_rss / 1e6:.1f}",
    ]
