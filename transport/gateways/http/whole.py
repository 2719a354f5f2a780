"""An answer that goes out whole, head and body in one write: what nearly every request of a program is answered with.

aiohttp prepares any answer there may be: chunked, compressed, with cookies, of a version of before. This one is none of them, so nothing of
that is asked. The head is still written by aiohttp, which refuses what is no header.
"""

from __future__ import annotations

import time
from email.utils import formatdate
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from aiohttp import HttpVersion11, web
from multidict import CIMultiDict

if TYPE_CHECKING:
    from collections.abc import Mapping

LINES: Final = {200: f"HTTP/1.1 200 {HTTPStatus(200).phrase}", 201: f"HTTP/1.1 201 {HTTPStatus(201).phrase}"}
"""Of the statuses that it may have: those with a body, for whoever asked for it."""


class Whole(web.StreamResponse):
    """The answer to a request of which `fits` is true.

    Args:
        status: one of `LINES`.
        headers: of the answer, without those that say what the body is.
        content_type: of the body.
        body: as it is.
    """

    def __init__(self, status: int, headers: Mapping[str, str], content_type: str, body: bytes) -> None:
        super().__init__(status=status)
        self._head = CIMultiDict(headers)
        self._head["Content-Type"] = content_type
        self._head["Content-Length"] = str(len(body))
        self._head["Date"] = _date()
        self._text = body
        self._written = False

    @staticmethod
    def fits(request: web.BaseRequest, status: int) -> bool:
        """Whether a request can be answered so: HTTP/1.1, no HEAD, and a status with a body."""
        return status in LINES and request.method != "HEAD" and request.version == HttpVersion11

    @property
    def body_length(self) -> int:
        """As of aiohttp."""
        return len(self._text)

    async def prepare(self, request: web.BaseRequest) -> None:
        """Write it; aiohttp asks once more, and uses nothing of it."""
        if self._written:
            return
        self._written = True
        if self.keep_alive is None:
            self._keep_alive = request.keep_alive
        if not self._keep_alive:
            self._head["Connection"] = "close"
        writer = request.writer
        await writer.write_headers(LINES[self.status], self._head)
        await writer.write_eof(self._text)

    async def write_eof(self, data: bytes = b"") -> None:
        """It is written already."""
        assert not data, "it is whole"


def _date() -> str:
    """The time as a header has it (RFC 9110, 5.6.7), made once a second."""
    now = int(time.time())
    if _said[0] != now:
        _said[:] = now, formatdate(now, usegmt=True)
    return str(_said[1])


_said: Final[list[int | str]] = [0, ""]
