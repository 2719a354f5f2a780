"""Who speaks on a connection of Penstock's own: what HELLO and AUTH say of it. docs/protocol.md, section "Authentication".

Without I/O. It raises what ends the connection; the texts tell nothing of which users there are.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final

from transport.errors import AuthenticationError, AuthenticationRequiredError, RemoteProtocolError
from transport.security.principal import ANYONE, Principal, Proof
from transport.security.scram import ScramError, ServerExchange
from transport.wire.messages import Options, brief
from transport.wire.protocol import MECHANISM, NOBODY_PROVES, SCRAM, TOKEN

if TYPE_CHECKING:
    from collections.abc import Callable

    from transport.security.users import Users

REQUIRED: Final = "this broker has users: say who you are, with a user and password, a token, or a client certificate"
NO_USERS: Final = "this broker has no users, and cannot prove itself to one: connect without a user and password"

_OUT_OF_FORM: Final = frozenset(
    {"invalid-encoding", "extensions-not-supported", "channel-binding-not-supported", "other-error"}
)
"""RFC 5802's errors of a message that nobody's password could be right in: its writer is told what is wrong."""


class Authentication:
    """One connection's.

    Args:
        users: those in force; None where everybody may come in.
        now: the clock that tokens end by.
        known: who was shown to ask before HELLO; one that has no proof of its own leaves it at that.

    Attributes:
        name: who says that it is they, for the log; nobody has proved it.
        certificate: the subject of the certificate that was shown in place of any other proof.
    """

    def __init__(
        self, users: Callable[[], Users | None], now: Callable[[], datetime], known: Principal | None = None
    ) -> None:
        self._users = users
        self._now = now
        self._known = known
        self._exchange: tuple[Users, ServerExchange] | None = None
        self._challenged = False
        self.name: str | None = None
        self.certificate: str | None = None

    def decides(self, options: Options | None) -> bool:
        """Whether what the client says now, HELLO with its options or AUTH, is a proof: right or wrong."""
        if options is None:
            return self._challenged
        return self._users() is not None and options.get(MECHANISM) is None

    def hello(self, options: Options, subject: Callable[[], str | None]) -> Principal | None:
        """Who says HELLO with these options; None where an exchange begins.

        Args:
            options: HELLO's.
            subject: gives the subject of the client's certificate, if TLS has verified one.

        Raises:
            AuthenticationRequiredError: nothing was shown, and there are users.
            AuthenticationError: it is nobody's.
            RemoteProtocolError: options that cannot be.
        """
        users = self._users()
        mechanism = options.get(MECHANISM)
        if users is None:
            if mechanism is not None:
                raise AuthenticationError(NO_USERS)
            return ANYONE
        token = options.get(TOKEN)
        for name, value in ((MECHANISM, mechanism), (TOKEN, token)):
            if value is not None and not isinstance(value, str):
                # Never the value: it may be a secret.
                raise RemoteProtocolError(f"HELLO: {name} is to be a text, not a {type(value).__name__}")
        if mechanism is not None:
            if token is not None:
                raise RemoteProtocolError("HELLO has a mechanism and a token: one proof is enough")
            if mechanism != SCRAM:
                raise AuthenticationError(f"the mechanism {brief(mechanism)} is not known here; {SCRAM} is")
            self._exchange = users, ServerExchange(users.verifier)
            return None
        if token is not None:
            return self._someone(users.of_token(token, self._now()))
        if self._known is not None:
            self.name = self._known.name
            return self._someone(self._known)
        shown = subject()
        if shown is None:
            raise AuthenticationRequiredError(REQUIRED)
        self.name = self.certificate = shown
        return self._someone(users.of_certificate(shown))

    def answer(self, data: bytes) -> tuple[bytes, Principal | None]:
        """The answer to AUTH, and who it is behind the second one.

        Raises:
            AuthenticationError: the proof is wrong.
            RemoteProtocolError: AUTH out of its turn, or not as RFC 5802 has it.
        """
        if self._exchange is None:
            raise RemoteProtocolError("AUTH came where no exchange has begun")
        users, exchange = self._exchange
        try:
            if not self._challenged:
                challenge = exchange.challenge(data)
                self._challenged = True
                self.name = exchange.name
                return challenge, None
            self._exchange = None
            signature = exchange.conclude(data)
        except ScramError as error:
            if error.code in _OUT_OF_FORM:
                raise RemoteProtocolError(f"AUTH: {error}") from None
            raise AuthenticationError(NOBODY_PROVES) from None
        return signature, self._someone(users.principal(exchange.name, Proof.SCRAM))

    def _someone(self, principal: Principal | None) -> Principal:
        """Whoever it is, as the users are now: they may have changed since the exchange began."""
        users = self._users()
        if principal is not None and users is not None:
            principal = users.again(principal, self._now())
        if principal is None:
            raise AuthenticationError(NOBODY_PROVES)
        return principal
