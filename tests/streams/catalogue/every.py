"""All cases of all groups, for the tests that are generated from them."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import TypeVar

from tests.streams.catalogue.case import FlowCase, SinkCase, SourceCase

C = TypeVar("C", FlowCase, SourceCase, SinkCase)

NO_GROUP = {"case", "every"}


def flows() -> list[FlowCase]:
    return _unique([case for module in _groups() for case in getattr(module, "FLOWS", [])])


def sources() -> list[SourceCase]:
    return _unique([case for module in _groups() for case in getattr(module, "SOURCES", [])])


def sinks() -> list[SinkCase]:
    return _unique([case for module in _groups() for case in getattr(module, "SINKS", [])])


def _groups() -> Iterator[object]:
    for path in sorted(Path(__file__).parent.glob("*.py")):
        if path.stem not in NO_GROUP:
            yield import_module(f"tests.streams.catalogue.{path.stem}")


def _unique(cases: list[C]) -> list[C]:
    names = [case.name for case in cases]
    twice = sorted({name for name in names if names.count(name) > 1})
    assert not twice, f"two cases have the same name: {twice}"
    return cases
