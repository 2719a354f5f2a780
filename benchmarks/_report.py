"""What a benchmark found: figures with their targets, as JSON for machines and as a table for people."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Literal

from rich.console import Console
from rich.table import Table

ASSUMED_WIDTH = 120
"""Columns of a table that goes into a file or a pipe."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One result.

    Attributes:
        name: what it is.
        value: the median over the rounds, unless the name says otherwise.
        unit: of the value.
        target: what is wanted of it, if something is.
        better: whether the value must be at least or at most the target.
    """

    name: str
    value: float
    unit: str
    target: float | None = None
    better: Literal["more", "less"] = "more"

    @property
    def met(self) -> bool | None:
        """Whether the target is reached; None without one."""
        if self.target is None:
            return None
        return self.value >= self.target if self.better == "more" else self.value <= self.target


@dataclass(frozen=True, slots=True)
class Report:
    """One benchmark's outcome.

    Attributes:
        benchmark: its name on the command line.
        measures: what is measured, in words.
        ceiling: what it is held against, in words.
        parameters: what it was run with.
        figures: the results.
        rounds: the raw measurements, in the order in which they were made.
    """

    benchmark: str
    measures: str
    ceiling: str
    parameters: dict[str, Any]
    figures: Sequence[Figure]
    rounds: Sequence[dict[str, Any]] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """A JSON object of everything, and of the machine."""
        return {
            "benchmark": self.benchmark,
            "measures": self.measures,
            "ceiling": self.ceiling,
            "parameters": self.parameters,
            "figures": [
                {
                    "name": figure.name,
                    "value": figure.value,
                    "unit": figure.unit,
                    "target": figure.target,
                    "better": figure.better,
                    "met": figure.met,
                }
                for figure in self.figures
            ],
            "rounds": list(self.rounds),
            "machine": machine(),
        }

    def save(self, path: Path) -> None:
        """Write the JSON to ``path``."""
        path.write_text(json.dumps(self.as_json(), indent=2) + "\n", "utf-8")

    def show(self) -> None:
        """Print the table."""
        console = Console(width=None if os.isatty(1) else ASSUMED_WIDTH)
        table = Table("figure", title=self.benchmark, title_justify="left", caption_justify="left")
        table.add_column("value", justify="right")
        table.add_column("unit")
        table.add_column("wanted", justify="right")
        table.add_column("")
        for figure in self.figures:
            sign = ">=" if figure.better == "more" else "<="
            wanted = "" if figure.target is None else f"{sign} {_number(figure.target)}"
            mark = {None: "", True: "reached", False: "MISSED"}[figure.met]
            table.add_row(figure.name, _number(figure.value), figure.unit, wanted, mark)
        console.print(table)
        console.print(f"measures: {self.measures}", markup=False, highlight=False)
        console.print(f"ceiling:  {self.ceiling}", markup=False, highlight=False)
        parameters = ", ".join(f"{name} {value}" for name, value in self.parameters.items())
        console.print(f"run with: {parameters}", markup=False, highlight=False)


def medians(rounds: Sequence[dict[str, Any]], key: str) -> float:
    """The median of ``key`` over the rounds that have it."""
    return float(median(one[key] for one in rounds if key in one))


def percentile(ordered: Sequence[float], share: float) -> float:
    """The value at ``share`` (0..1) of ``ordered``, which is sorted and not empty; the nearest rank."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def machine() -> dict[str, Any]:
    """What the figures depend on beside the code; the load shows whether the machine was doing something else."""
    return {
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "load_average": list(os.getloadavg()),
    }


def _number(value: float) -> str:
    if value == int(value) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:,.3f}" if abs(value) < 10 else f"{value:,.1f}"
