"""Operators that send elements to other sinks beside the stream."""

from __future__ import annotations

from streams.operators.via import Via


class FanOutOperators(Via):
    """Operators that send elements to other sinks beside the stream."""
