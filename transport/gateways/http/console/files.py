"""The files of the console, as they lie in ``static/``: those of a list, and nothing else of the disk.

A browser is told to run and load nothing but what comes from here (Content Security Policy, level 3), and to show it in no frame.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import Final

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
def read(name: str) -> tuple[bytes, str]:
    """A file of the list, and the mark of what is in it (an ETag)."""
    content = (FOLDER / name).read_bytes()
    return content, f'"{hashlib.sha256(content).hexdigest()[:32]}"'
