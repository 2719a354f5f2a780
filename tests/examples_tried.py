"""How many examples a property test tries that has a number of its own: a part of them in the suite, all of them with `make soak`."""

from __future__ import annotations

from typing import Final

from hypothesis import settings

PART: Final = 3
FEWEST: Final = 8


def tried(examples: int) -> int:
    """``examples`` where each run tries others; every third of them where each tries the same."""
    return max(FEWEST, examples // PART) if settings.default.derandomize else examples
