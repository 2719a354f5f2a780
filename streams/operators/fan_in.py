"""Operators whose elements meet those of other sources: one by one (`merging`), or made into one (`zipping`)."""

from __future__ import annotations

from streams.operators.merging import MergeOperators
from streams.operators.zipping import ZipOperators


class FanInOperators(MergeOperators, ZipOperators):
    """Operators whose elements meet those of other sources."""
