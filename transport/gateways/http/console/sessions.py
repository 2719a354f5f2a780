"""Who has signed in with a browser: kept in memory, and named by what a cookie carries.

A session is found by the hash of its name, so what is in memory opens nothing. It ends by itself, when its user is gone or has another
proof, and when somebody says so.
"""

from __future__ import annotations

import hmac
import secrets
from collections import OrderedDict
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from transport.errors import LimitExceededError

if TYPE_CHECKING:
    from collections.abc import Callable

    from transport.security.principal import Principal

SESSION_SECONDS: Final = 8 * 3600.0
"""A day's work; who goes on signs in again."""
SECRET_BYTES: Final = 32
"""Of a session's name, and of the token against forged requests: 256 random bits each."""
MOST_SESSIONS: Final = 4096
"""At a time; each takes about 1 KiB."""
MOST_OF_ONE: Final = 32
"""Of one user: the one who signs in once more ends their oldest."""


@dataclass(slots=True, eq=False)
class Session:
    """One who has signed in.

    Attributes:
        principal: who, with the rights they have now.
        until: when it ends by itself, in monotonic seconds.
        token: what a page of ours says with each request that changes something, and no other page can know.
        over: whether it has ended.
        ends: called when it has; what goes on by it puts itself here, and sees to ``until`` itself.
    """

    principal: Principal
    until: float
    token: str = field(repr=False)
    over: bool = False
    ends: set[Callable[[], object]] = field(default_factory=set, repr=False)

    def is_told(self, token: str) -> bool:
        """Whether this is its token; takes as long for any other."""
        return hmac.compare_digest(self.token.encode(), token.encode("utf-8", "surrogateescape"))


class Sessions:
    """Those of one listener.

    Args:
        now: monotonic seconds.
        again: who somebody is now who came in before; None where their proof is good no longer (`Users.again`).
    """

    def __init__(self, now: Callable[[], float], again: Callable[[Principal], Principal | None]) -> None:
        self._now = now
        self._again = again
        # The oldest first: each lasts as long, so that is the order in which they end too.
        self._open: OrderedDict[bytes, Session] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    def begin(self, principal: Principal) -> tuple[str, Session]:
        """Open one; what names it, which is told to nobody else, and the session.

        Raises:
            LimitExceededError: there are as many as may be.
        """
        self._sweep()
        own = [key for key, each in self._open.items() if each.principal.name == principal.name]
        if len(own) >= MOST_OF_ONE:
            self._end(own[0])
        elif len(self._open) >= MOST_SESSIONS:
            raise LimitExceededError(
                f"{MOST_SESSIONS} sessions are open, which is the limit (MOST_SESSIONS): somebody has to sign out"
            )
        name = secrets.token_urlsafe(SECRET_BYTES)
        session = Session(principal, self._now() + SESSION_SECONDS, secrets.token_urlsafe(SECRET_BYTES))
        self._open[_key(name)] = session
        return name, session

    def of(self, name: str) -> Session | None:
        """The session of that name, with who it is now; None where there is none any more."""
        key = _key(name)
        session = self._open.get(key)
        if session is None:
            return None
        principal = self._again(session.principal)
        if principal is None or self._now() >= session.until:
            self._end(key)
            return None
        session.principal = principal
        return session

    def end(self, name: str) -> None:
        """End one, where there is one."""
        self._end(_key(name))

    # Inside

    def _end(self, key: bytes) -> None:
        session = self._open.pop(key, None)
        if session is not None:
            session.over = True
            for told in list(session.ends):
                told()

    def _sweep(self) -> None:
        """End those whose time is over."""
        now = self._now()
        while self._open:
            key, oldest = next(iter(self._open.items()))
            if oldest.until > now:
                return
            self._end(key)


def _key(name: str) -> bytes:
    return sha256(name.encode("utf-8", "surrogatepass")).digest()
