"""Supervision: what a stage does when the user's function fails on an element. Stop, go on without it, or begin anew.

A decider is asked with the failure, for each failure; `with_supervision` gives it to the stages in front of it.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum


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


def decide(decider: Decider, error: Exception) -> Directive:
    """What ``decider`` answers.

    Raises:
        TypeError: it has not answered with a `Directive`.
    """
    directive = decider(error)
    if not isinstance(directive, Directive):
        raise TypeError(f"with_supervision: the decider must return a Directive, not {type(directive).__name__}")
    return directive
