"""What becomes of a message that a consumer's handler fails on: as with a receiver, and dead letters that a handler asks for."""

from __future__ import annotations

import logging
from collections.abc import Callable

from transport.clients.delivery import no_dead_letters
from transport.clients.handler_failures import RETURN, Answerable, HandlerFailures
from transport.errors import DeadLetterError, HandlerProcessError
from transport.wire.field_checks import MAX_REASON_BYTES

logger = logging.getLogger("penstock.consumer")


class NoProcessError(HandlerProcessError):
    """There is no process for the handler: the message was not tried, and the consumer ends."""


class ConsumerFailures(HandlerFailures):
    """The failures of one handler; `DeadLetterError` makes a dead letter whatever ``on_failure`` says.

    Attributes:
        needed_by: what cannot do without dead letters, for the error at the start; None for nothing.
        answered: called with a message that has failed, and whether it was given back to be tried again.
    """

    needed_by: str | None = None
    answered: Callable[[Answerable, bool], None] | None = None
    _dead_letters = False
    _warned = False

    def refusal(self, queue: str, dead_letters: bool) -> str | None:
        """As of a receiver; a handler that decodes needs dead letters, too."""
        self._dead_letters = dead_letters
        if dead_letters:
            return None
        if self.needed_by is not None:
            return no_dead_letters(queue, self.needed_by)
        if self.on_failure == RETURN and not self._warned:
            self._warned = True
            logger.warning(
                "queue %s keeps no dead letters: unless it drops what fails (drop_failed), a message that always fails comes again "
                "for ever. Bound it: penstock queue alter %s --max-receives 5",
                queue,
                queue,
            )
        return super().refusal(queue, dead_letters)

    def __call__(self, message: Answerable, error: Exception) -> bool:
        """As of a receiver. Where the queue keeps no dead letters, `DeadLetterError` is a failure like any other."""
        if isinstance(error, NoProcessError):
            message.__untaken__()
            return False
        if isinstance(error, DeadLetterError) and self._dead_letters:
            self.reject(
                message,
                error.__cause__ if isinstance(error.__cause__, Exception) else error,
                reason_within(error.reason),
            )
            goes_on, again = True, False
        else:
            goes_on = super().__call__(message, error)
            again = goes_on and self.on_failure == RETURN
        if self.answered is not None:
            self.answered(message, again)
        return goes_on


def reason_within(reason: str) -> str:
    """As much of it as a dead letter's header holds."""
    return reason.encode(errors="replace")[:MAX_REASON_BYTES].decode(errors="ignore")
