"""A replica keeps what a journal that is alone keeps: through deaths at any call, losses of power, and calls that fail."""

from __future__ import annotations

from collections import Counter

import pytest

from journal import JournalOptions
from tests.fault.disk import SimulatedDisk
from tests.fault.faulty_files import WRITING, Fault, FaultyFiles, Kind
from tests.fault.replica import replica, verify_replica_survives
from tests.fault.workload import SMALL, End, Workload, verify_survives

TENTHS = (0, *(pytest.param(tenth, marks=pytest.mark.soak) for tenth in range(1, 10)))
STEPS = 100


def test_the_power_losses_of_a_replica_see_what_they_are_meant_to_see() -> None:
    """Which they survive: ``tests/fault/test_power_loss.py`` has replicas too."""
    seen: Counter[str] = Counter()
    wanted = {"torn tail cut", "segment recycled", "segments combined", "checkpoint", "unreported records lost"}
    for seed in range(125):
        seen += verify_replica_survives(seed)
        if wanted <= seen.keys():
            return
    pytest.fail(f"not seen: {wanted - seen.keys()}")


def test_what_is_kept_for_who_lags_loses_nothing() -> None:
    options = JournalOptions(
        segment_bytes=4096, checkpoint_bytes=8192, checkpoint_records=40, log_tail_bytes=1, cluster_log_bytes=20_000
    )
    for seed in range(300, 310):
        verify_survives(seed, options, replica)


@pytest.mark.parametrize("tenth", TENTHS)
@pytest.mark.parametrize("kind", [Kind.PANIC_BEFORE, Kind.PANIC_AFTER, Kind.EIO])
def test_a_fault_at_any_call_that_writes_loses_nothing(kind: Kind, tenth: int) -> None:
    files = FaultyFiles(SimulatedDisk())
    assert Workload(3, SMALL, replica).live(files, STEPS).end is End.CLOSED
    sites = [number for number, call in enumerate(files.calls) if call.operation in WRITING]
    assert len(sites) > 60
    for site in sites[tenth::10]:
        workload, disk = Workload(3, SMALL, replica), SimulatedDisk()
        outcome = workload.live(FaultyFiles(disk, Fault(site, kind)), STEPS)
        # A file that is not removed is passed over, and that all is stored need not be noted.
        passed_over = files.calls[site].operation == "unlink" or any(
            "cannot be noted" in line for line in outcome.reports
        )
        assert outcome.end is (End.FAILED if kind is Kind.EIO else End.DIED) or passed_over
        disk = disk.restart()
        for steps in (10, 0):
            after = workload.live(disk, steps)
            assert after.end is End.CLOSED, (site, after.failure)
            disk = disk.restart()
