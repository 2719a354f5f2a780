"""What one test of the kit runs in: its deadlines, and what was found to be against the rules while it ran."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import Any, Final, NoReturn

from streams.testkit.expectations import settle

RUNAWAY: Final = 100_000
"""Signals to one subscriber after which its sender is stopped by force: no test asks for nearly as many, and the loop may be starved."""


TOLD: Final = 10
"""Broken rules that are told of a test: what sends one signal too many often sends thousands."""


class RunawayError(BaseException):
    """Stops a sender that does not stop by itself; no Exception, because it may catch those and go on."""


def broken(rule: str, what: str) -> str:
    """How a broken rule is told, everywhere in the kit."""
    return f"Reactive Streams {rule}: {what}"


def told(signal: str, value: Any) -> str:
    """A signal in a message: ``on_next(5)``."""
    return f"{signal}({'' if value is None else repr(value)})"


def fail(rule: str, what: str) -> NoReturn:
    """Fails the test.

    Raises:
        AssertionError: always.
    """
    raise AssertionError(broken(rule, what))


class Environment:
    """The loop a test runs on, the deadlines it keeps, and the rules that were found broken.

    Args:
        timeout: seconds of the loop's time within which an expected signal must come.
        silence: seconds of the loop's time for which nothing may come where nothing may come.
        lost_error_rule: the rule that is broken when an error ends in the loop's exception handler.

    Attributes:
        loop: the running loop.
        violations: the rules broken so far, as text.
    """

    def __init__(self, timeout: float, silence: float, lost_error_rule: str) -> None:
        self.loop: Final = asyncio.get_running_loop()
        self.violations: list[str] = []
        self._lost_error_rule = lost_error_rule
        self._silence = silence
        self._task = asyncio.current_task()
        self._thread = threading.get_ident()
        self._timeout = timeout
        self._handler = self.loop.get_exception_handler()
        self.loop.set_exception_handler(self._lost)

    def close(self) -> None:
        """Gives the loop back its exception handler: what is lost after this is no longer this test's."""
        self.loop.set_exception_handler(self._handler)
        # A test's instance outlives it, and every task there is makes the end of each loop slower: asyncio looks through them all.
        self._task = None

    def violated(self, rule: str, what: str) -> None:
        """Notes a broken rule; the test fails at its next expectation."""
        if len(self.violations) < TOLD:
            self.violations.append(broken(rule, what))

    def verify(self) -> None:
        """Fails if a rule has been broken.

        Raises:
            AssertionError: one has.
        """
        if self.violations:
            raise AssertionError("\n".join(self.violations))

    def check_thread(self, rule: str, signal: str) -> bool:
        """Notes a signal that is not a call on the loop's thread; whether it is."""
        if threading.get_ident() == self._thread:
            return True
        self.violated(rule, f"{signal} was called on the thread {threading.current_thread().name}, not on the loop's")
        return False

    def wake(self, event: asyncio.Event) -> None:
        """Sets ``event``, from whichever thread."""
        if threading.get_ident() == self._thread:
            event.set()
        else:
            self.loop.call_soon_threadsafe(event.set)

    def run_away(self, rule: str, what: str) -> NoReturn:
        """Stops a sender that does not stop, and the test with it.

        Raises:
            RunawayError: always, into the sender.
        """
        self.violations.append(broken(rule, what))
        if self._task is not None:
            self.loop.call_soon_threadsafe(self._task.cancel)
        raise RunawayError(broken(rule, what))

    async def wait(self, event: asyncio.Event, rule: str, what: str) -> None:
        """Waits for ``event``, which is to come for ``what`` to happen.

        Raises:
            AssertionError: a rule has been broken, or the timeout has passed.
        """
        self.verify()
        try:
            async with asyncio.timeout(self._timeout):
                await event.wait()
        except TimeoutError:
            self.verify()
            fail(rule, f"expected {what}, but nothing came for {self._timeout:g} s")
        self.verify()

    async def quiet(self) -> None:
        """Lets the time pass for which nothing may come, and all that is ready run."""
        await settle(self._silence)

    async def quiet_until(self, event: asyncio.Event) -> None:
        """Waits for ``event``, but no longer than `quiet` does."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._silence):
                await event.wait()

    def _lost(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, RunawayError):
            return
        self.violated(self._lost_error_rule, f"an error was lost in the event loop: {context['message']}: {error!r}")
