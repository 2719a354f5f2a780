"""Operators that make streams of a stream, or a stream of streams."""

from __future__ import annotations

from streams.operators.via import Via


class SubstreamOperators(Via):
    """Operators that make streams of a stream, or a stream of streams."""
