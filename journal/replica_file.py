"""Whose replica of a cluster's log a directory is, and what it has promised: a file of its own, written anew for each promise.

The file ``replica``, integers little-endian::

    magic      8s   b"PENSTREP"
    version    u16  1; 2 as long as the replica is in doubt
    reserved   u16  0
    length     u32  bytes of body
    body            msgpack map: directory (16 random bytes), cluster (text, "" for none yet), promised (epoch), durable (lsn),
                    lock (what tells the file ``lock`` from every other one: `Files.number`), own (what tells this very file; 0 or
                    left out where that was not noted), doubt (epoch; left out where there is none)
    crc        u32  CRC-32C of everything before it

``promised`` is the greatest epoch that the replica has promised to: it takes nothing of an older leader. Every record below ``durable`` was
durable when the file was written, and has not been cut off since: where one is missing at a start, that is damage and no torn tail.

A start that cuts a write off the end of the log cannot tell whether a power failure has cut it short, or it was whole once, answered
for, and damaged since. From then on the replica is in *doubt*: ``doubt`` is the epoch that it had promised by then. It ends when the
replica has all again that it may have answered for. A program that does not know of doubt would vote as if there were none, and forget it:
so it refuses the file, which has another version meanwhile.

A directory that was copied is not the one that was promised by: its file ``lock`` has another number, so it gets an id of its own. Where an
older copy was put over it, which leaves ``lock`` as it is, this file has another number than it says. A backup has no such file.
"""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgpack

from journal.durable import create_anew, look_into, read_whole, write_all
from journal.enclosed import Enclosed, disclose, enclose
from journal.errors import FormatError, JournalDamagedError, JournalUsageError
from journal.files import Files
from journal.format import FIRST_LSN, check_magic
from journal.names import ASIDE, REPLICA

MAGIC = b"PENSTREP"
VERSION = 1
DOUBT_VERSION = 2
"""Of one that is in doubt."""
ID_BYTES = 16
MAX_CLUSTER_BYTES = 255
"""Of a cluster's id, UTF-8."""
_HEAD = struct.Struct("<8sHHI")


class Replica(NamedTuple):
    """What the file says.

    Attributes:
        directory: the directory's id, as hex.
        cluster: the cluster's; "" as long as it is in none.
        promised: the epoch below which nothing is taken; 0 for none.
        durable: every record below it was durable.
        lock: what tells the directory's lock from every other file.
        own: what tells the file that says this; 0 where that is not known.
        doubt: what was promised when a write was cut off that may have been answered for; 0 where there is no doubt.
    """

    directory: str
    cluster: str
    promised: int
    durable: int
    lock: int
    own: int = 0
    doubt: int = 0


def pack_replica(replica: Replica) -> bytes:
    """The file's contents."""
    fields = replica._asdict()
    if not replica.doubt:
        del fields["doubt"]
    body: bytes = msgpack.packb({**fields, "directory": bytes.fromhex(replica.directory)})
    return enclose(_HEAD, Enclosed(MAGIC, DOUBT_VERSION if replica.doubt else VERSION, body))


def unpack_replica(data: bytes) -> Replica:
    """The reverse; raises FormatError for anything but one whole file."""
    magic, version, packed = disclose(_HEAD, data, "replica's file")
    check_magic(magic, MAGIC, version, "replica's file", DOUBT_VERSION)
    try:
        body = msgpack.unpackb(packed, max_ext_len=0)
        directory = body["directory"]
        if not isinstance(directory, bytes) or len(directory) != ID_BYTES:
            raise ValueError(f"a directory's id has {ID_BYTES} bytes")
        numbers = [_number(body[name]) for name in ("promised", "durable", "lock")]
        own, doubt = _number(body.get("own", 0)), _number(body.get("doubt", 0))
        return Replica(directory.hex(), _cluster(body["cluster"]), *numbers)._replace(own=own, doubt=doubt)
    except (ValueError, KeyError, TypeError, msgpack.UnpackException) as error:
        raise FormatError(f"a replica's file whose checksum holds and whose body does not: {error!r}") from error


def read_replica(files: Files, directory: Path) -> Replica | None:
    """What the file says; None where there is none.

    Raises:
        FormatError: it is not whole.
        OSError: it cannot be read.
    """
    if REPLICA not in files.names(directory):
        return None
    return unpack_replica(read_whole(files, directory / REPLICA))


class ReplicaFile:
    """The file of a directory that is locked. What changes it blocks for two syncs, and may be called on any thread.

    Attributes:
        now: what it says.
        fresh: whether the directory has got its id just now: whatever it holds, it is not known to any cluster.
    """

    def __init__(
        self, files: Files, directory: Path, now: Replica, report: Callable[[str], None], *, fresh: bool
    ) -> None:
        self.now = now
        self.fresh = fresh
        self._files = files
        self._directory = directory
        self._report = report
        self._changing = threading.Lock()
        self._closed = False

    @classmethod
    def open(cls, files: Files, directory: Path, lock: int, report: Callable[[str], None]) -> ReplicaFile:
        """Read the file, or make it, durable, where there is none of this very directory; ``lock`` is that of the directory, held.

        Raises:
            JournalDamagedError: it is not whole, so nobody knows what was promised.
            OSError: the file system refuses.
        """
        number = files.number(lock)
        try:
            found = read_replica(files, directory)
        except FormatError as error:
            raise JournalDamagedError(directory / REPLICA, 0, str(error)) from error
        if (
            found is not None
            and found.lock == number
            and found.own in (0, look_into(files, directory / REPLICA, files.number))
        ):
            made = cls(files, directory, found, report, fresh=False)
            made._say_doubt()
            return made
        if found is not None:
            report(
                f"{directory}: it was copied from elsewhere, or a copy was put over it, so it is another replica than {found.directory}"
            )
        now = Replica(os.urandom(ID_BYTES).hex(), "", 0, FIRST_LSN, number)
        made = cls(files, directory, now, report, fresh=True)
        made._write(now)
        return made

    def promise(self, epoch: int, durable: int) -> None:
        """Take nothing that is older than an epoch, ever; durable when this returns.

        Raises:
            JournalUsageError: a greater one was promised.
            OSError: the file system refuses; what is promised is not known then.
        """
        with self._changing:
            if epoch < self.now.promised:
                raise JournalUsageError(f"epoch {epoch} cannot be promised: epoch {self.now.promised} was")
            if epoch > self.now.promised:
                self._write(self.now._replace(promised=epoch, durable=max(durable, self.now.durable)))

    def join(self, cluster: str) -> None:
        """Be of a cluster, for good.

        Raises:
            JournalUsageError: it is of another; or no text that can be one's id.
            OSError: the file system refuses.
        """
        with self._changing:
            if self.now.cluster not in ("", cluster):
                raise JournalUsageError(f"the directory is of the cluster {self.now.cluster!r}, not of {cluster!r}")
            try:
                _cluster(cluster)
            except (ValueError, TypeError) as error:
                raise JournalUsageError(str(error)) from error
            if cluster != self.now.cluster:
                self._write(self.now._replace(cluster=cluster))

    def stored(self, durable: int) -> None:
        """Every record below ``durable`` is durable."""
        with self._changing:
            if durable > self.now.durable:
                self._write(self.now._replace(durable=durable))

    def cut(self, lsn: int) -> None:
        """The records from ``lsn`` on are about to be cut off."""
        with self._changing:
            if lsn < self.now.durable:
                self._write(self.now._replace(durable=lsn))

    def doubts(self) -> None:
        """A write is about to be cut off the end of the log, and may have been answered for.

        A replica that has promised nothing has answered nobody.
        """
        with self._changing:
            if self.now.doubt != self.now.promised:
                self._write(self.now._replace(doubt=self.now.promised))
                self._say_doubt()

    def end_doubt(self, epoch: int) -> None:
        """It has all that it may have answered for when ``epoch`` was promised; a later doubt stays. Nothing is done once it is closed."""
        with self._changing:
            if 0 < self.now.doubt <= epoch and not self._closed:
                self._write(self.now._replace(doubt=0))

    def _say_doubt(self) -> None:
        if self.now.doubt:
            self._report(
                f"{self._directory}: a write was cut off its log that was damaged or not finished, and it is unknown whether it was "
                "confirmed: until this replica has followed a leader again, one leads only where half of all are there without such a "
                "doubt, or all"
            )

    def close(self) -> None:
        """The directory is about to be let go: somebody else may open the file. What is being written is done first."""
        with self._changing:
            self._closed = True

    def _write(self, replica: Replica) -> None:
        files, path = self._files, self._directory / REPLICA
        aside = path.with_name(path.name + ASIDE)
        file = create_anew(files, aside)
        try:
            replica = replica._replace(own=files.number(file))
            write_all(files, file, [pack_replica(replica)], 0)
            files.sync(file)
        finally:
            files.close(file)
        files.rename(aside, path)
        files.sync_directory(self._directory)
        self.now = replica


def _number(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r:.40} is no number of its")
    return value


def _cluster(value: Any) -> str:
    if not isinstance(value, str) or len(value.encode()) > MAX_CLUSTER_BYTES:
        raise ValueError(f"a cluster's id is a text of {MAX_CLUSTER_BYTES} bytes at most, not {value!r:.40}")
    return value
