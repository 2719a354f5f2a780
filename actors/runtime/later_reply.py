"""A handler's answer that is not known, or may not be told, yet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from actors.errors import ActorError

if TYPE_CHECKING:
    import pykka


@dataclass(eq=False, repr=False, slots=True)
class LaterReply:
    """Returned by a handler: whoever asked gets the value that ``set`` is given, whenever that is.

    To a message that was told it makes no difference. A handler that returns one sees to it that it is set, or failed, in the end.
    """

    _reply_to: pykka.Future[Any] | None = None
    _settled: bool = False
    _value: Any = None
    _error: BaseException | None = None

    def set(self, value: Any) -> None:
        """Answer with ``value``; only the first answer counts."""
        if not self._settled:
            self._settled = True
            self._value = value
            self._deliver()

    def fail(self, error: BaseException) -> None:
        """Have the ask raise ``error``."""
        if not self._settled:
            self._settled = True
            self._error = error
            self._deliver()

    def answer_to(self, reply_to: pykka.Future[Any]) -> None:
        """The future of whoever asked; called once, by the actor runtime."""
        if self._reply_to is not None:
            raise ActorError("a later reply answers one ask: return a new one for each message")
        self._reply_to = reply_to
        if self._settled:
            self._deliver()

    def _deliver(self) -> None:
        if self._reply_to is None:
            return
        if self._error is None:
            self._reply_to.set(self._value)
        else:
            self._reply_to.set_exception((type(self._error), self._error, self._error.__traceback__))
