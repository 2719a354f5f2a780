"""How the command line writes numbers, sizes, rates and times for people: one way, everywhere.

``12,345`` messages, ``1.5 MiB``, ``350 ms``, ``2 h 5 min``. Sizes and times that are written here can be typed where an option takes
one. Programs want figures as they are: they take ``--json``.
"""

from __future__ import annotations

from itertools import pairwise

from transport.config.units import SIZES

UNKNOWN = "-"
"""What is written where a figure is not known, or there is none."""
SIZE_UNITS = ("KiB", "MiB", "GiB", "TiB")
TIME_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
"""Seconds each, the longest first."""
EXACT_BELOW = 10
"""Below this a figure with a unit has one decimal, for there the next whole number is far away."""


def count(number: int) -> str:
    """A whole number: ``12,345``."""
    return f"{number:,}"


def counted(number: int, one: str, many: str = "") -> str:
    """A number of things: ``1 queue``, ``12,345 queues``."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def size(count_of_bytes: float) -> str:
    """A number of bytes in the largest unit of 1024 that it fills: ``512 B``, ``1.5 MiB``."""
    if abs(count_of_bytes) < SIZES[SIZE_UNITS[0]]:
        return f"{_decimal(count_of_bytes)} B"
    for unit in reversed(SIZE_UNITS):
        # What would round up to 1,024.0 of a unit is 1.0 of the next.
        if abs(count_of_bytes) >= SIZES[unit] * (1 - 0.05 / 1024) or unit == SIZE_UNITS[0]:
            return f"{_decimal(count_of_bytes / SIZES[unit])} {unit}"
    raise AssertionError("the last unit is taken in any case")


def rate(per_second: float) -> str:
    """A number a second, without the unit: ``12,345``, ``2.5``, ``0.01``."""
    if not per_second:
        return "0"
    if per_second < 0.1:
        return f"{per_second:.2f}" if per_second >= 0.005 else "<0.01"
    return _decimal(per_second) if per_second < EXACT_BELOW else f"{per_second:,.0f}"


def duration(seconds: float) -> str:
    """A time in its two largest units, or below ten seconds with one decimal: ``350 ms``, ``1.5 s``, ``2 h 5 min``, ``3 d 4 h``."""
    if seconds < 0:
        return f"-{duration(-seconds)}"
    milliseconds = seconds * 1000
    if milliseconds < 999.5:
        return f"{_decimal(milliseconds)} ms" if milliseconds else "0 s"
    if seconds < EXACT_BELOW - 0.05:
        return f"{_decimal(seconds)} s"
    whole = round(seconds)
    for (unit, factor), (less, divisor) in pairwise(TIME_UNITS):
        if whole >= factor:
            rest = whole % factor // divisor
            return f"{whole // factor:,} {unit}" + (f" {rest} {less}" if rest else "")
    return f"{whole} s"


def ago(seconds: float) -> str:
    """When something was: ``2 h 5 min ago``."""
    return f"{duration(max(0, int(seconds)))} ago"


def instant(microseconds: int) -> str:
    """A time of day, given as microseconds since the epoch: ``2026-11-27 12:00:00 UTC``."""
    from datetime import UTC, datetime  # noqa: PLC0415 - not needed for --help

    return f"{datetime.fromtimestamp(microseconds // 1_000_000, UTC):%Y-%m-%d %H:%M:%S} UTC"


def truth(value: bool) -> str:
    """``yes`` or ``no``."""
    return "yes" if value else "no"


def milliseconds(number: float) -> str:
    """A time that is given in milliseconds."""
    return duration(number / 1000)


def _decimal(number: float) -> str:
    """With one decimal where that tells something: ``1.5``, ``64``, ``250``."""
    text = f"{number:,.1f}"
    return text.removesuffix(".0")
