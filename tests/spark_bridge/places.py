"""Offsets for tests that are about positions: of any queue, as those were that old checkpoints have."""

from __future__ import annotations

from typing import Any


class Place(dict[str, Any]):
    """Equal to every offset with the same subscription and positions, whatever queue they are of."""

    def __init__(self, positions: int | dict[str, int], subscription: str = "s") -> None:
        super().__init__({"s": subscription, "pos": positions})

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, dict):
            return NotImplemented
        return all(self[key] == other.get(key) for key in self)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]  # mutable
