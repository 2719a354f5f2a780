"""Streams of bytes over TCP, for programs that speak a protocol of their own."""

from __future__ import annotations

from lazy_loader import attach_stub

# What is given here is in __init__.pyi, and is loaded when it is asked for.
__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
