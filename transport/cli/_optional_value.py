"""Options whose value may be left out: ``--watch`` and ``--watch 5``. The parser knows only options with a value and without."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

WATCH: Final = "--watch"
DEFAULT_SECONDS: Final = 2.0
"""Between two looks; as the program ``watch`` has it."""
MIN_SECONDS: Final = 0.1
MAX_SECONDS: Final = 3600.0
UNSAID: Final = {WATCH: f"{DEFAULT_SECONDS:g}"}
"""The options, and the value of each where none is said."""


def say_values(arguments: Sequence[str]) -> list[str]:
    """``arguments`` in which each of these options has its value: the time behind it, or its default."""
    said: list[str] = []
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if word == "--":
            return [*said, word, *rest]
        if word in UNSAID:
            word = f"{word}={rest.pop(0) if rest and _is_time(rest[0]) else UNSAID[word]}"
        said.append(word)
    return said


def _is_time(word: str) -> bool:
    from transport.config.units import parse_duration  # noqa: PLC0415 - where one is given

    try:
        parse_duration(word)
    except ValueError:
        return False
    return True
