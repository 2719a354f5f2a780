"""Files on which one chosen call fails, writes short, or is the last that the process makes."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final, TypeVar

from journal.files import Buffer, Files
from tests.fault.disk import SimulatedDisk

T = TypeVar("T")

WRITING: Final = (
    "create",
    "write",
    "sync",
    "sync_directory",
    "allocate",
    "truncate",
    "rename",
    "unlink",
    "make_directory",
    "remove_directory",
)
"""The operations that change what is on the disk."""


class Panic(BaseException):
    """The process is gone: nothing catches it, and nothing it does afterwards reaches the disk."""


class Kind(Enum):
    """What happens at the chosen call."""

    ENOSPC = "no space, nothing done"
    EIO = "input/output error, nothing done"
    SHORT = "a write takes half of its bytes"
    SHORT_ENOSPC = "a write takes half of its bytes, the next finds no space"
    PANIC_BEFORE = "the process dies just before"
    PANIC_WITHIN = "the process dies with half of a write done"
    PANIC_AFTER = "the process dies just after"


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault.

    Attributes:
        call: which call it strikes, counted from 0; among those of ``operation`` where that is said, else among all.
        kind: what it does.
        operation: a method of ``Files``, or None for any.
    """

    call: int
    kind: Kind
    operation: str | None = None

    def __str__(self) -> str:
        return f"{self.kind.name} at call {self.call}{f' of {self.operation}' if self.operation else ''}"


@dataclass(frozen=True, slots=True)
class Call:
    """A call that was made: the operation, and the file's name."""

    operation: str
    name: str


class FaultyFiles:
    """The files of another layer, with faults.

    Attributes:
        calls: every call so far, in order.
        struck: the calls that a fault struck, by their index in ``calls``.
        dead: whether a panic was injected; from then on every call but ``close`` panics, and that does nothing.
    """

    def __init__(self, inner: Files, *faults: Fault) -> None:
        self._inner = inner
        self._faults = faults
        self._counts: dict[str | None, int] = {}
        self._names: dict[int, str] = {}
        self._no_space_next = False
        self.calls: list[Call] = []
        self.struck: list[int] = []
        self.dead = False

    def create(self, path: Path) -> int:
        return self._remember(path, self._call("create", path.name, lambda: self._inner.create(path)))

    def open(self, path: Path, *, write: bool = False) -> int:
        return self._remember(path, self._call("open", path.name, lambda: self._inner.open(path, write=write)))

    def close(self, file: int) -> None:
        if not self.dead:
            self._call("close", self._names[file], lambda: self._inner.close(file))
            del self._names[file]

    def write(self, file: int, parts: Sequence[Buffer], offset: int) -> int:
        kind = self._count("write", self._names[file])
        if self._no_space_next:
            self._no_space_next = False
            self.struck.append(len(self.calls) - 1)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if kind in {Kind.SHORT, Kind.SHORT_ENOSPC, Kind.PANIC_WITHIN}:
            data = b"".join(parts)
            if kind is Kind.SHORT_ENOSPC:
                self._no_space_next = True
            taken = self._inner.write(file, [data[: max(len(data) // 2, 1)]], offset)
            if kind is Kind.PANIC_WITHIN:
                self._die()
            return taken
        return self._do(kind, lambda: self._inner.write(file, parts, offset))

    def read(self, file: int, size: int, offset: int) -> bytes:
        return self._call("read", self._names[file], lambda: self._inner.read(file, size, offset))

    def sync(self, file: int) -> None:
        kind = self._count("sync", self._names[file])
        if kind in {Kind.EIO, Kind.ENOSPC} and isinstance(self._inner, SimulatedDisk):
            self._inner.fail_sync(file)
        self._do(kind, lambda: self._inner.sync(file))

    def sync_directory(self, path: Path) -> None:
        self._call("sync_directory", path.name, lambda: self._inner.sync_directory(path))

    def allocate(self, file: int, offset: int, size: int) -> None:
        self._call("allocate", self._names[file], lambda: self._inner.allocate(file, offset, size))

    def truncate(self, file: int, size: int) -> None:
        self._call("truncate", self._names[file], lambda: self._inner.truncate(file, size))

    def size(self, file: int) -> int:
        return self._call("size", self._names[file], lambda: self._inner.size(file))

    def linked(self, file: int) -> bool:
        # Not counted: it is no call that a disk hears of.
        return self._inner.linked(file)

    def number(self, file: int) -> int:
        # Not counted, as above.
        return self._inner.number(file)

    def rename(self, source: Path, target: Path) -> None:
        self._call("rename", source.name, lambda: self._inner.rename(source, target))
        self._names.update({file: target.name for file, name in self._names.items() if name == source.name})

    def unlink(self, path: Path) -> None:
        self._call("unlink", path.name, lambda: self._inner.unlink(path))

    def make_directory(self, path: Path) -> None:
        self._call("make_directory", path.name, lambda: self._inner.make_directory(path))

    def remove_directory(self, path: Path) -> None:
        self._call("remove_directory", path.name, lambda: self._inner.remove_directory(path))

    def names(self, path: Path) -> list[str]:
        return self._call("names", path.name, lambda: self._inner.names(path))

    def lock(self, path: Path, *, make: bool = True) -> int:
        return self._remember(path, self._call("lock", path.name, lambda: self._inner.lock(path, make=make)))

    def free_bytes(self, path: Path) -> int:
        return self._call("free_bytes", path.name, lambda: self._inner.free_bytes(path))

    def release(self) -> None:
        """Close what the dead process had open, as its end does; for an inner layer with real descriptors."""
        for file in self._names:
            self._inner.close(file)
        self._names.clear()

    def _remember(self, path: Path, file: int) -> int:
        self._names[file] = path.name
        return file

    def _call(self, operation: str, name: str, action: Callable[[], T]) -> T:
        return self._do(self._count(operation, name), action)

    def _count(self, operation: str, name: str) -> Kind | None:
        """Note a call; what is to happen at it."""
        if self.dead:
            raise Panic
        self.calls.append(Call(operation, name))
        struck = None
        for scope in (None, operation):
            number = self._counts.get(scope, 0)
            self._counts[scope] = number + 1
            for fault in self._faults:
                if fault.operation == scope and fault.call == number:
                    struck = fault.kind
                    self.struck.append(len(self.calls) - 1)
        return struck

    def _do(self, kind: Kind | None, action: Callable[[], T]) -> T:
        if kind in {Kind.PANIC_BEFORE, Kind.PANIC_WITHIN}:
            self._die()
        if kind is Kind.ENOSPC:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if kind is Kind.EIO:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        try:
            return action()
        finally:
            # After a call that failed by itself, too: the process dies before it learns of it.
            if kind is Kind.PANIC_AFTER:
                self._die()

    def _die(self) -> None:
        self.dead = True
        raise Panic
