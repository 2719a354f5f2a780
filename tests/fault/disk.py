"""A disk in memory that loses, after a power loss, whatever no sync has covered.

It implements ``journal.files.Files`` with the semantics of a page cache. A file's bytes are durable by sectors of 512
bytes, its size on its own, and its name only once its directory is synced. What a power loss leaves is drawn from a random
generator, so a seed gives the same disk every time:

- each unsynced sector is as it was, as one of the writes since the last sync left it, or torn: a prefix of that, the old
  bytes after it; each independently of the others, so writes are reordered too;
- a file has the size it had at the last sync or any size since;
- of the unsynced names, made, renamed and removed, some survive: a prefix of the operations, as a journalling file system
  shows, or any subset in which those on one name keep their order, as others do.

The model is of documented guarantees, not of one file system: "All File Systems Are Not Created Equal" (Pillai et al., OSDI
2014) shows that real ones differ in just these points. A sync that failed leaves what it should have written out of every
later one, as Linux does ("Can Applications Recover from fsync Failures?", Rebello et al., ATC 2020).
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import Random
from typing import TypeAlias

from journal.files import Buffer

SECTOR = 512
"""Bytes that a disk writes whole or, at worst, in part; the smallest unit in use."""
VERSIONS = 8
"""Contents of one unsynced sector that are remembered; older ones are not drawn any more."""
_numbers = count(1)
"""Of files, whichever disk they are on: one that is copied to another disk is another file. A simulation begins anew."""
ROOT = Path("/disk")
"""The directory that a new disk has."""


@dataclass(slots=True, eq=False)
class _File:
    """What one file holds, in the cache and on the disk. Bytes between the end of ``cached`` and ``size`` are zero."""

    cached: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    size: int = 0
    durable_size: int = 0
    sizes: list[int] = field(default_factory=list)
    """Sizes since the last sync."""
    unsynced: dict[int, list[bytes]] = field(default_factory=dict)
    """By sector, what it has held since the last sync, oldest first."""
    abandoned: dict[int, list[bytes]] = field(default_factory=dict)
    """By sector, what a failed sync did not write and no later one will, unless it is written again."""
    number: int = field(default_factory=lambda: next(_numbers))
    """What a start after it knows it by."""

    def put(self, data: bytes, offset: int) -> None:
        stop = offset + len(data)
        if len(self.cached) < stop:
            self.cached.extend(bytes(stop - len(self.cached)))
        self.cached[offset:stop] = data
        self._touch(offset, stop)
        self.resize(max(self.size, stop))

    def cut(self, size: int) -> None:
        """Truncate; what is beyond reads as zero if the file ever grows again."""
        if size < len(self.cached):
            stop = len(self.cached)
            self.cached[size:] = bytes(stop - size)
            self._touch(size, stop)
        self.resize(size)

    def resize(self, size: int) -> None:
        if size != self.size:
            self.size = size
            self.sizes = [*self.sizes, size][-VERSIONS:]

    def sync(self) -> None:
        for sector in self.unsynced:
            _set_sector(self.durable, sector, _get_sector(self.cached, sector))
            self.abandoned.pop(sector, None)
        self.unsynced.clear()
        self.sizes.clear()
        self.durable_size = self.size

    def abandon(self) -> None:
        """A sync failed: the cache calls these sectors clean, and the disk does not have them."""
        for sector, versions in self.unsynced.items():
            self.abandoned.setdefault(sector, []).extend(versions)
        self.unsynced.clear()

    def after_power_loss(self, random: Random, kept: float, torn: float) -> _File:
        """What is left; ``kept`` and ``torn`` are the shares of unsynced sectors that are, about."""
        left = bytearray(self.durable)
        for sector in sorted(self.unsynced.keys() | self.abandoned.keys()):
            versions = self.abandoned.get(sector, []) + self.unsynced.get(sector, [])
            fate = random.random()
            new = versions[-1] if random.random() < 0.7 else random.choice(versions)
            if fate < kept:
                _set_sector(left, sector, new)
            elif fate < kept + torn:
                whole = random.randrange(1, SECTOR)
                _set_sector(left, sector, new[:whole] + _get_sector(left, sector)[whole:])
        size = random.choice([self.durable_size, *self.sizes])
        del left[size:]
        return _File(bytearray(left), left, size, size, number=self.number)

    def copy(self) -> _File:
        return _File(
            bytearray(self.cached),
            bytearray(self.durable),
            self.size,
            self.durable_size,
            list(self.sizes),
            {sector: list(versions) for sector, versions in self.unsynced.items()},
            {sector: list(versions) for sector, versions in self.abandoned.items()},
            self.number,
        )

    def _touch(self, start: int, stop: int) -> None:
        for sector in range(start // SECTOR, -(-stop // SECTOR)):
            versions = self.unsynced.setdefault(sector, [])
            versions.append(_get_sector(self.cached, sector))
            del versions[:-VERSIONS]


def _get_sector(content: bytearray, sector: int) -> bytes:
    return bytes(content[sector * SECTOR : (sector + 1) * SECTOR]).ljust(SECTOR, b"\0")


def _set_sector(content: bytearray, sector: int, data: bytes) -> None:
    stop = (sector + 1) * SECTOR
    if len(content) < stop:
        content.extend(bytes(stop - len(content)))
    content[stop - SECTOR : stop] = data


@dataclass(slots=True, eq=False)
class _Directory:
    """A directory is only a name that others are under."""


_Node: TypeAlias = _File | _Directory
_Names: TypeAlias = dict[Path, _Node]


@dataclass(frozen=True, slots=True)
class _NameChange:
    """A name that comes, goes, or replaces another (a rename has both), atomically."""

    gone: Path | None
    come: Path | None
    node: _Node | None

    @property
    def paths(self) -> tuple[Path, ...]:
        return tuple(path for path in (self.gone, self.come) if path is not None)

    def apply(self, names: _Names) -> None:
        if isinstance(self.node, _Directory) and self.gone is not None and self.come is not None:
            for path in [path for path in names if self.gone in path.parents]:
                names[self.come / path.relative_to(self.gone)] = names.pop(path)
        if self.gone is not None:
            names.pop(self.gone, None)
        if self.come is not None and self.node is not None:
            names[self.come] = self.node


@dataclass(slots=True)
class _Descriptor:
    path: Path
    file: _File
    write: bool
    locks: bool = False


class SimulatedDisk:
    """A file system with a page cache, in memory.

    Args:
        capacity: bytes that its files may have together, by their sizes; None for no limit.
    """

    def __init__(self, capacity: int | None = None) -> None:
        self.capacity = capacity
        self._names: _Names = {ROOT: _Directory()}
        self._durable_names: _Names = dict(self._names)
        self._changes: list[_NameChange] = []
        self._descriptors: dict[int, _Descriptor] = {}
        self._next_descriptor = 100
        self._locked: set[Path] = set()

    # What happens to the machine.

    def crash(self, random: Random) -> SimulatedDisk:
        """The disk as the next start finds it after a power loss; this one is left as it is."""
        kept = random.choice((0.0, 0.1, 0.5, 0.9, 1.0))
        torn = random.choice((0.0, 0.2, 1.0 - kept)) * (1.0 - kept)
        names = dict(self._durable_names)
        for change in self._surviving(random):
            change.apply(names)
        survivor = SimulatedDisk(self.capacity)
        left: dict[int, _Node] = {}
        for path, node in sorted(names.items()):
            if path != ROOT and path.parent not in names:
                continue  # its directory is gone, and it with it
            if id(node) not in left:
                left[id(node)] = node.after_power_loss(random, kept, torn) if isinstance(node, _File) else node
            survivor._names[path] = left[id(node)]
        survivor._durable_names = dict(survivor._names)
        return survivor

    def restart(self) -> SimulatedDisk:
        """The disk as the next process finds it after this one died: all that was written is there, durable or not."""
        after = SimulatedDisk(self.capacity)
        nodes = {
            id(node): node.copy() if isinstance(node, _File) else node
            for node in (*self._names.values(), *self._durable_names.values(), *(c.node for c in self._changes))
            if node is not None
        }
        after._names = {path: nodes[id(node)] for path, node in self._names.items()}
        after._durable_names = {path: nodes[id(node)] for path, node in self._durable_names.items()}
        after._changes = [
            _NameChange(change.gone, change.come, None if change.node is None else nodes[id(change.node)])
            for change in self._changes
        ]
        return after

    def fail_sync(self, file: int) -> None:
        """What a failed sync does: nothing becomes durable, and a later sync of the same bytes claims success for nothing."""
        self._descriptors[file].file.abandon()

    # What tests look at and damage.

    def files(self, directory: Path) -> dict[str, bytes]:
        """Every file of a directory as the page cache has it."""
        return {name: self.content(directory / name) for name in self.names(directory)}

    def content(self, path: Path) -> bytes:
        """A file's bytes as the page cache has them."""
        file = self._file(path)
        return bytes(file.cached[: file.size]).ljust(file.size, b"\0")

    def replace(self, path: Path, content: bytes) -> None:
        """Give a file other bytes, durable at once; the file is made if there is none."""
        node = self._names.get(path)
        file = node if isinstance(node, _File) else _File()
        file.cached, file.durable = bytearray(content), bytearray(content)
        file.size = file.durable_size = len(content)
        file.sizes.clear()
        file.unsynced.clear()
        file.abandoned.clear()
        self._names[path] = self._durable_names[path] = file

    def open_descriptors(self) -> list[str]:
        """Names of the files that are open."""
        return sorted(descriptor.path.name for descriptor in self._descriptors.values())

    # journal.files.Files

    def create(self, path: Path) -> int:
        if path in self._names:
            raise _error(errno.EEXIST, path)
        self._must_be_directory(path.parent)
        file = _File()
        self._change(_NameChange(None, path, file))
        return self._descriptor(_Descriptor(path, file, write=True))

    def open(self, path: Path, *, write: bool = False) -> int:
        return self._descriptor(_Descriptor(path, self._file(path), write))

    def close(self, file: int) -> None:
        descriptor = self._descriptors.pop(file, None)
        if descriptor is None:
            raise _error(errno.EBADF, file)
        if descriptor.locks:
            self._locked.discard(descriptor.path)

    def write(self, file: int, parts: Sequence[Buffer], offset: int) -> int:
        target = self._opened(file, write=True)
        data = b"".join(parts)
        growth = offset + len(data) - target.size
        if growth > 0 and self.capacity is not None and growth > (room := self._room()):
            data = data[: len(data) - (growth - room)]
            if not data:
                raise _error(errno.ENOSPC, file)
        target.put(data, offset)
        return len(data)

    def read(self, file: int, size: int, offset: int) -> bytes:
        source = self._opened(file)
        stop = min(offset + size, source.size)
        return bytes(source.cached[offset:stop]).ljust(max(stop - offset, 0), b"\0")

    def sync(self, file: int) -> None:
        self._opened(file).sync()

    def sync_directory(self, path: Path) -> None:
        self._must_be_directory(path)
        rest = []
        for change in self._changes:
            # From one directory to another it is one change as well, and durable when the one that it comes to is synced.
            if change.paths[-1].parent == path:
                change.apply(self._durable_names)
            else:
                rest.append(change)
        self._changes = rest

    def allocate(self, file: int, offset: int, size: int) -> None:
        target = self._opened(file, write=True)
        growth = offset + size - target.size
        if growth > 0:
            if self.capacity is not None and growth > self._room():
                raise _error(errno.ENOSPC, file)
            target.resize(offset + size)

    def truncate(self, file: int, size: int) -> None:
        self._opened(file, write=True).cut(size)

    def size(self, file: int) -> int:
        return self._opened(file).size

    def linked(self, file: int) -> bool:
        opened = self._opened(file)
        return any(node is opened for node in self._names.values())

    def number(self, file: int) -> int:
        return self._opened(file).number

    def rename(self, source: Path, target: Path) -> None:
        if isinstance(self._names.get(source), _Directory):
            assert target not in self._names, "a directory is given a name that is free"
            assert not any(source in path.parents for change in self._changes for path in change.paths), "it is synced"
            self._change(_NameChange(source, target, self._names[source]))
            return
        self._change(_NameChange(source, target, self._file(source)))

    def unlink(self, path: Path) -> None:
        self._file(path)
        self._change(_NameChange(path, None, None))

    def make_directory(self, path: Path) -> None:
        for directory in (*reversed(path.parents), path):
            if ROOT in directory.parents and directory not in self._names:
                self._change(_NameChange(None, directory, _Directory()))
        self._must_be_directory(path)

    def remove_directory(self, path: Path) -> None:
        if self.names(path):
            raise _error(errno.ENOTEMPTY, path)
        self._change(_NameChange(path, None, None))

    def names(self, path: Path) -> list[str]:
        self._must_be_directory(path)
        return sorted(other.name for other in self._names if other.parent == path and other != path)

    def lock(self, path: Path, *, make: bool = True) -> int:
        if path in self._locked:
            raise BlockingIOError(errno.EWOULDBLOCK, os.strerror(errno.EWOULDBLOCK), str(path))
        file = self.open(path, write=True) if path in self._names or not make else self.create(path)
        self._descriptors[file].locks = True
        self._locked.add(path)
        return file

    def free_bytes(self, path: Path) -> int:
        return 1 << 40 if self.capacity is None else self._room()

    # How.

    def _surviving(self, random: Random) -> Iterator[_NameChange]:
        """The unsynced changes of names that a power loss leaves."""
        if random.random() < 0.5:
            yield from self._changes[: random.randint(0, len(self._changes))]
            return
        kept = random.choice((0.1, 0.5, 0.9))
        dropped: set[Path] = set()
        for change in self._changes:
            if random.random() < kept and not dropped.intersection(change.paths):
                yield change
            else:
                dropped.update(change.paths)

    def _change(self, change: _NameChange) -> None:
        change.apply(self._names)
        self._changes.append(change)

    def _file(self, path: Path) -> _File:
        node = self._names.get(path)
        if not isinstance(node, _File):
            raise _error(errno.ENOENT if node is None else errno.EISDIR, path)
        return node

    def _must_be_directory(self, path: Path) -> None:
        node = self._names.get(path)
        if not isinstance(node, _Directory):
            raise _error(errno.ENOENT if node is None else errno.ENOTDIR, path)

    def _descriptor(self, descriptor: _Descriptor) -> int:
        self._next_descriptor += 1
        self._descriptors[self._next_descriptor] = descriptor
        return self._next_descriptor

    def _opened(self, file: int, *, write: bool = False) -> _File:
        descriptor = self._descriptors.get(file)
        if descriptor is None or (write and not descriptor.write):
            raise _error(errno.EBADF, file)
        return descriptor.file

    def _room(self) -> int:
        assert self.capacity is not None
        files = {id(node): node.size for node in self._names.values() if isinstance(node, _File)}
        return max(self.capacity - sum(files.values()), 0)


def _error(number: int, what: Path | int) -> OSError:
    return OSError(number, os.strerror(number), str(what))
