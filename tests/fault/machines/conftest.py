"""Machines for tests; where there can be none, the tests that ask for them are skipped and say why, all in one line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import pytest

from tests.fault.machines import disks, etcd, namespaces
from tests.fault.machines.machines import Machines

IMAGE_BYTES: Final = 64 * 2**20
NEEDS: Final[dict[str, Callable[[], str | None]]] = {
    "namespaces_here": namespaces.why_none,
    "faults_here": disks.why_no_faults,
    "images_here": disks.why_no_images,
    "etcd_here": etcd.why_none,
}
"""By the fixture that a test asks for, what says why it cannot be had."""


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips here, and not in the fixtures: so all that are skipped for one reason are one line of pytest's summary."""
    for name, why in NEEDS.items():
        if name in getattr(item, "fixturenames", ()) and (reason := why()) is not None:
            pytest.skip(reason)


@pytest.fixture(scope="session")
def namespaces_here() -> None:
    """For tests that make machines by themselves."""


@pytest.fixture(scope="session")
def faults_here() -> None:
    """For tests of disks whose calls fail."""


@pytest.fixture(scope="session")
def images_here() -> None:
    """For tests of disks that are file systems of their own."""


@pytest.fixture(scope="session")
def etcd_here() -> None:
    """For tests with an etcd."""


@pytest.fixture
def machines(namespaces_here: None) -> Iterator[Machines]:
    """Three, and the clients'."""
    with Machines(["a", "b", "c", "clients"]) as made:
        yield made


@pytest.fixture
def image_machines(namespaces_here: None, images_here: None) -> Iterator[Machines]:
    """One whose disk is a file system of its own, and the clients'."""
    with Machines(["a", "clients"], image_bytes=IMAGE_BYTES) as made:
        yield made
