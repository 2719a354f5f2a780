"""What a consumer's program gives is looked at here, where several options are of a kind."""

from __future__ import annotations

from transport.errors import LocalProtocolError


def positive(name: str, value: int) -> int:
    """A number of one or more; raises LocalProtocolError."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise LocalProtocolError(f"{name} is {value!r:.40}; it is a whole number, 1 or more")
    return value
