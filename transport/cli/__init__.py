"""The command ``penstock``: a thin shell over the broker and its clients. docs/cli.md is its reference."""

from transport.cli.app import main

__all__ = ["main"]
