"""Nothing that was reported durable is lost in a power loss, at any point of any of many runs."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.fault import power_loss
from tests.fault.defects import forgetful, hasty, without
from tests.fault.faulty_files import WRITING
from tests.fault.history import HistoryError
from tests.fault.workload import Opener, verify_survives

CHUNK = 25
CHUNKS = (0, *(pytest.param(first, marks=pytest.mark.soak) for first in range(CHUNK, 200, CHUNK)))
"""First seeds of the program's own; `make soak` runs ten thousand."""
SEEING = range(125)
"""Seeds in which everything happens that may."""
NEVER = ("make_directory", "remove_directory")
"""What a life of the journal does once at most, or not at all."""
TRIED = range(150)
"""Seeds within which a defect must show."""


@pytest.mark.parametrize("first", CHUNKS)
def test_what_was_reported_durable_survives_power_losses(first: int) -> None:
    assert power_loss.failures(range(first, first + CHUNK)) == []


def test_the_runs_see_what_they_are_meant_to_see() -> None:
    seen: Counter[str] = Counter()
    wanted = {"torn tail cut", "segment recycled", "segments combined", "checkpoint", "unreported records lost"}
    wanted |= {"life that died", "life that closed"}
    wanted |= {f"death at {operation}" for operation in WRITING if operation not in NEVER}
    for seed in SEEING:
        seen += verify_survives(seed)
        if wanted <= seen.keys():
            return
    pytest.fail(f"not seen: {wanted - seen.keys()}")


@pytest.mark.parametrize(
    "defect",
    [
        pytest.param(hasty, id="reports before it syncs"),
        pytest.param(without("sync"), id="never syncs a file"),
        pytest.param(without("sync_directory"), id="never syncs a directory"),
        pytest.param(forgetful, id="reclaims what is wanted"),
    ],
)
def test_a_defect_is_found_within_a_few_seeds(defect: Opener) -> None:
    for seed in TRIED:
        try:
            verify_survives(seed, opener=defect)
        except HistoryError:
            return
    pytest.fail(f"none of {len(TRIED)} seeds found it")


def test_the_command_runs_a_range_of_seeds_and_says_how_it_went(capsys: pytest.CaptureFixture[str]) -> None:
    assert power_loss.main(["--seeds", "3:6"]) == 0
    assert capsys.readouterr().out == "3 seeds, 0 failed\n"


def test_the_command_names_the_seed_that_fails_and_how_to_see_it_again(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(seed: int) -> None:
        if seed == 4:
            raise HistoryError("record 7 is missing")

    monkeypatch.setattr(power_loss, "verify_survives", broken)
    assert power_loss.main(["--seeds", "3:6"]) == 1
    captured = capsys.readouterr()
    assert captured.out == "3 seeds, 1 failed 4\n"
    assert "record 7 is missing" in captured.err
    assert "python -m tests.fault.power_loss --seeds 4\n" in captured.err


@pytest.mark.parametrize("text", ["5:5", "7:3", "a:b"])
def test_a_range_that_holds_no_seed_is_refused(text: str) -> None:
    with pytest.raises(SystemExit):
        power_loss.main(["--seeds", text])
