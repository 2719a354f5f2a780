"""Operators about time: pace, delay and time-outs."""

from __future__ import annotations

from streams.operators.via import Via


class TimingOperators(Via):
    """Operators about time: pace, delay and time-outs."""
