"""Deliberate defects: what each check of this folder must catch, or it checks nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

from journal import Committer, Journal, JournalFailedError, JournalOptions
from journal.files import Buffer, Files
from tests.fault.workload import Opener


class _Layer:
    """Files with one operation replaced."""

    def __init__(self, inner: Files, operation: str, replacement: Callable[..., Any]) -> None:
        self._inner = inner
        self._operation = operation
        self._replacement = replacement

    def __getattr__(self, name: str) -> Any:
        return self._replacement if name == self._operation else getattr(self._inner, name)


def without(operation: str) -> Opener:
    """A journal that forgets one kind of call, a sync of the directory for one."""

    def opener(directory: Path, options: JournalOptions, files: Files, report: Callable[[str], None]) -> Journal:
        layer = _Layer(files, operation, lambda *_: None)
        return Journal.open(directory, options, cast("Files", layer), report)

    return opener


def retrying(directory: Path, options: JournalOptions, files: Files, report: Callable[[str], None]) -> Journal:
    """A journal that tries a failed sync again, and believes the second answer."""

    def sync(file: int) -> None:
        try:
            files.sync(file)
        except OSError:
            files.sync(file)

    return Journal.open(directory, options, cast("Files", _Layer(files, "sync", sync)), report)


def believing_short_writes(
    directory: Path, options: JournalOptions, files: Files, report: Callable[[str], None]
) -> Journal:
    """A journal that takes a short write for a whole one."""

    def write(file: int, parts: Sequence[Buffer], offset: int) -> int:
        files.write(file, parts, offset)
        return sum(len(memoryview(part).cast("B")) for part in parts)

    return Journal.open(directory, options, cast("Files", _Layer(files, "write", write)), report)


class _Hasty:
    """A journal that reports records durable as soon as it has been given them."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._on_durable: Callable[[int], None] = lambda _: None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._journal, name)

    def start(
        self,
        on_durable: Callable[[int], None],
        on_failure: Callable[[JournalFailedError], None],
        committer: Committer | None = None,
    ) -> None:
        self._on_durable = on_durable
        self._journal.start(lambda _: None, on_failure, committer)

    def append_items(
        self, kind: int, stream: int, first: int, count: int, parts: Sequence[Buffer], lazy: bool = False
    ) -> int:
        lsn = self._journal.append_items(kind, stream, first, count, parts, lazy)
        self._on_durable(lsn + 1)
        return lsn


def hasty(directory: Path, options: JournalOptions, files: Files, report: Callable[[str], None]) -> Journal:
    """Opens a journal that reports before it syncs."""
    return cast("Journal", _Hasty(Journal.open(directory, options, files, report)))


class _Forgetful(_Hasty):
    """A journal whose checkpoint takes every item for acknowledged, and so gives back what is still wanted."""

    def start(
        self,
        on_durable: Callable[[int], None],
        on_failure: Callable[[JournalFailedError], None],
        committer: Committer | None = None,
    ) -> None:
        self._journal.start(on_durable, on_failure, committer)

    def checkpoint(self, payload: bytes, live: Callable[[int, int, int], int], done: Callable[[], None]) -> None:
        self._journal.checkpoint(payload, lambda *_: 0, done)


def forgetful(directory: Path, options: JournalOptions, files: Files, report: Callable[[str], None]) -> Journal:
    """Opens a journal that reclaims too much."""
    return cast("Journal", _Forgetful(Journal.open(directory, options, files, report)))
