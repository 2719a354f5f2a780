"""Actors on an event loop, and the queue they make: the queue actor, and one actor for each connection to it."""

from __future__ import annotations

# First of all, while what is wrong can still be said.
from actors import _ours as _ours

# isort: split

from lazy_loader import attach_stub

# What is given here is in __init__.pyi, and is loaded when it is asked for.
__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
