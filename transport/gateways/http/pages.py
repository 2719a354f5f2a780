"""The console's files as answers: each from an address of its own, and not again to who has it already."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from transport.gateways.http.answers import Answer
from transport.gateways.http.console.files import FILES, HEADERS, INDEX, TYPES, read
from transport.gateways.http.routes import Call, Route

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


def _is_known(asked: str, mark: str) -> bool:
    """Whether If-None-Match has the mark (RFC 9110, 13.1.2)."""
    return asked.strip() == "*" or mark in [each.strip().removeprefix("W/") for each in asked.split(",")]


def _file(name: str) -> Callable[[Call], Awaitable[Answer]]:
    async def answer(call: Call) -> Answer:
        content, mark = read(name)
        headers = HEADERS | {"ETag": mark}
        if _is_known(call.request.headers.get("If-None-Match", ""), mark):
            return Answer(None, 304, headers)
        return Answer(content, 200, headers, TYPES[Path(name).suffix])

    return answer


def _path(name: str) -> str:
    return "/" if name == INDEX else f"/console/{name}"


PAGES: Final = tuple(
    Route("GET", _path(name), None, f"The console's {name}.", _file(name), open=True) for name in FILES
)
"""Routes that are for browsers: no part of the API."""
