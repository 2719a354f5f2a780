"""Sinks beside a stream, of each kind."""

from __future__ import annotations

from typing import Any

import pytest

from streams import Keep

KINDS = ["also_to", "divert_to", "wire_tap"]

every_kind = pytest.mark.parametrize("kind", KINDS)


def beside(kind: str, stream: Any, sink: Any, combine: Any = Keep.left) -> Any:
    """``stream`` with ``sink`` beside it; what is diverted are the odd numbers."""
    if kind == "divert_to":
        return stream.divert_to(sink, lambda n: n % 2, combine)
    return getattr(stream, kind)(sink, combine)
