"""The words for true and false, the same in the settings, the environment and the options of Spark."""

from __future__ import annotations

from typing import Final

TRUE: Final = ("true", "yes", "on", "1")
FALSE: Final = ("false", "no", "off", "0")


def parse_flag(text: str) -> bool:
    """True or False, whatever the case. Raises ValueError saying what was expected."""
    word = text.strip().lower()
    if word not in TRUE + FALSE:
        raise ValueError(f"{text!r:.60} is neither true nor false")
    return word in TRUE
