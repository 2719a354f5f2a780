"""Judges transactions: each is there whole or not at all, and nothing of one comes before its commit was asked for.

Pure. It is a part of the checker, and shares what that knows of each queue.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tests.simulation.history import CommitAnswered, CommitAsked, Event, Staged
from tests.simulation.judged import UNCOMMITTED, Finding, QueueState


@dataclass(slots=True)
class _Transaction:
    """A writer's version: the sets of messages that commits were asked for with, and when one was answered."""

    asked: list[dict[tuple[str, str], None]] = field(default_factory=list)
    answered: float | None = None


class TransactionRules:
    """Follows the transactions of one history.

    Args:
        queues: what the checker knows.
        findings: where to put what is found.
        came: whether a message, by its queue and name, was delivered.
    """

    def __init__(
        self, queues: Mapping[str, QueueState], findings: list[Finding], came: Callable[[str, str], bool]
    ) -> None:
        self._queues = queues
        self._findings = findings
        self._came = came
        self._transactions: dict[tuple[str, int], _Transaction] = {}
        self._staged: dict[tuple[str, str], _Transaction] = {}

    def follow(self, event: Event) -> None:
        """What has to do with transactions; all else is passed over."""
        match event:
            case Staged():
                queue = self._queues[event.queue]
                transaction = self._transactions.setdefault((event.writer, event.version), _Transaction())
                for index, message in enumerate(event.messages):
                    queue.offered[message] = (event.stage, event.number + index)
                    self._staged[event.queue, message] = transaction
            case CommitAsked():
                transaction = self._transactions.setdefault((event.writer, event.version), _Transaction())
                transaction.asked.append(dict.fromkeys(event.messages))
            case CommitAnswered():
                transaction = self._transactions.setdefault((event.writer, event.version), _Transaction())
                if transaction.answered is None:
                    transaction.answered = event.time
            case _:
                pass

    def is_staged(self, queue: str, message: str) -> bool:
        """Whether a message was staged in a queue."""
        return (queue, message) in self._staged

    def is_uncommitted(self, queue: str, message: str) -> bool:
        """Whether a message was staged, and nobody has asked for a commit with it."""
        transaction = self._staged.get((queue, message))
        return transaction is not None and not any((queue, message) in asked for asked in transaction.asked)

    def check(self, end: float) -> None:
        """At the end: if any of a transaction came, or it was answered, all of it is as good as confirmed."""
        for (writer, version), transaction in self._transactions.items():
            came = {key for key, whose in self._staged.items() if whose is transaction and self._came(*key)}
            if not came and transaction.answered is None:
                continue
            whole = [asked for asked in transaction.asked if came <= asked.keys()]
            if not whole:
                text = f"version {version} of {writer} came as parts of commits that were asked for one after the other"
                self._findings.append(Finding(UNCOMMITTED, end, text))
                continue
            when = end if transaction.answered is None else transaction.answered
            # What was asked for last is what it is, where several have all that came: it was not refused.
            for queue, message in whole[-1]:
                self._queues[queue].confirmed[message] = when
