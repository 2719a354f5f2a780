"""What of a failure is damage of a replica's files: then its node leaves and can be filled anew. A disk that refuses is something else."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors.errors import StorageError
from actors.storage.damaged_replica import Whose, whose_replica
from actors.storage.failures import (
    DamagedReplicaError,
    DivergedReplicaError,
    LeadershipLostError,
    damage_of,
    storage_error,
)
from journal import JournalDamagedError, JournalFailedError, OsFiles, ReplicatedJournal
from journal.names import REPLICA

DIRECTORY = Path("data")
FILE = DIRECTORY / "1.segment"
BITS = JournalDamagedError(FILE, 48, "its checksum does not hold")


@pytest.mark.parametrize("error", [BITS, JournalFailedError(BITS)])
def test_it_is_found_under_whatever_it_has_caused(error: Exception) -> None:
    caused = StorageError("the broker stops")
    caused.__cause__ = storage_error(error, "the data directory cannot be read")
    for each in (error, storage_error(error), caused):
        found = damage_of(each, DIRECTORY)
        assert found == (FILE, 48, "its checksum does not hold", True)
        assert str(found) == f"{FILE}, offset 48: its checksum does not hold"


def test_what_is_missing_without_a_damaged_file_is_the_directorys() -> None:
    found = damage_of(DamagedReplicaError("message 3 has no record"), DIRECTORY)
    assert (str(found), found and found.known) == ("data: message 3 has no record", True)
    found = damage_of(DivergedReplicaError("its log is another"), DIRECTORY)
    assert found is not None
    assert not found.known


@pytest.mark.parametrize(
    "error",
    [
        OSError(5, "Input/output error"),
        JournalFailedError(OSError(28, "No space left")),
        LeadershipLostError("over"),
        None,
    ],
)
def test_a_disk_that_refuses_is_no_damage(error: Exception | None) -> None:
    assert damage_of(error, DIRECTORY) is None


def test_an_error_that_causes_itself_is_looked_at_to_an_end() -> None:
    first, second = StorageError("a"), StorageError("b")
    first.__cause__, second.__cause__ = second, first
    assert damage_of(first, DIRECTORY) is None


def test_whose_a_directory_is_that_cannot_be_opened(tmp_path: Path) -> None:
    assert whose_replica(tmp_path) is None, "nobody's"
    journal = ReplicatedJournal.open(tmp_path)
    assert whose_replica(tmp_path) is None, "of no cluster yet"
    journal.join("c" * 32)
    journal.close()
    assert whose_replica(tmp_path) == Whose("c" * 32, journal.directory_id)
    content = bytearray((tmp_path / REPLICA).read_bytes())
    content[30] ^= 1
    (tmp_path / REPLICA).write_bytes(content)
    assert whose_replica(tmp_path) == Whose(None, None), "a replica's, and nobody knows whose"
    assert OsFiles().names(tmp_path)
