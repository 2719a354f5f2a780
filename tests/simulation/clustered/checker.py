"""Judges what clients of a cluster have seen, as of a single broker that is killed now and then."""

from __future__ import annotations

from tests.simulation.checker import Checker


class ClusterChecker(Checker):
    """As ``Checker``."""
