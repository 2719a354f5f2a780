"""Errors as RFC 9457 has them: a JSON object of the media type ``application/problem+json``, with the wire's codes."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from actors import QueueError, StorageError
from transport.errors import TransportError
from transport.gateways.http.answers import Answer

if TYPE_CHECKING:
    from collections.abc import Mapping

STATUSES: Final[Mapping[str, int]] = {
    "already-exists": 409,
    "authentication-failed": 401,
    "authentication-required": 401,
    "change-refused": 409,
    "demand-exceeded": 503,
    "expectation-failed": 417,
    "forbidden": 403,
    "foreign-receipt": 409,
    "frame-too-large": 413,
    "in-use": 409,
    "internal-error": 500,
    "invalid-name": 400,
    "invalid-receipt": 400,
    "journal-failed": 503,
    "limit-exceeded": 429,
    "method-not-allowed": 405,
    "misdirected": 421,
    "no-cluster": 404,
    "not-found": 404,
    "not-leader": 503,
    "protocol-error": 400,
    "queue-deleted": 404,
    "queue-full": 503,
    "receipt-expired": 409,
    "receipt-gone": 410,
    "shutting-down": 503,
    "stale-epoch": 409,
    "stale-receipt": 410,
    "subscription-owned": 409,
    "timeout": 504,
    "too-slow": 408,
    "unsupported-media-type": 415,
    "upgrade-required": 426,
}
"""The status of each code; of one that is not here 400."""
RETRY_SECONDS: Final[Mapping[str, int]] = {
    "queue-full": 1,
    "limit-exceeded": 1,
    "not-leader": 1,
    "shutting-down": 5,
    "journal-failed": 30,
}
"""Codes behind which the same request may succeed, and after how long to try it."""
MEDIA_TYPE: Final = "application/problem+json"
CHALLENGE: Final = 'Basic realm="penstock", charset="UTF-8", Bearer realm="penstock"'


class ProblemError(TransportError):
    """A request cannot be carried out, and is answered so.

    Args:
        code: the wire's, or one of HTTP's own.
        text: why, and what to do.
        more: what stands beside it in the answer.
        headers: of the answer.
    """

    def __init__(
        self, code: str, text: str, more: Mapping[str, Any] | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(text)
        self.code = code
        self.more = more or {}
        self.headers = headers or {}


def known(error: Exception) -> ProblemError | None:
    """What an error is to a client; None for a defect of ours."""
    if isinstance(error, ProblemError):
        return error
    if isinstance(error, QueueError | TransportError):
        return ProblemError(error.code, str(error))
    if isinstance(error, StorageError):
        return ProblemError("journal-failed", f"the broker can store nothing any more and stops: {error}")
    if isinstance(error, TimeoutError):
        return ProblemError("timeout", "the queue has not answered in time")
    return None


def answer(problem: ProblemError, status: int | None = None) -> Answer:
    """The answer that tells of it; its code says the status, where none is given."""
    status = status or STATUSES.get(problem.code, 400)
    headers = dict(problem.headers)
    if status == 401:
        headers.setdefault("WWW-Authenticate", CHALLENGE)
    if (seconds := RETRY_SECONDS.get(problem.code)) is not None:
        headers.setdefault("Retry-After", str(seconds))
    body = {
        "type": "about:blank",
        "title": problem.code,
        "status": status,
        "detail": str(problem),
        "code": problem.code,
    }
    return Answer(json.dumps(body | dict(problem.more)).encode(), status, headers, MEDIA_TYPE)


def bare(problem: ProblemError, status: int | None = None) -> bytes:
    """`answer` as it is written to a connection on which there is no request to answer, or that is about to end; it ends behind it."""
    said = answer(problem, status)
    lines = {
        **said.headers,
        "Content-Type": said.content_type,
        "Content-Length": str(len(said.body)),
        "Connection": "close",
    }
    first = f"HTTP/1.1 {said.status} {HTTPStatus(said.status).phrase}"
    head = "\r\n".join((first, *(f"{name}: {value}" for name, value in lines.items())))
    body: bytes = said.body
    return f"{head}\r\n\r\n".encode() + body
