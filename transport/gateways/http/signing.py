"""Signing in with a browser: name and password, or a token, for a cookie that names a session (RFC 6265).

The cookie is no use to another page: it is not sent for one (``SameSite=Strict``), no script reads it (``HttpOnly``), and a request that
changes something says a token beside it that only a page of ours was told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from transport.gateways.http.console.sessions import Session, Sessions
from transport.gateways.http.problems import ProblemError
from transport.wire.version import installed_version

if TYPE_CHECKING:
    from aiohttp import web

    from transport.broker.listener import Host
    from transport.security.principal import Principal

TOKEN_HEADER: Final = "Penstock-CSRF"  # noqa: S105 - the name of a header
"""Pages of ours send it with every request, so that the answer to one who is nobody has no window of the browser's ask for a password."""
CHALLENGE: Final = 'Session realm="penstock"'
"""What such a page is told in the place of Basic and Bearer."""
OVER: Final = "the session is over: sign in again"
_SAFE: Final = ("GET", "HEAD")


class Signing:
    """Signs people in and out.

    Args:
        host: what the broker gives.

    Attributes:
        entrance: who may come in.
        sessions: of those who have signed in.
        version: of what runs, for those who may know.
    """

    def __init__(self, host: Host) -> None:
        self.entrance = host.entrance
        self._now = host.loop.time
        self.version = installed_version()
        self.sessions = Sessions(self._now, self._again)

    def of(self, request: web.BaseRequest) -> Session | None:
        """The session whose cookie a request has; None where it has none, or one that is over."""
        name = request.cookies.get(cookie_name(request))
        return None if name is None else self.sessions.of(name)

    def asker(self, request: web.BaseRequest) -> Session | None:
        """The session that vouches for a request; None where none is named.

        Raises:
            ProblemError: it is over, or the request changes something and may be another page's.
        """
        if cookie_name(request) not in request.cookies:
            return None
        session = self.of(request)
        if session is None:
            raise ProblemError("authentication-required", OVER, headers={"WWW-Authenticate": CHALLENGE})
        check_token(request, session)
        return session

    def left(self, session: Session) -> int:
        """Seconds until it ends by itself."""
        return max(0, int(session.until - self._now()))

    def _again(self, principal: Principal) -> Principal | None:
        users = self.entrance.users
        return None if users is None else users.again(principal, self.entrance.now())


def check_token(request: web.BaseRequest, session: Session) -> None:
    """Raise ProblemError for a request that changes something, and does not say the session's token."""
    if request.method not in _SAFE and not session.is_told(request.headers.get(TOKEN_HEADER, "")):
        raise ProblemError(
            "forbidden", f"the header {TOKEN_HEADER} does not have this session's token: load the page anew"
        )


def cookie_name(request: web.BaseRequest) -> str:
    """What the cookie is called: browsers tell cookies apart by host, not by port, and a machine may have several brokers."""
    transport = request.transport
    name = None if transport is None else transport.get_extra_info("sockname")
    return f"penstock-{name[1]}" if isinstance(name, tuple) else "penstock"
