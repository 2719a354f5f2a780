"""One etcd for all tests that need one and leave it alone: each has a cluster of a name of its own in it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.transport.cluster.etcds import Etcds

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="session")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcds]:
    """One that runs alone."""
    folder: Path = tmp_path_factory.mktemp("etcd")
    running = Etcds(folder, "a")
    yield running
    running.close()
