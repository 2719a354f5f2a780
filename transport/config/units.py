"""How durations, sizes and other values are written, the same in the settings file, the environment and on the command line.

A size is a whole number of bytes, or a number with one of ``SIZES``: ``64MiB``, ``1.5 GB``. A duration is a number of seconds, or
one or more numbers with one of ``DURATIONS``, the longest first: ``50ms``, ``1h30m``. A share is a number from 0 to 1, or a
percentage: ``60%``. Units are those letters and no others: a bare ``m`` of bytes could be 1000² or 1024², so it is refused.
"""

from __future__ import annotations

import re

SIZES = {
    "B": 1,
    "kB": 1000,
    "MB": 1000**2,
    "GB": 1000**3,
    "TB": 1000**4,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
}
DURATIONS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}
"""Milliseconds each, the longest first."""

_SIZES_BY_LOWER_CASE = {unit.lower(): factor for unit, factor in SIZES.items()}
MOST_DIGITS = 24
"""So many are beyond any size or time, and few enough for every conversion below."""
BEYOND = 10**MOST_DIGITS
"""The least number that has more: the file has numbers of any length."""
_NUMBER = rf"([0-9][0-9_]{{0,{MOST_DIGITS - 1}}})(?:\.([0-9]{{1,18}}))?"
_SIZE = re.compile(rf"{_NUMBER} ?([A-Za-z]*)")
_DURATION = re.compile(_NUMBER)
# The longer unit first: "ms" would be read as "m".
# "min" is how times are shown, so it can be typed too.
_DURATION_PART = re.compile(rf"{_NUMBER} ?({'|'.join(reversed(DURATIONS))})(?:(?<=m)in)?\s*")
_SHARE = re.compile(rf"{_NUMBER} ?(%?)")


def parse_size(text: str) -> int:
    """Bytes. Raises ValueError saying what was expected."""
    found = _SIZE.fullmatch(text.strip())
    factor = _SIZES_BY_LOWER_CASE.get(found[3].lower() or "b") if found else None
    if found is None or factor is None:
        raise ValueError(f"{text!r:.60} is no size: write bytes, or a number with {', '.join(SIZES)}")
    numerator, denominator = _ratio(found)
    size, rest = divmod(numerator * factor, denominator)
    if rest:
        raise ValueError(f"{text!r:.60} is no whole number of bytes")
    return size


def parse_duration(text: str) -> float:
    """Seconds. Raises ValueError saying what was expected."""
    rest = text.strip()
    if bare := _DURATION.fullmatch(rest):
        numerator, denominator = _ratio(bare)
        return numerator / denominator
    units = list(DURATIONS)
    seconds = 0.0
    while True:
        part = _DURATION_PART.match(rest)
        # Longest first and each unit once: 5m3d is more likely a slip than a duration.
        if part is None or part[3] not in units:
            raise ValueError(
                f"{text!r:.60} is no duration: write seconds, or numbers with {', '.join(DURATIONS)}, such as 1h30m"
            )
        units = units[units.index(part[3]) + 1 :]
        numerator, denominator = _ratio(part)
        seconds += numerator * DURATIONS[part[3]] / (denominator * 1000)
        rest = rest[part.end() :]
        if not rest:
            return seconds


def parse_share(text: str) -> float:
    """A number from 0 to 1. Raises ValueError saying what was expected."""
    found = _SHARE.fullmatch(text.strip())
    numerator, denominator = _ratio(found) if found else (2, 1)
    share = numerator / (denominator * (100 if found and found[3] else 1))
    if share > 1:
        raise ValueError(f"{text!r:.60} is no share: write a number from 0 to 1, or a percentage such as 60%")
    return share


def parse_count(text: str) -> int:
    """A whole number. Raises ValueError saying what was expected."""
    if not re.fullmatch(rf"-?[0-9][0-9_]{{0,{MOST_DIGITS - 1}}}", text.strip()):
        raise ValueError(f"{text!r:.60} is no whole number")
    return int(text.replace("_", ""))


def show_size(size: int) -> str:
    """The shortest exact form: ``64MiB``, ``1500``."""
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        if size and size % SIZES[unit] == 0:
            return f"{size // SIZES[unit]}{unit}"
    return str(size)


def show_duration(seconds: float) -> str:
    """In the largest unit that it is a whole number of: ``10s``, ``50ms``, ``2h``; else in seconds."""
    milliseconds = round(seconds * 1000)
    if milliseconds and milliseconds / 1000 == seconds:
        for unit, factor in DURATIONS.items():
            if milliseconds % factor == 0:
                return f"{milliseconds // factor}{unit}"
    return f"{seconds:.12f}".rstrip("0").rstrip(".") + "s"


def _ratio(found: re.Match[str]) -> tuple[int, int]:
    """Numerator and denominator of the number that groups 1 and 2 are, exactly."""
    fraction = found[2] or ""
    return int(found[1].replace("_", "") + fraction), 10 ** len(fraction)
