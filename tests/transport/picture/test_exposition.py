"""The text that Prometheus reads: the official parsers find in it what was put in, whatever the names of queues."""

from __future__ import annotations

from math import inf, nan
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import parser
from prometheus_client.openmetrics import parser as openmetrics_parser

from actors.queue.structures.histogram import Histogram
from transport.picture.exposition import (
    COUNTER,
    GAUGE,
    HISTOGRAM,
    OPENMETRICS,
    TEXT,
    Exposition,
    Family,
    escaped,
    openmetrics_wanted,
    written,
)

PROMETHEUS = (
    "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,"
    "text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)
"""What Prometheus asks for."""


def samples(text: str, openmetrics: bool) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    reader: Any = openmetrics_parser if openmetrics else parser
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in reader.text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.mark.parametrize("openmetrics", [False, True])
@given(
    value=st.text(st.characters(exclude_categories=["Cs"])),
    text=st.text(st.characters(exclude_categories=["Cs", "Cc"])),
)
def test_every_label_and_every_help_is_read_as_it_was_meant(openmetrics: bool, value: str, text: str) -> None:
    exposition = Exposition(openmetrics=openmetrics)
    family = Family("some_total", COUNTER, f"a{text}b")
    lines = exposition.family(family, [((("queue", value), ("kind", "k")), 3)]) + exposition.end
    assert samples(lines, openmetrics) == {("some_total", (("kind", "k"), ("queue", value))): 3.0}


@pytest.mark.parametrize("openmetrics", [False, True])
def test_a_histogram_adds_its_buckets_up(openmetrics: bool) -> None:
    histogram = Histogram((0.5, 1.0))
    for figure, times in ((0.1, 3), (0.7, 2), (9.0, 1)):
        histogram.observe(figure, times)
    exposition = Exposition(openmetrics=openmetrics)
    found = samples(
        exposition.histogram(Family("took_seconds", HISTOGRAM, "Time."), histogram) + exposition.end, openmetrics
    )
    buckets = {dict(labels)["le"]: value for (name, labels), value in found.items() if name == "took_seconds_bucket"}
    assert buckets == {"0.5": 3, "1.0": 5, "+Inf": 6}
    assert found["took_seconds_count", ()] == 6
    assert found["took_seconds_sum", ()] == pytest.approx(10.7)


def test_openmetrics_names_a_counters_family_without_its_suffix_and_says_where_the_end_is() -> None:
    family = Family("moved_total", COUNTER, 'With "quotes" and a \\.')
    assert Exposition().single(family, 1) + Exposition().end == (
        '# HELP moved_total With "quotes" and a \\\\.\n# TYPE moved_total counter\nmoved_total 1\n'
    )
    exposition = Exposition(openmetrics=True)
    assert exposition.single(family, 1) + exposition.end == (
        '# HELP moved With \\"quotes\\" and a \\\\.\n# TYPE moved counter\nmoved_total 1\n# EOF\n'
    )
    assert (Exposition().content_type, exposition.content_type) == (TEXT, OPENMETRICS)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (True, "1"),
        (2**63, "9223372036854775808"),
        (0.1, "0.1"),
        (1e-9, "1e-09"),
        (inf, "+Inf"),
        (-1.5, "-1.5"),
    ],
)
def test_figures_are_written_as_prometheus_reads_them(value: float, text: str) -> None:
    assert written(value) == text
    assert float(written(value)) == value


def test_what_is_no_utf_8_does_not_make_the_text_none() -> None:
    assert escaped("a\ud800b") == "a?b"
    assert written(nan) == "nan"


def test_a_gauge_without_samples_has_its_head_alone() -> None:
    assert Exposition().family(Family("g", GAUGE, "G."), []) == "# HELP g G.\n# TYPE g gauge\n"


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        ("", False),
        ("*/*", False),
        ("text/plain", False),
        ("application/openmetrics-text", True),
        (PROMETHEUS, True),
        ("application/openmetrics-text; version=1.0.0; q=0.2, text/plain;q=0.8", False),
        ("application/openmetrics-text;version=2.0.0,text/plain;q=0.1", False),
        ("application/openmetrics-text;q=0", False),
        ("application/openmetrics-text;q=none", False),
        (";;,,q=1;application/openmetrics-text", False),
    ],
)  # fmt: skip
def test_openmetrics_is_answered_with_where_it_is_preferred(accept: str, wanted: bool) -> None:
    assert openmetrics_wanted(accept) is wanted
