"""Passwords that come as they are, as other protocols have them: each guess is a fifth of a second of a processor.

So they are checked in two threads behind a bounded line, in which addresses take turns, and who was right a moment ago is not checked
again. Who was right before goes first: no stranger's guesses keep them waiting. Penstock's own clients never send theirs: no role of the
native protocol comes here.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Final

from transport.broker.shared_line import SharedLine
from transport.broker.strangers import network_of
from transport.errors import LimitExceededError
from transport.security.principal import Proof
from transport.security.saslprep import PreparationError, saslprep

if TYPE_CHECKING:
    from transport.security.principal import Principal
    from transport.security.users import Users

THREADS: Final = 2
"""Whoever guesses takes two processors at most, for the derivation lets others run."""
MOST_WAITING: Final = 12
"""Passwords that wait for a thread, of all addresses: the last of them is checked within 3 s, also where a processor is busy with more."""
CHECK_SECONDS: Final = 5.0
"""The longest that anybody waits for the answer."""
REMEMBERED_SECONDS: Final = 300.0
MOST_REMEMBERED: Final = 4096
"""Passwords that were right; who was asked for longest ago is forgotten first."""


@dataclass(frozen=True, slots=True)
class _Remembered:
    principal: Principal
    until: float


@dataclass(slots=True, eq=False)
class _Check:
    """One password that is checked or waits for it, for all who ask the same."""

    mark: bytes
    name: str
    password: str
    answer: asyncio.Future[Principal | None]
    refused: bool = False


def _prepared(name: str) -> str:
    with suppress(PreparationError):
        return saslprep(name, "name of the user")
    # What cannot be a name is nobody's, which takes as long to find out.
    return name


class PasswordChecker:
    """One broker's.

    Args:
        users: those in force; None where there are none, and no password is right.
        now: the clock that proofs end by.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        users: Callable[[], Users | None],
        now: Callable[[], datetime],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._users = users
        self._now = now
        self._clock = clock
        # What is remembered cannot be guessed at outside of this process, nor is it the password.
        self._key = secrets.token_bytes(32)
        self._right: OrderedDict[bytes, _Remembered] = OrderedDict()
        self._under_way: dict[bytes, _Check] = {}
        self._line: SharedLine[_Check] = SharedLine(MOST_WAITING)
        self._free = THREADS
        self._threads: ThreadPoolExecutor | None = None

    def knows(self, name: str, password: str) -> bool:
        """Whether it was right before, and the user is there still: this is no guess."""
        return self._mark(_prepared(name), password) in self._right

    async def check(self, name: str, password: str, host: str = "") -> Principal | None:
        """Whose password it is; None for nobody. An unknown name takes as long as a wrong password.

        Args:
            name: the user's.
            password: theirs.
            host: the address of who says so. Those of one address do not hold up others.

        Raises:
            LimitExceededError: too many are being checked, or this one took too long.
        """
        if self._users() is None:
            return None
        name = _prepared(name)
        mark = self._mark(name, password)
        if (principal := self._remembered(mark)) is not None:
            return principal
        checking = self._under_way.get(mark) or self._begin(mark, name, password, network_of(host))
        try:
            # The check goes on, whoever gives up: for others who ask the same, and to be remembered.
            async with asyncio.timeout(CHECK_SECONDS):
                found = await asyncio.shield(checking.answer)
        except TimeoutError:
            raise LimitExceededError(
                f"the password could not be checked within {CHECK_SECONDS:g} s: try again later"
            ) from None
        if checking.refused:
            raise LimitExceededError(
                f"{MOST_WAITING} passwords wait to be checked, which is the limit: try again later"
            )
        return found

    def forget(self) -> None:
        """The users have changed: what was right and is no longer is not remembered."""
        users, now = self._users(), self._now()
        for mark, one in list(self._right.items()):
            if users is None or users.again(one.principal, now) is None:
                del self._right[mark]

    def close(self) -> None:
        """Check no more; what is being checked ends by itself."""
        self._right.clear()
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
        while (waiting := self._line.take()) is not None:
            waiting.answer.cancel()

    # Inside

    def _mark(self, name: str, password: str) -> bytes:
        said = name.encode("utf-8", "surrogatepass")
        return hmac.digest(
            self._key, len(said).to_bytes(8, "big") + said + password.encode("utf-8", "surrogatepass"), "sha256"
        )

    def _begin(self, mark: bytes, name: str, password: str, network: str) -> _Check:
        """Have it checked when its turn comes; where it finds no place it is refused already."""
        check = _Check(mark, name, password, asyncio.get_running_loop().create_future())
        self._under_way[mark] = check
        if mark in self._right:
            self._line.go_first(check)
        elif (out := self._line.join(network, check)) is not None:
            self._refuse(out)
        self._go_on()
        return check

    def _go_on(self) -> None:
        """Have free threads check those whose turn it is."""
        while self._free and (check := self._line.take()) is not None:
            users = self._users()
            if users is None:
                self._end(check, None)
                continue
            self._free -= 1
            if self._threads is None:
                self._threads = ThreadPoolExecutor(THREADS, "penstock passwords")
            loop = asyncio.get_running_loop()
            checking = loop.run_in_executor(self._threads, users.of_password, check.name, check.password)
            checking.add_done_callback(partial(self._checked, check))

    def _checked(self, check: _Check, checking: asyncio.Future[Principal | None]) -> None:
        """A thread has found out; nobody may be waiting for it any more."""
        if checking.cancelled():
            # The broker ends.
            check.answer.cancel()
            return
        self._free += 1
        if (error := checking.exception()) is not None:
            self._under_way.pop(check.mark, None)
            check.answer.set_exception(error)
        else:
            found, users = checking.result(), self._users()
            # The users may have changed meanwhile.
            found = None if found is None or users is None else users.again(found, self._now())
            if found is not None:
                self._remember(check.mark, found)
            else:
                self._right.pop(check.mark, None)
            self._end(check, found)
        self._go_on()

    def _end(self, check: _Check, found: Principal | None) -> None:
        self._under_way.pop(check.mark, None)
        check.answer.set_result(found)

    def _refuse(self, check: _Check) -> None:
        check.refused = True
        self._end(check, None)

    def _remembered(self, mark: bytes) -> Principal | None:
        one = self._right.get(mark)
        users = self._users()
        if one is None or users is None:
            return None
        principal = users.again(one.principal, self._now())
        if principal is None:
            del self._right[mark]
            return None
        self._right.move_to_end(mark)
        # Behind its time it is known still, and goes first.
        return None if self._clock() >= one.until else principal

    def _remember(self, mark: bytes, principal: Principal) -> None:
        assert principal.proof is Proof.PASSWORD, "nothing else is checked here"
        self._right[mark] = _Remembered(principal, self._clock() + REMEMBERED_SECONDS)
        if len(self._right) > MOST_REMEMBERED:
            self._right.popitem(last=False)
