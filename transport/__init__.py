"""Framed TCP between the queue's actors and the programs that use them; docs/protocol.md is the protocol."""

from __future__ import annotations

# First of all, while what is wrong can still be said.
from transport import _ours as _ours

# isort: split

from lazy_loader import attach_stub

# What is given here is in __init__.pyi, and is loaded when it is asked for.
__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
