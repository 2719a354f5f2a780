"""Seeds in several processes are told of as in one: in order, each with the command that runs it again."""

from __future__ import annotations

import argparse
import os
from concurrent.futures.process import BrokenProcessPool

import pytest

from tests.simulation.__main__ import main
from tests.simulation.told import told

SEEDS = "0:3"


def test_seeds_in_several_processes_are_told_of_as_in_one(capsys: pytest.CaptureFixture[str]) -> None:
    said = []
    for processes in ("1", "2"):
        assert main(["--seeds", SEEDS, "--plain", "--verbose", "--processes", processes]) == 0
        said.append(capsys.readouterr().out)
    one, several = said
    assert "3 seeds, 0 failed" in one
    assert several == one


def test_a_seed_that_fails_in_a_process_of_its_own_is_told_with_the_command_that_runs_it_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    defect = "own sync is enough"
    code = main(["--cluster", "--defect", defect, "--seeds", "0:40", "--processes", "2"])
    said = capsys.readouterr().out
    assert code == 1
    assert f"--cluster --defect {defect!r} --verbose" in said


class Deadly(argparse.Namespace):
    """Options of which whoever runs a seed dies."""

    @property
    def cluster(self) -> bool:
        os._exit(1)


def test_a_process_that_dies_is_said_and_not_waited_for() -> None:
    with pytest.raises(BrokenProcessPool), told(Deadly(processes=2, seeds=range(2))) as each_told:
        list(each_told)
