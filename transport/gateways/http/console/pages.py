"""The files of the console, as they lie in ``static/``: those of a list, and nothing else of the disk.

A browser is told to run and load nothing but what comes from here (Content Security Policy, level 3), and to show it in no frame.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from transport.gateways.http.answers import Answer
from transport.gateways.http.routes import Call, Route

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

FOLDER: Final = Path(__file__).resolve().parent / "static"
INDEX: Final = "index.html"
TYPES: Final = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
FILES: Final = (
    INDEX,
    "api.js",
    "app.js",
    "console.css",
    "dialogs.js",
    "dom.js",
    "flow.js",
    "format.js",
    "icon.svg",
    "journal.js",
    "lists.js",
    "messages.js",
    "native.js",
    "native_wire.js",
    "queue.js",
    "queues.js",
    "sparkline.js",
    "stream.js",
    "watch.js",
)
"""All there are; the page itself is at ``/``, the others below ``/console/``."""
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:;"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # A browser may keep it, and asks each time whether it is still the same.
    "Cache-Control": "no-cache",
}


@cache
def _read(name: str) -> tuple[bytes, str]:
    """A file of the list, and the mark of what is in it."""
    content = (FOLDER / name).read_bytes()
    return content, f'"{hashlib.sha256(content).hexdigest()[:32]}"'


def _is_known(asked: str, mark: str) -> bool:
    """Whether If-None-Match has the mark (RFC 9110, 13.1.2)."""
    return asked.strip() == "*" or mark in [each.strip().removeprefix("W/") for each in asked.split(",")]


def _file(name: str) -> Callable[[Call], Awaitable[Answer]]:
    async def answer(call: Call) -> Answer:
        content, mark = _read(name)
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
