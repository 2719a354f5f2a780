"""What a source gives, as a list."""

from __future__ import annotations

from typing import Any

from streams import Sink, Source


def collected(source: Source[Any]) -> list[Any]:
    return source.to(Sink.collect()).run_blocking()
