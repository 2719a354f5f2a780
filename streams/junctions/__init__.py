"""Junctions: the parts of a graph that have several inputs or outputs, for `streams.GraphBuilder`."""

from __future__ import annotations

from lazy_loader import attach_stub

# What is given here is in __init__.pyi, and is loaded when it is asked for.
__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
