"""What docs/graphs.md shows works, and its tables name every junction."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import streams.junctions
from streams import GraphBuilder, Sink, Source

GUIDE = (Path(__file__).parents[2] / "docs" / "graphs.md").read_text("utf-8")
EXAMPLES = [block.split("```")[0] for block in GUIDE.split("```python\n")[1:]]


def test_the_first_example_prints_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    exec(EXAMPLES[0], {})
    says = EXAMPLES[0].rsplit("# ", 1)[1].strip()
    assert capsys.readouterr().out.strip() == says


def test_the_junction_of_ones_own_works() -> None:
    names: dict[str, Any] = {}
    exec(EXAMPLES[1], names)
    g = GraphBuilder()
    sieve = g.add(names["Sieve"](lambda n: n > 1))
    g.connect(g.add(Source.of(1, 2, 3)), sieve)
    for outlet in sieve.outlets:
        g.connect(outlet, g.add(Sink.collect()))
    assert g.build().run_blocking() == [[2, 3], [1]]


def test_the_tables_have_every_junction() -> None:
    junctions = set(streams.junctions.__all__) - {"Junction", "JunctionPorts"}
    rows = [line for line in GUIDE.splitlines() if line.startswith("| `")]
    assert set(re.findall(r"`([A-Z]\w+)\(", " ".join(rows))) == junctions
