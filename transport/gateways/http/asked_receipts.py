"""Which receipts a request names."""

from __future__ import annotations

from typing import Any, Final

from transport.gateways.http.problems import ProblemError

MAX_RECEIPTS: Final = 1_000
"""Of one request, as many as one takes."""


def receipts_of(asked: dict[str, Any]) -> list[str]:
    """The receipts of a body, each once."""
    one, many = asked.get("receipt"), asked.get("receipts")
    if (one is None) is (many is None):
        raise ProblemError("protocol-error", "the body has a receipt, or receipts: one of both")
    texts = [one] if many is None else many
    if not isinstance(texts, list) or not all(isinstance(each, str) and each.isascii() for each in texts):
        raise ProblemError("protocol-error", "receipts are texts, as a take gave them")
    if not 1 <= len(texts) <= MAX_RECEIPTS:
        raise ProblemError("protocol-error", f"{len(texts)} receipts: 1 to {MAX_RECEIPTS} are possible")
    return list(dict.fromkeys(texts))
