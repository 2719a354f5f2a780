"""docs/spark.md tells the truth about names, defaults and types: its tables against the program's."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from spark_bridge import metrics, offsets, options, schema, sink_options, sink_schema

PAGE = Path(__file__).resolve().parents[2] / "docs" / "spark.md"
MOST_WORDS = 4500
CODE = re.compile(r"`([^`]+)`")
NO_VALUE = (None, "", False)


def table(page: str, heading: str) -> list[list[str]]:
    """The cells of the first table below a heading, without its head."""
    lines = iter(page.splitlines())
    assert any(re.fullmatch(rf"#+ {heading}", line) for line in lines), f"there is no heading {heading!r}"
    return list(rows(lines))[2:]


def rows(lines: Iterator[str]) -> Iterator[list[str]]:
    within = False
    for line in lines:
        if line.startswith("|"):
            within = True
            yield [html.unescape(cell.strip()) for cell in line.strip().strip("|").split("|")]
        elif within or line.startswith("#"):
            return


def wrong_options(documented: list[list[str]], table_of: Any, defaults: Any) -> list[str]:
    """Where a table of options differs from the program's, in names, aliases or defaults."""
    found = []
    by_names = {tuple(CODE.findall(names)): default for names, default, _ in documented}
    known = {option.names: option for option in table_of}
    found += [f"{names} is not documented" for names in known.keys() - by_names.keys()]
    found += [f"{names} is documented and is no option" for names in by_names.keys() - known.keys()]
    for names in known.keys() & by_names.keys():
        attribute, cell = known[names].attribute, by_names[names]
        actual = getattr(defaults if hasattr(defaults, attribute) else defaults.access, attribute)
        code = re.fullmatch(r"`([^`]+)`", cell)
        if code is None and actual in NO_VALUE:
            continue  # words that say what is done without one
        parsed = None if code is None else known[names].parse(code[1])
        if (tuple(parsed) if isinstance(parsed, dict) else parsed) != actual:
            found.append(f"{names[0]} is documented to default to {cell}, and does to {actual!r}")
    return found


@pytest.fixture(scope="module")
def page() -> str:
    return PAGE.read_text("utf-8")


def test_the_page_can_be_read_in_one_sitting(page: str) -> None:
    assert len(page.split()) <= MOST_WORDS


def test_the_options_of_a_source_are_as_documented(page: str) -> None:
    assert wrong_options(table(page, "Source options"), options._OPTIONS, options.SourceOptions()) == []


def test_the_options_of_a_sink_are_as_documented(page: str) -> None:
    assert wrong_options(table(page, "Sink options"), sink_options._OPTIONS, sink_options.SinkOptions()) == []


def test_the_columns_of_a_source_are_as_documented(page: str) -> None:
    documented = {
        CODE.findall(name)[0]: kind.replace(": ", ":").replace(", ", ",") for name, kind, _ in table(page, "Columns")
    }
    assert documented == {name: kind.simpleString() for name, (kind, _) in schema._COLUMNS.items()}
    assert [name.strip("`") for name, *_ in table(page, "Columns")] == list(schema._COLUMNS)


def test_the_columns_of_a_sink_are_as_documented(page: str) -> None:
    documented = {CODE.findall(name)[0]: kind.replace(": ", ":") for name, kind, _ in table(page, "Sink columns")}
    without_spaces = {name: kind.replace(", ", ",") for name, kind in documented.items()}
    known = {
        name: kind.replace("binary or string", "string or binary").replace(", ", ",")
        for name, kind in sink_schema._TYPES.items()
    }
    assert {
        name: kind.replace("binary or string", "string or binary") for name, kind in without_spaces.items()
    } == known


OFFSET_FIELDS = (offsets.SUBSCRIPTION, offsets.QUEUE, offsets.ID, offsets.POSITION)


def test_the_metrics_are_as_documented(page: str) -> None:
    documented = {name for names, _ in table(page, "Metrics") for name in CODE.findall(names)}
    assert documented == {*OFFSET_FIELDS, metrics.MADE, "brokers", "down", *metrics.METRICS}


GOOD = [["`queue` (`subscribe`)", "required", ""], ["`maxBytes`", "`64m`", ""], ["`level`", "`high`", ""]]


class Option:
    def __init__(self, attribute: str, *names: str, parse: Any = str) -> None:
        self.attribute, self.names, self.parse = attribute, names, parse


class Defaults:
    queue = ""
    size = 64
    level = "high"


PROGRAM = (
    Option("queue", "queue", "subscribe"),
    Option("size", "maxBytes", parse=lambda text: int(text[:-1])),
    Option("level", "level"),
)


def test_a_true_table_passes() -> None:
    assert wrong_options(GOOD, PROGRAM, Defaults) == []


@pytest.mark.parametrize(
    ("documented", "said"),
    [
        (GOOD[:2], "is not documented"),
        ([*GOOD, ["`more`", "none", ""]], "is no option"),
        ([["`queue`", "required", ""], *GOOD[1:]], "is not documented"),
        ([GOOD[0], ["`maxBytes`", "`63m`", ""], GOOD[2]], "maxBytes is documented to default to `63m`"),
        ([*GOOD[:2], ["`level`", "none", ""]], "level is documented to default to none"),
    ],
)
def test_a_table_that_is_not_true_is_found_out(documented: list[list[str]], said: str) -> None:
    assert any(said in line for line in wrong_options(documented, PROGRAM, Defaults))


def test_a_heading_that_is_not_there_is_no_empty_table(page: str) -> None:
    with pytest.raises(AssertionError, match="no heading"):
        table(page, "Options of nothing")
