"""Penstock measured: real processes, real sockets, each figure beside its ceiling in the same run. ``python -m benchmarks --help``."""

from __future__ import annotations

from benchmarks._report import Figure, Report

__all__ = ["Figure", "Report"]
