"""A replica in the place of a journal that is alone: it leads in a new epoch after each start, and all that is durable is committed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from journal import JournalOptions, ReplicatedJournal
from journal.files import Files
from tests.fault.workload import verify_survives

if TYPE_CHECKING:
    from collections import Counter

    from journal import Committer, Journal, JournalFailedError


class LoneReplica(ReplicatedJournal):
    """A cluster of one: what is stored here is stored by half + 1."""

    def start(
        self,
        on_durable: Callable[[int], None],
        on_failure: Callable[[JournalFailedError], None],
        committer: Committer | None = None,
    ) -> None:
        """As `Journal.start`; and lead."""

        def durable(lsn: int) -> None:
            on_durable(lsn)
            self.committed(lsn)

        super().start(durable, on_failure, committer)
        self.promise(self.promised + 1)
        self.lead(self.promised)


def replica(directory: Path, options: JournalOptions, files: Files, report: Callable[[str], None]) -> Journal:
    """Opens a directory as the replica of a cluster of one."""
    return LoneReplica.open(directory, options, files, report)


def verify_replica_survives(seed: int) -> Counter[str]:
    """As `verify_survives`, of a replica."""
    return verify_survives(seed, opener=replica)
