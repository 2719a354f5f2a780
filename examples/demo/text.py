"""The demo's input: which files there are, which package each belongs to, and what their lines are as messages."""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from transport import Message

SNIFFED_BYTES = 8192
"""A file with a NUL in its first bytes is no text: git and grep decide it the same way."""
BLOCK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Text:
    """Text files under one root, or one file.

    Attributes:
        root: a folder, or the file itself.
        only_python: whether a folder's other files are left out, with what was installed into the Python they belong to.
    """

    root: Path
    only_python: bool = False

    @classmethod
    def standard_library(cls) -> Text:
        """The sources of the running Python's own standard library: real text that every machine has."""
        return cls(Path(sysconfig.get_path("stdlib")).resolve(), only_python=True)

    def files(self) -> Iterator[tuple[bytes, Path]]:
        """Every file and its package: the first part of its path under the root, without ``.py``. Hidden ones are left out."""
        if not self.root.is_dir():
            yield _package(self.root.name), self.root
            return
        for folder, folders, names in os.walk(self.root):
            folders[:] = sorted(name for name in folders if self._enters(name))
            for name in sorted(names):
                path = Path(folder, name)
                if self._takes(path):
                    yield _package(path.relative_to(self.root).parts[0]), path

    def messages(self) -> Iterator[Message]:
        r"""Every line without its ``\n``, its package as the key; read as far as it is asked for."""
        for package, path in self.files():
            with path.open("rb") as file:
                for line in file:
                    yield Message(line.removesuffix(b"\n"), key=package)

    def size(self) -> tuple[int, int]:
        """How many files and how many lines there are."""
        files = lines = 0
        for _, path in self.files():
            files += 1
            last = b"\n"
            with path.open("rb") as file:
                while block := file.read(BLOCK_BYTES):
                    lines += block.count(b"\n")
                    last = block[-1:]
            lines += last != b"\n"
        return files, lines

    def _enters(self, folder: str) -> bool:
        return not folder.startswith(".") and not (self.only_python and folder in {"site-packages", "dist-packages"})

    def _takes(self, path: Path) -> bool:
        if path.name.startswith(".") or path.is_symlink() or not path.is_file():
            return False
        if self.only_python:
            return path.suffix == ".py"
        with path.open("rb") as file:
            return b"\0" not in file.read(SNIFFED_BYTES)


def _package(name: str) -> bytes:
    return os.fsencode(name.removesuffix(".py"))
