"""An answer that goes out whole, head and body in one write: what nearly every request of a program is answered with.

aiohttp prepares any answer there may be: chunked, compressed, with cookies, of a version of before. This one is none of them, so nothing of
that is asked. Most have no headers but those of every answer, so that all of their heads but two lines is made once. Other heads are
written by aiohttp, which refuses what is no header.
"""

from __future__ import annotations

import time
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from aiohttp import HttpVersion11, web
from multidict import CIMultiDict

from transport.gateways.http.answers import ALWAYS

if TYPE_CHECKING:
    from collections.abc import Mapping

LINES: Final = {200: f"HTTP/1.1 200 {HTTPStatus(200).phrase}", 201: f"HTTP/1.1 201 {HTTPStatus(201).phrase}"}
"""Of the statuses that it may have: those with a body, for whoever asked for it."""
MOST_JOINED: Final = 64 * 1024
"""Bytes of a body that is copied behind its head. A larger one is written beside it."""
MOST_HEADS: Final = 32
"""First lines that are kept: one for each status and type of body, of which there are a few."""


class Whole(web.StreamResponse):
    """The answer to a request of which `fits` is true.

    Args:
        status: one of `LINES`.
        headers: of the answer, beside those of every answer and those that say what the body is.
        content_type: of the body.
        body: as it is.
    """

    def __init__(self, status: int, headers: Mapping[str, str], content_type: str, body: bytes) -> None:
        super().__init__(status=status)
        self._own = headers
        self._type = content_type
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
        writer = request.writer
        if self._keep_alive and not self._own and len(self._text) <= MOST_JOINED:
            last = f"Content-Length: {len(self._text)}\r\nDate: {_date()}\r\n\r\n"
            await writer.write(b"".join((_first_lines(self.status, self._type), last.encode(), self._text)))
            await writer.write_eof()
            return
        await writer.write_headers(LINES[self.status], self._head())
        await writer.write_eof(self._text)

    def _head(self) -> CIMultiDict[str]:
        head = CIMultiDict(ALWAYS | dict(self._own))
        head["Content-Type"] = self._type
        head["Content-Length"] = str(len(self._text))
        head["Date"] = _date()
        if not self._keep_alive:
            head["Connection"] = "close"
        return head

    async def write_eof(self, data: bytes = b"") -> None:
        """It is written already."""
        assert not data, "it is whole"


@lru_cache(MOST_HEADS)
def _first_lines(status: int, content_type: str) -> bytes:
    lines = [LINES[status], *(f"{name}: {value}" for name, value in ALWAYS.items()), f"Content-Type: {content_type}"]
    return "".join(f"{line}\r\n" for line in lines).encode()


def _date() -> str:
    """The time as a header has it (RFC 9110, 5.6.7), made once a second."""
    now = int(time.time())
    if _said[0] != now:
        _said[:] = now, formatdate(now, usegmt=True)
    return str(_said[1])


_said: Final[list[int | str]] = [0, ""]
