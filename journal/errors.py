"""Errors of the journal: one root, one class for each thing that a caller can do something about."""

from __future__ import annotations

from pathlib import Path

from journal.names import is_part


def _tools(file: Path) -> str:
    """What to do about damage in a file of a journal, or in its directory."""
    directory = file.parent if is_part(file.name) else file
    return (
        f"`penstock journal verify {directory}` lists all damage, "
        f"`penstock journal repair {directory}` keeps everything that is whole"
    )


class JournalError(Exception):
    """Root of every error that this package raises of its own."""


class FormatError(JournalError, ValueError):
    """Bytes that are not what journal/format.py specifies; the text says what is wrong with them."""


class BackupError(JournalError):
    """A backup that cannot be made, or is none, or is not whole; the text says why, and what to do."""


class JournalUsageError(JournalError, ValueError):
    """The program asked for what the journal does not do (a kind out of range, items out of order, a call at the wrong time)."""


class JournalFailedError(JournalError):
    """A write or a sync failed, so what is on disk is not known. The journal takes nothing more: start again and recover."""

    def __init__(self, cause: BaseException) -> None:
        text = f"the journal has failed and takes nothing more: {type(cause).__name__}: {cause}"
        if not isinstance(cause, JournalDamagedError):
            text += (
                "; mend the cause (disk full? disk broken?) and start again: nothing that was reported durable is lost"
            )
        super().__init__(text)
        self.cause = cause


class JournalDamagedError(JournalError):
    """What is on disk is not what was written there.

    Attributes:
        file: the file.
        offset: where in it the damage begins, bytes.
        text: what is wrong there.
    """

    def __init__(self, file: Path, offset: int, text: str) -> None:
        super().__init__(f"the journal is damaged: {file}, offset {offset}: {text}; {_tools(file)}")
        self.file = file
        self.offset = offset
        self.text = text


class JournalFullError(JournalError):
    """More waits to be written than ``max_pending_bytes``: the disk is slower than what is appended.

    Attributes:
        pending: bytes that wait.
        limit: the bound.
    """

    def __init__(self, pending: int, limit: int) -> None:
        super().__init__(
            f"{pending} bytes wait to be written, the limit is {limit}: append less until some are durable, "
            "or raise max_pending_bytes"
        )
        self.pending = pending
        self.limit = limit


class JournalLockedError(JournalError):
    """Another process, or another journal of this one, has the directory open."""

    def __init__(self, directory: Path) -> None:
        super().__init__(f"{directory} is in use by another broker: stop that one, or choose another directory")
        self.directory = directory


class ReplicaError(JournalError):
    """A directory that is a replica of a cluster's log, or is being made one, and is not used as such; or a transfer that does not fit."""


class TransferUnfinishedError(ReplicaError):
    """A directory that another replica was filling: it is no journal before that is done, by a `TransferTarget`.

    Attributes:
        directory: which.
    """

    def __init__(self, directory: Path) -> None:
        super().__init__(
            f"{directory} is being filled by another member of its cluster, and is no whole journal yet: its node has that go on"
        )
        self.directory = directory


class LogGoneError(JournalError):
    """Records that the log does not hold any more: their room was given back. Whoever needs them needs a transfer.

    Attributes:
        lsn: the first that was asked for.
        log_start: the first that there is.
    """

    def __init__(self, lsn: int, log_start: int) -> None:
        super().__init__(f"the log does not hold record {lsn} any more: it begins with {log_start}")
        self.lsn = lsn
        self.log_start = log_start


class JournalMissingError(JournalError):
    """No journal can be, or is, at the place that was named: a file, nothing at all, or a directory without a journal."""

    def __init__(self, directory: Path, what: str) -> None:
        super().__init__(f"{directory} {what}")
        self.directory = directory


class UnknownItemError(JournalError, KeyError):
    """No record holds the item: it was never appended, or nobody wanted it any more and its segment is gone.

    Attributes:
        stream: the stream.
        sequence: the item's number in it.
    """

    def __init__(self, stream: int, sequence: int) -> None:
        super().__init__(f"no record holds item {sequence} of stream {stream}")
        self.stream = stream
        self.sequence = sequence

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError's own would put quotes around it
