"""A broker for the tests of programs that use one, and the pytest plugin that gives it; docs/testing.md shows how it is used."""

from __future__ import annotations

from lazy_loader import attach_stub

# What is given here is in __init__.pyi, and is loaded when it is asked for.
__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
