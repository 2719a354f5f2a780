"""Machines for tests; where there can be none, the tests that ask for them are skipped and say why, in one line."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fault.machines import disks, namespaces
from tests.fault.machines.machines import Machines


@pytest.fixture(scope="session")
def _possible() -> None:
    if (reason := namespaces.why_none()) is not None:
        pytest.skip(reason)


@pytest.fixture(scope="session")
def _faults() -> None:
    if (reason := disks.why_no_faults()) is not None:
        pytest.skip(reason)


@pytest.fixture
def machines(_possible: None) -> Iterator[Machines]:
    """Three, and the clients'."""
    with Machines(["a", "b", "c", "clients"]) as made:
        yield made


@pytest.fixture
def image_machines(_possible: None, _faults: None) -> Iterator[Machines]:
    """One whose disk is a file system of its own, and the clients'."""
    if (reason := disks.why_no_images()) is not None:
        pytest.skip(reason)
    with Machines(["a", "clients"], image_bytes=64 * 2**20) as made:
        yield made
