"""What a request is answered with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


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
    """

    body: Any = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = "application/json"
    reached: Callable[[], None] = lambda: None
    lost: Callable[[], None] = lambda: None
