"""Whether the process lives, and whether the broker is ready: for whoever starts, watches and stops it. Nobody is asked who they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from transport.gateways.http import described
from transport.gateways.http.answers import Answer
from transport.gateways.http.problems import ProblemError
from transport.gateways.http.routes import Route
from transport.gateways.http.shapes import answers

if TYPE_CHECKING:
    from transport.gateways.http.routes import Call


async def alive(_call: Call) -> Answer:
    """The process answers."""
    return Answer({"status": "alive"})


async def ready(call: Call) -> Answer:
    """The broker can be used."""
    if (reason := call.operations.unready()) is not None:
        raise ProblemError(*reason)
    return Answer({"status": "ready"})


ROUTES: Final = (
    Route(
        "GET",
        "/health/live",
        None,
        "Whether the process answers.",
        alive,
        open=True,
        answers=answers(described.ALIVE),
    ),
    Route(
        "GET",
        "/health/ready",
        None,
        "Whether the broker can be used.",
        ready,
        open=True,
        answers=answers(described.READY),
        refuses=frozenset({"journal-failed", "not-leader"}),
    ),
)
