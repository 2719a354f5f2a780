"""What a request is answered with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from aiohttp import web

ALWAYS: Final = {
    "Server": "penstock",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
}
"""Headers of every answer: it is what it says, nobody keeps it, and no page is told where it was."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a request is answered with.

    Attributes:
        body: JSON, as bytes or as what it stands for; None for no body.
        status: of HTTP.
        headers: of the answer.
        content_type: of the body.
        reached: called when the answer has been written; ``lost`` when it could not be.
        lost: as above.
        writes: writes the whole answer itself, in place of all the above: a stream. It returns when the stream is over.
    """

    body: Any = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = "application/json"
    reached: Callable[[], None] = lambda: None
    lost: Callable[[], None] = lambda: None
    writes: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]] | None = None
