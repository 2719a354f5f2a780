"""Passwords that come as they are, as other protocols have them: each guess is a fifth of a second of a processor.

So they are checked in two threads behind a bounded line, and who was right a moment ago is not checked again. Penstock's own clients never
send theirs: no role of the native protocol comes here.
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
from typing import TYPE_CHECKING, Final

from transport.errors import LimitExceededError
from transport.security.principal import Proof
from transport.security.saslprep import PreparationError, saslprep

if TYPE_CHECKING:
    from transport.security.principal import Principal
    from transport.security.users import Users

THREADS: Final = 2
"""Whoever guesses takes two processors at most, for the derivation lets others run."""
MOST_WAITING: Final = 32
"""Passwords that are being checked or wait for it: the last of them has waited for 3 s, less than who connects is given."""
CHECK_SECONDS: Final = 5.0
"""The longest that anybody waits for the answer."""
REMEMBERED_SECONDS: Final = 300.0
MOST_REMEMBERED: Final = 4096
"""Passwords that were right; who was asked for longest ago is forgotten first."""


@dataclass(frozen=True, slots=True)
class _Remembered:
    principal: Principal
    until: float


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
        self._under_way: dict[bytes, asyncio.Future[Principal | None]] = {}
        self._threads: ThreadPoolExecutor | None = None

    async def check(self, name: str, password: str) -> Principal | None:
        """Whose password it is; None for nobody. An unknown name takes as long as a wrong password.

        Raises:
            LimitExceededError: too many are being checked, or this one took too long.
        """
        users = self._users()
        if users is None:
            return None
        with suppress(PreparationError):
            # What cannot be a name is nobody's, which takes as long to find out.
            name = saslprep(name, "name of the user")
        mark = self._mark(name, password)
        if (principal := self._remembered(mark)) is not None:
            return principal
        checking = self._under_way.get(mark)
        if checking is None:
            checking = self._begin(mark, users, name, password)
        try:
            # The check goes on for others who ask the same, whoever gives up.
            async with asyncio.timeout(CHECK_SECONDS):
                found = await asyncio.shield(checking)
        except TimeoutError:
            raise LimitExceededError(
                f"the password could not be checked within {CHECK_SECONDS:g} s: try again later"
            ) from None
        current = self._users()
        if found is None or current is None:
            return None
        # The users may have changed meanwhile.
        found = current.again(found, self._now())
        if found is not None:
            self._remember(mark, found)
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

    # Inside

    def _mark(self, name: str, password: str) -> bytes:
        said = name.encode("utf-8", "surrogatepass")
        return hmac.digest(
            self._key, len(said).to_bytes(8, "big") + said + password.encode("utf-8", "surrogatepass"), "sha256"
        )

    def _begin(self, mark: bytes, users: Users, name: str, password: str) -> asyncio.Future[Principal | None]:
        if len(self._under_way) >= MOST_WAITING:
            raise LimitExceededError(
                f"{len(self._under_way)} passwords are being checked, which is the limit: try again later"
            )
        if self._threads is None:
            self._threads = ThreadPoolExecutor(THREADS, "penstock passwords")
        loop = asyncio.get_running_loop()
        checking = loop.run_in_executor(self._threads, users.of_password, name, password)
        self._under_way[mark] = checking
        checking.add_done_callback(lambda _: self._under_way.pop(mark, None))
        return checking

    def _remembered(self, mark: bytes) -> Principal | None:
        one = self._right.get(mark)
        users = self._users()
        if one is None or users is None:
            return None
        principal = users.again(one.principal, self._now())
        if principal is None or self._clock() >= one.until:
            del self._right[mark]
            return None
        self._right.move_to_end(mark)
        return principal

    def _remember(self, mark: bytes, principal: Principal) -> None:
        assert principal.proof is Proof.PASSWORD, "nothing else is checked here"
        if mark not in self._right:
            self._right[mark] = _Remembered(principal, self._clock() + REMEMBERED_SECONDS)
            if len(self._right) > MOST_REMEMBERED:
                self._right.popitem(last=False)
