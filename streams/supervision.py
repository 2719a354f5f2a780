"""Supervision: what a stage does when the user's function fails on an element. Stop, go on without it, or begin anew.

A decider is asked with the failure, for each failure; `with_supervision` gives it to the stages in front of it.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, NamedTuple

from streams.errors import FAILURES


class Directive(Enum):
    """What becomes of a stage whose function has failed."""

    STOP = "stop"
    """The stream fails: what happens without a decider."""
    RESUME = "resume"
    """The element is dropped and another is asked for in its place; the stage keeps its state."""
    RESTART = "restart"
    """The element is dropped, and the stage begins anew: what it has gathered is gone."""


Decider = Callable[[Exception], Directive]
"""Says what to do about a failure."""


class Supervision:
    """Deciders that answer every failure alike."""

    @staticmethod
    def stopping(_error: Exception) -> Directive:
        """The stream fails."""
        return Directive.STOP

    @staticmethod
    def resuming(_error: Exception) -> Directive:
        """The element is dropped."""
        return Directive.RESUME

    @staticmethod
    def restarting(_error: Exception) -> Directive:
        """The element is dropped, and the stage begins anew."""
        return Directive.RESTART


class Verdict(NamedTuple):
    """What is done about a failure.

    Attributes:
        directive: what becomes of the stage.
        error: what the stream fails with, where that is to stop.
        function: what has raised it.
    """

    directive: Directive
    error: BaseException
    function: Any


def judge(decider: Decider | None, error: BaseException, function: Any) -> Verdict:
    """What ``decider`` says about ``error`` of the user's ``function``; where none holds, the stream stops.

    A decider that fails, or answers with no `Directive`, cannot have wanted the stream to go on: the failure is its own then.
    """
    if decider is None or not isinstance(error, Exception):
        return Verdict(Directive.STOP, error, function)
    try:
        directive = decider(error)
        if not isinstance(directive, Directive):
            raise TypeError(f"with_supervision: the decider must return a Directive, not {type(directive).__name__}")
    except FAILURES as fault:
        return Verdict(Directive.STOP, fault, decider)
    return Verdict(directive, error, function)
