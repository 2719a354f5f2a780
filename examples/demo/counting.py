r"""The counts made directly from the files, in plain Python: what the query's are held against.

What is counted, for the query and here alike:

- the lines of a package are those that end with ``\n``, and a last one that does not if it is not empty;
- a line imports a module when it begins, after spaces and tabs, with ``import`` and a dotted name that the line's end, a comma,
  a semicolon, a comment or ``as`` follows, or with ``from``, a dotted name and ``import``. It counts for the first part of that
  name; relative imports count for nothing, and of ``import a, b`` the first counts.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

IMPORT = re.compile(
    rb"""
    [ \t]*
    (?: import [ \t]+ (?P<imported> [A-Za-z_][A-Za-z0-9_]* ) [A-Za-z0-9_.]* (?: [ \t]* (?: \Z | [,;\#\r] ) | [ \t]+ as [ \t] )
      | from   [ \t]+ (?P<origin>   [A-Za-z_][A-Za-z0-9_]* ) [A-Za-z0-9_.]* [ \t]+ import [ \t(*\\]
    )
    """,
    re.VERBOSE,
)


@dataclass(slots=True)
class Counts:
    """How many lines each package has, and how many lines import each module."""

    lines: Counter[str] = field(default_factory=Counter)
    imports: Counter[str] = field(default_factory=Counter)


def count(files: Iterable[tuple[bytes, Path]]) -> Counts:
    """Count the files of (package, path)."""
    counts = Counts()
    for package, path in files:
        name = os.fsdecode(package)
        with path.open("rb") as file:
            for line in file:
                counts.lines[name] += 1
                if module := imported_by(line.removesuffix(b"\n")):
                    counts.imports[module] += 1
    return counts


def imported_by(line: bytes) -> str | None:
    """The module that a line imports, if any."""
    found = IMPORT.match(line)
    return None if found is None else (found["imported"] or found["origin"]).decode("ascii")


def differences(query: Counts, direct: Counts) -> list[str]:
    """Every count in which the two differ, in words; none when they are equal."""
    return [
        f"{what} {name}: the query counted {ours[name]}, the files have {theirs[name]}"
        for what, ours, theirs in (
            ("lines of", query.lines, direct.lines),
            ("imports of", query.imports, direct.imports),
        )
        for name in sorted(ours.keys() | theirs.keys())
        if ours[name] != theirs[name]
    ]
