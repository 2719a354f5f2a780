"""The transport's errors in words for the one who reads a failed query's stack trace."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from spark_bridge.errors import WriteError
from transport import (
    DEFAULT_SEND_ADDRESS,
    BrokerError,
    ConnectionLostError,
    DemandTimeoutError,
    StageLostError,
    TransportError,
)

_HINTS = {
    "unknown-role": (
        f"Option brokers takes the sending address of a broker, {DEFAULT_SEND_ADDRESS} by default; "
        "this may be its receiving one."
    ),
    "transaction-incomplete": (
        "Spark writes the batch again when the query is started again. "
        "If writing one takes longer than the broker's transaction_timeout, raise that."
    ),
    "transaction-too-large": (
        "Let a batch read less (maxRowsPerBatch, maxBytesPerBatch), or raise the queue's limit of what is staged."
    ),
}
"""Wire code -> what to do about it."""


@contextmanager
def explained(doing: str) -> Iterator[None]:
    """Raise WriteError for what the transport raises.

    Args:
        doing: what was being done: "writing to queue 'q'".
    """
    try:
        yield
    except TransportError as error:
        raise WriteError(_sentence(doing, error), _code(error)) from error


def _code(error: TransportError) -> str:
    return error.code if isinstance(error, BrokerError | DemandTimeoutError | StageLostError) else ""


def _sentence(doing: str, error: TransportError) -> str:
    hint = _HINTS.get(_code(error), "")
    if isinstance(error, ConnectionLostError):
        hint = "Option brokers must name the sending address of the broker, as the tasks reach it."
    return f"{doing}: {error}. {hint}".rstrip(" .") + "."
