"""docs/access.md says how access is told everywhere: the same names as the environment, the command line and Spark have."""

from __future__ import annotations

import re
from pathlib import Path

from transport.cli._access import ACCESS, CONTEXT
from transport.security.access import MAX_SECRET_BYTES
from transport.security.access_sources import VARIABLES
from transport.security.verifier import LEAST_ITERATIONS

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "access.md").read_text("utf-8")


def rows() -> list[list[str]]:
    table = PAGE.partition("## How it is said")[2].partition("\n* ")[0]
    return [re.split(r" *\| *", line.strip("| ")) for line in re.findall(r"^\| [a-zT].*$", table, re.MULTILINE)]


def test_the_page_has_every_variable_flag_and_option_of_access() -> None:
    assert [row[1].strip("`") for row in rows()] == list(VARIABLES.values())
    flags = {flag for row in rows() for flag in re.findall(r"--[a-z-]+", row[2])}
    assert flags == {f"--{name.replace('_', '-')}" for name in ACCESS if name != CONTEXT} | {"--no-tls"}


def test_the_page_states_the_limits() -> None:
    assert f"of 1 to {MAX_SECRET_BYTES} bytes" in PAGE
    assert f"fewer than {LEAST_ITERATIONS} iterations" in PAGE


def test_the_page_has_sparks_options_as_the_code_spells_them() -> None:
    source = (ROOT / "spark_bridge" / "access_options.py").read_text("utf-8")
    spelled = re.findall(r'Option\("\w+", \("(\w+)",\)', source)
    assert [row[-1].strip("`") for row in rows()] == spelled
    described = (ROOT / "docs" / "spark.md").read_text("utf-8")
    assert [name for name in spelled if f"`{name}`" not in described] == []
