"""Supervision: what a stage does when the user's function fails on an element. Stop, go on without it, or begin anew.

A decider is asked with the failure, for each failure; `with_supervision` gives it to the stages in front of it.

An element may know for itself what is to become of it: a message, say, that goes back to its queue. If its class has
``__failed_on__(element, error)``, that is called with what a function of an element has raised. If it is true, the element has dealt with
the error, and the stage goes on without it, as with RESUME. A decider goes first: where it says STOP, the element is not asked.
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


def dealt_with(element: Any, error: BaseException) -> bool:
    """Whether ``element``, on which a function has failed, has seen to what becomes of it."""
    failed_on = getattr(type(element), "__failed_on__", None)
    return failed_on is not None and isinstance(error, Exception) and bool(failed_on(element, error))


def judge(decider: Decider | None, error: BaseException, function: Any, element: Any = None) -> Verdict:
    """What ``decider`` says about ``error`` of the user's ``function``, given ``element``; where none holds, the stream stops.

    A decider that fails, or answers with no `Directive`, cannot have wanted the stream to go on: the failure is its own then.
    """
    if decider is None or not isinstance(error, Exception):
        try:
            return Verdict(Directive.RESUME if dealt_with(element, error) else Directive.STOP, error, function)
        except FAILURES as fault:
            return Verdict(Directive.STOP, fault, function)
    try:
        directive = decider(error)
        if not isinstance(directive, Directive):
            raise TypeError(f"with_supervision: the decider must return a Directive, not {type(directive).__name__}")
        if directive is not Directive.STOP:
            dealt_with(element, error)
    except FAILURES as fault:
        return Verdict(Directive.STOP, fault, decider)
    return Verdict(directive, error, function)
