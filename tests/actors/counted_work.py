"""How much a queue does in one go, counted: bytecode instructions of its own code, which no other work of the machine changes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from actors.batch import MessageBatch
from actors.queue.vocabulary.settings import QueueSettings
from tests.actors.driven import empty_log
from tests.actors.taking import TakerState

PRODUCT = tuple(str(Path(__file__).resolve().parents[2] / package) for package in ("actors", "journal"))
LARGE = 10**12


def instructions(work: Callable[[], object]) -> int:
    """How many the product's code takes for it; what is done in C (a sort, a bisection) is one of them."""
    counted = 0

    def trace(frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal counted
        if not frame.f_code.co_filename.startswith(PRODUCT):
            return None
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        counted += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return counted


def queue_of(settings: QueueSettings | None = None) -> TakerState:
    """A queue in memory with a sender ``s``, which may send whatever it likes."""
    settings = settings or QueueSettings()
    queue = TakerState("q", 0, settings, log=empty_log(settings))
    queue.attach_sender("s", None)
    queue.request_capacity("s", 10**6, LARGE)
    queue.take_effects()
    return queue


def send(queue: TakerState, messages: int = 1, now: float = 0.0, **options: Any) -> None:
    """One batch of so many messages is sent and stored."""
    queue.send(
        "s", queue.log.next_sequence, MessageBatch.from_payloads([b"x"] * messages), now, round(now * 10**6), **options
    )
    queue.take_effects()
