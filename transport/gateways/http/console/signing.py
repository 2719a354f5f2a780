"""Signing in with a browser: name and password, or a token, for a cookie that names a session (RFC 6265).

The cookie is no use to another page: it is not sent for one (``SameSite=Strict``), no script reads it (``HttpOnly``), and a request that
changes something says a token beside it that only a page of ours was told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from transport.gateways.http import described, requests
from transport.gateways.http.administration import said_of
from transport.gateways.http.answers import Answer
from transport.gateways.http.console.sessions import SESSION_SECONDS, Session, Sessions
from transport.gateways.http.problems import ProblemError
from transport.gateways.http.routes import PREFIX, Call, Field, Route
from transport.gateways.http.shapes import answers
from transport.security.principal import ANYONE
from transport.wire.version import installed_version

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiohttp import web

    from transport.broker.entrance import Entrance
    from transport.security.principal import Principal

TOKEN_HEADER: Final = "Penstock-CSRF"  # noqa: S105 - the name of a header
"""Pages of ours send it with every request, so that the answer to one who is nobody has no window of the browser's ask for a password."""
CHALLENGE: Final = 'Session realm="penstock"'
"""What such a page is told in the place of Basic and Bearer."""
MOST_BODY: Final = 8 * 1024
"""Bytes of a request to sign in: whoever sends it is nobody yet."""
OVER: Final = "the session is over: sign in again"
SIGN_IN: Final = {
    "user": Field("string", "a user's name, with password"),
    "password": Field("string", "theirs"),
    "token": Field("string", "a token, in the place of both"),
}
_SAFE: Final = ("GET", "HEAD")


class Signing:
    """Signs people in and out.

    Args:
        entrance: who may come in.
        now: monotonic seconds.

    Attributes:
        entrance: as given.
        sessions: of those who have signed in.
        version: of what runs, for those who may know.
    """

    def __init__(self, entrance: Entrance, now: Callable[[], float]) -> None:
        self.entrance = entrance
        self._now = now
        self.version = installed_version()
        self.sessions = Sessions(now, self._again)

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


def _cookie(request: web.BaseRequest, name: str, seconds: int) -> dict[str, str]:
    """The header that has a browser keep a session's name, or forget it with 0 seconds."""
    secured = request.transport is not None and request.transport.get_extra_info("sslcontext") is not None
    said = f"{cookie_name(request)}={name}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict"
    return {"Set-Cookie": said + ("; Secure" if secured else "")}


def _facts(signing: Signing, session: Session | None) -> dict[str, Any]:
    if signing.entrance.users is None:
        return {"users": False, **said_of(ANYONE), "version": signing.version}
    if session is None:
        return {"users": True, "user": None}
    return {
        "users": True,
        **said_of(session.principal),
        "version": signing.version,
        "csrf": session.token,
        "expires_s": signing.left(session),
    }


async def show(call: Call) -> Answer:
    """Whether people sign in here, and who has."""
    return Answer(_facts(call.signing, call.signing.of(call.request)))


async def sign_in(call: Call) -> Answer:
    """Begin a session; another one of the same browser ends."""
    signing, request = call.signing, call.request
    asked = await requests.json_body(call, SIGN_IN, MOST_BODY)
    user, password, token = (requests.text(asked.get(each), each) for each in SIGN_IN)
    if signing.entrance.users is None:
        raise ProblemError("protocol-error", "this broker has no users: nobody signs in")
    if (token is None) == (user is None or password is None):
        raise ProblemError("protocol-error", "give user and password, or a token")
    peer = call.operations.peer
    if token is not None:
        found = await signing.entrance.of_token(token, peer)
    else:
        assert user is not None, "as above"
        assert password is not None, "as above"
        found = await signing.entrance.authenticate(user, password, peer)
    if found is None:
        text = "the token is wrong, or its time is over" if token is not None else "the name or the password is wrong"
        raise ProblemError("authentication-failed", text, headers={"WWW-Authenticate": CHALLENGE})
    signing.sessions.end(request.cookies.get(cookie_name(request), ""))
    name, session = signing.sessions.begin(found)
    return Answer(_facts(signing, session), 201, _cookie(request, name, int(SESSION_SECONDS)))


async def sign_out(call: Call) -> Answer:
    """End the session of a cookie; where there is none, nothing is to be done."""
    signing, request = call.signing, call.request
    session = signing.of(request)
    if session is not None:
        check_token(request, session)
        signing.sessions.end(request.cookies[cookie_name(request)])
    return Answer(_facts(signing, None), 200, _cookie(request, "", 0))


_PATH: Final = f"{PREFIX}/session"
ROUTES: Final = (
    Route(
        "GET",
        _PATH,
        None,
        "Whether people sign in here, and who has: for the console.",
        show,
        open=True,
        answers=answers(described.SESSION),
    ),
    Route(
        "POST",
        _PATH,
        None,
        "Sign in by name and password, or by a token: for a cookie that names a session.",
        sign_in,
        SIGN_IN,
        open=True,
        answers=answers(described.SESSION, "signed in; the cookie names the session", 201),
        refuses=frozenset({"authentication-failed"}),
    ),
    Route("DELETE", _PATH, None, "Sign out.", sign_out, open=True, answers=answers(described.SESSION)),
)
