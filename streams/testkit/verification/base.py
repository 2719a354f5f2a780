"""What all verifications share: where their tests run, how long they wait, and what makes a test of a coroutine."""

from __future__ import annotations

import asyncio
import inspect
import unittest
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, NoReturn, TypeVar

from streams.testkit.verification.environment import Environment, RunawayError, fail
from streams.testkit.virtual_time import run_in_virtual_time

V = TypeVar("V", bound="Verification")
T = TypeVar("T")


class Verification:
    """The base of all verifications; a subclass whose name begins with ``Test`` is what pytest collects.

    Attributes:
        timeout: seconds of the loop's time within which a signal must come.
        silence: seconds of the loop's time for which nothing may come. Virtual time costs nothing; on a real loop choose it small.
        strict: what the rules only recommend or allow must hold too; else a test named ``optional`` that fails is skipped.
        env: what the running test runs in.
    """

    timeout: float = 3.0
    silence: float = 1.0
    strict: bool = False

    env: Environment
    _lost_error_rule = "1.4"

    def run(self, coro: Coroutine[Any, Any, Any]) -> Any:
        """Runs a test's coroutine. Override with ``asyncio.run`` where sockets, threads or files take part: virtual time outruns them."""
        return run_in_virtual_time(coro)

    async def tear_down(self) -> None:
        """Called on the loop after each test: close here what the hooks have opened."""

    def _verify(self, check: Callable[[], Awaitable[None]]) -> None:
        """Runs one test."""

        async def main() -> None:
            self.env = env = Environment(self.timeout, self.silence, self._lost_error_rule)
            try:
                try:
                    await check()
                except (RunawayError, asyncio.CancelledError):
                    env.verify()
                    raise
                env.verify()
            finally:
                await self.tear_down()
                env.close()

        self.run(main())


def skip(reason: str) -> NoReturn:
    """Skips the running test.

    Raises:
        unittest.SkipTest: always; pytest takes it for its own, and the kit needs no pytest to be imported.
    """
    raise unittest.SkipTest(reason)


def not_tested(reason: str) -> Callable[[V], None]:
    """A test of a rule with nothing to test: it is skipped with the reason, so that the list of rules is whole."""

    def test(_self: V) -> None:
        skip(f"nothing to test: {reason}")

    test.__doc__ = f"Not tested: {reason}."
    return test


def checks(body: Callable[[V], Awaitable[None]]) -> Callable[[V], None]:
    """Makes a test of a coroutine method."""

    def test(self: V) -> None:
        self._verify(lambda: body(self))

    return named_as(test, body)


def optional(test: Callable[[V], None]) -> Callable[[V], None]:
    """Makes a failure of ``test`` a skip, unless the verification is ``strict``: the rules do not insist on what it tests."""

    def lenient(self: V) -> None:
        try:
            test(self)
        except AssertionError as failure:
            if self.strict:
                raise
            skip(f"what is tested does not do this, and need not: {failure}")

    return named_as(lenient, test)


def named_as(test: Callable[[V], None], body: Callable[..., Any]) -> Callable[[V], None]:
    """Gives ``test`` the name and the docstring of ``body``, but not its signature: pytest would look for fixtures."""
    test.__name__ = body.__name__
    test.__qualname__ = body.__qualname__
    test.__doc__ = body.__doc__
    test.__module__ = body.__module__
    return test


async def made(thing: T | Awaitable[T]) -> T:
    """What a hook has made, whether it is a coroutine function or not."""
    return await thing if inspect.isawaitable(thing) else thing


def refuses_none(call: Callable[[Any], None], rule: str, what: str) -> None:
    """Checks that ``call(None)`` raises TypeError: the rules' NullPointerException.

    Raises:
        AssertionError: it does not, or raises something else.
    """
    try:
        call(None)
    except TypeError:
        return
    except Exception as error:  # noqa: BLE001 - whatever it is, it is not what the rule wants
        fail(rule, f"{what}(None) must raise TypeError, but raised {error!r}")
    fail(rule, f"{what}(None) must raise TypeError, but returned")
