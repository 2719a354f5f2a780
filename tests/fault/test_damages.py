"""A short form of ``python -m tests.fault.damages``; and what it is there for, on its own."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from random import Random

import pytest
from typer.testing import CliRunner

from actors.errors import StorageError
from actors.storage.after_repair import MARK, is_marked
from journal import repair
from journal.judgement import Judgement
from journal.repair import _Repair
from tests.fault import real_damages
from tests.fault.damaged_files import DATA, KINDS, PAIRS, Hit, flip, part, targets
from tests.fault.damages import UNCHANGED, Case, begin, cases, kept, store, verify_case, verify_found
from tests.fault.disk import SimulatedDisk
from tests.fault.real_damages import verify_real
from transport.cli.app import app

SHORT = 143
"""Damages in the suite: each kind at each position of each place, once."""


def test_whatever_is_damaged_verify_repair_and_start_agree_and_nothing_confirmed_is_lost_unsaid() -> None:
    outcomes = [(case, verify_case(case)) for case in cases(1000, SHORT)]
    damaged = {(case.kind, case.place) for case, outcome in outcomes if outcome != UNCHANGED}
    assert damaged >= {
        (kind, place) for kind in KINDS for place in ("sealed", "combined", "active", "checkpoint", *PAIRS)
    }
    assert sum("some lost" in outcome for _, outcome in outcomes) > 5


@pytest.mark.parametrize("case", [Case(5, "flip", "sealed", "middle"), Case(2, "zero", "checkpoint", "first")], ids=str)
def test_real_files_and_real_processes_agree_likewise(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of ``python -m tests.fault.damages --real``: one that a start cannot see, one that it can. Only the brokers are processes."""

    def penstock(*arguments: str) -> tuple[int, list[str], str]:
        done = CliRunner().invoke(app, arguments)
        return done.exit_code, done.stdout.splitlines(), done.stderr

    monkeypatch.setattr(real_damages, "penstock", penstock)
    assert verify_real(case).startswith("damaged")


def some_break_by(*kinds: type[Exception]) -> bool:
    """Whether more than three cases end so."""
    broken = 0
    for case in cases(1000, SHORT // 2):
        try:
            verify_case(case)
        except kinds:
            broken += 1
            if broken > 3:
                return True
    return False


def test_the_suite_finds_a_repair_that_takes_a_hole_to_the_end_for_nothing_wrong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        Judgement,
        "fatal",
        property(lambda self: any(finding.fatal and "end of the file" not in finding.text for finding in self.segment)),
    )
    assert some_break_by(AssertionError, StorageError)


def test_the_suite_finds_exchanges_and_bindings_that_are_others_than_those_that_were_confirmed() -> None:
    whole = store(2)
    start = begin(whole.disk.restart())
    assert verify_found(whole, start, set(), []) == 0
    assert start.definitions is not None
    assert start.definitions.bindings
    for others in (start.definitions._replace(bindings=()), whole.definitions[-2]):
        with pytest.raises(AssertionError):
            verify_found(whole, replace(start, definitions=others), set(), [])


def test_the_suite_finds_a_repair_that_keeps_no_copy_of_what_it_replaces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Repair, "_keep_copy", lambda self, path: path)
    assert some_break_by(AssertionError)


def test_a_segment_that_was_cut_where_a_record_ends_stays_as_it_is_and_what_it_lacks_is_put_into_another() -> None:
    """Nothing is replaced, so there is no copy, and the suite asks for none. The store's last checkpoint is of before the segment's end."""
    disk = store(2).disk.restart()
    name = targets(disk, "sealed")[-1]
    cut = disk.content(DATA / name)[: part(disk, name, "last")[0]]
    disk.replace(DATA / name, cut)
    assert any("empty ones stand for" in line for line in repair(DATA, disk))
    assert disk.content(DATA / name) == cut
    assert not any(each.startswith("damaged-") for each in disk.names(DATA))
    assert kept(store(2), Hit(name, cut, len(cut)), disk)
    assert begin(disk).refused is None


@pytest.mark.parametrize(
    "case",
    [
        Case(4090, "cut", "sealed+index", "last"),
        Case(4090, "zero", "sealed", "last"),
        # Nothing of it is left but its header.
        Case(4090, "cut", "sealed", "first"),
    ],
    ids=str,
)
def test_the_suite_asks_for_no_copy_of_a_segment_that_ends_early_where_a_record_does(case: Case) -> None:
    assert verify_case(case).startswith("fatal")


@cache
def damaged() -> SimulatedDisk:
    """A directory with the last record of a segment damaged, and mended by somebody who left no mark."""
    disk = store(0).disk.restart()
    name = targets(disk, "combined")[0]
    disk.replace(DATA / name, flip(disk.content(DATA / name), *part(disk, name, "last"), Random(1)))
    assert repair(DATA, disk)
    return disk.restart()


def test_a_stored_message_without_a_record_is_a_storage_error_that_says_where_and_is_given_up_by_the_next_start() -> (
    None
):
    disk = damaged().restart()
    found = begin(disk)
    assert found.refused is not None
    text = str(found.refused)
    assert "of queue " in text
    assert str(DATA) in text
    assert "has no record of it" in text
    assert is_marked(disk, DATA)
    again = begin(disk.restart())
    assert again.refused is None
    assert verify_found(store(0), again, set(), ["lost"]) > 0
    assert any("messages of queue" in line for line in again.logged)


def test_a_repair_that_was_interrupted_leaves_the_mark_before_anything_else() -> None:
    disk = store(0).disk.restart()
    name = targets(disk, "sealed")[-1]
    disk.replace(DATA / name, flip(disk.content(DATA / name), *part(disk, name, "last"), Random(1)))
    seen: list[bool] = []
    content = disk.content(DATA / name)

    def begin_repair() -> None:
        seen.append(
            disk.content(DATA / name) == content and not any(n.startswith("damaged-") for n in disk.names(DATA))
        )

    repair(DATA, disk, begin_repair)
    assert seen == [True]
    assert MARK not in disk.names(DATA)
