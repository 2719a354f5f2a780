"""How a client proves itself on each of its connections, and knows the broker: docs/protocol.md, "Authentication".

Without I/O: both kinds of clients use it. The keys of a password take a fifth of a second of a processor, or many times that where the
broker says so. They are remembered, so that a connection that is made again costs nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from transport.errors import AuthenticationError, LocalProtocolError, RemoteProtocolError
from transport.security.access import NOBODY
from transport.security.access_sources import access_in_force
from transport.wire.messages import SIGN, Auth, Frame, Hello
from transport.wire.protocol import MECHANISM, SCRAM, TOKEN

if TYPE_CHECKING:
    import ssl

    from transport.security.access import Access
    from transport.security.scram import ClientExchange
    from transport.security.verifier import Keys


class KeysNeededError(Exception):
    """The answer to the broker needs keys that are still to be made, which takes its time.

    Attributes:
        salt: the broker's, for this password.
        iterations: how often it is to be hashed.
    """

    def __init__(self, salt: bytes, iterations: int) -> None:
        super().__init__("keys are to be derived")
        self.salt = salt
        self.iterations = iterations


class Credentials:
    """What all connections of one client have in common.

    Args:
        access: as the program gave it; None for the environment's.
        token: the same as an access with nothing else.

    Attributes:
        context: what connections speak TLS with, made once; None for those without.

    Raises:
        LocalProtocolError: it cannot be, or its files cannot be read.
    """

    __slots__ = ("_access", "_keys", "context")

    def __init__(self, access: Access | None = None, token: str | None = None) -> None:
        self._access = access = access_in_force(access, token)
        self.context: ssl.SSLContext | None = None if access.tls is None else access.tls.context()
        # Of the password, for the salt and the number of iterations last asked for.
        self._keys: tuple[bytes, int, Keys] | None = None
        if access.user is not None:
            _check_prepared(access)

    @property
    def has_password(self) -> bool:
        """Whether there is an exchange to have."""
        return self._access.user is not None

    @property
    def has_certificate(self) -> bool:
        """Whether this side has a certificate of its own."""
        return self._access.tls is not None and self._access.tls.certificate is not None

    @property
    def doubt(self) -> str:
        """What may be wrong with what this client shows, where a broker says no more than that something is."""
        if self._access.token is not None:
            return "the token is wrong, or its time is over"
        if self._access.user is not None:
            return "the user or the password is wrong"
        return "no user has the subject of this client's certificate"

    def server_name(self, host: str) -> str:
        """The name that the certificate of the broker at ``host`` must have."""
        tls = self._access.tls
        return (tls.server_name if tls is not None else None) or host

    def hello(self, hello: Hello, sign: float) -> Hello:
        """The same, how this client proves itself, and after how many seconds each it wants a sign until it is answered."""
        access = self._access
        options = hello.options | {SIGN: round(sign * 1000)}
        if access.token is not None:
            options[TOKEN] = access.token
        elif access.user is not None:
            options[MECHANISM] = SCRAM
        return replace(hello, options=options)

    def exchange(self) -> Exchange | None:
        """One connection's exchange; None where there is none to have."""
        user = self._access.user
        return None if user is None else Exchange(self, user)

    def keys(self, salt: bytes, iterations: int) -> Keys:
        """The password's keys.

        Raises:
            KeysNeededError: they are not remembered.
        """
        keys = self._keys
        if keys is None or keys[:2] != (salt, iterations):
            raise KeysNeededError(salt, iterations)
        return keys[2]

    def derive(self, salt: bytes, iterations: int) -> None:
        """Make the keys and remember them. It takes long: not for an event loop's thread."""
        from transport.security.verifier import derive  # noqa: PLC0415 - only with a password

        self._keys = salt, iterations, derive(self._access.password or "", salt, iterations)


NO_CREDENTIALS: Final = Credentials(NOBODY)
"""Of who proves nothing, and speaks plainly."""


class Exchange:
    """One connection's exchange: its opening, the answer to the broker's challenge, and the check of the broker's own proof.

    Attributes:
        first: the message behind HELLO.
        challenged: whether the broker's first message was answered.
    """

    __slots__ = ("_credentials", "_scram", "challenged", "first")

    def __init__(self, credentials: Credentials, user: str) -> None:
        from transport.security.scram import ClientExchange  # noqa: PLC0415 - only with a password

        self._credentials = credentials
        self._scram: ClientExchange = ClientExchange(user, credentials.keys)
        self.challenged = False
        self.first = Auth(self._scram.first())

    def received(self, frame: Auth) -> Auth | None:
        """What answers ``frame``; None for the broker's last, behind which WELCOME may be believed.

        Raises:
            KeysNeededError: once they are made, the same frame is to be given again.
            AuthenticationError: the broker has not proved itself.
        """
        from transport.security.scram import ScramError  # noqa: PLC0415 - loaded by then

        try:
            if not self.challenged:
                answer = Auth(self._scram.answer(frame.data))
                self.challenged = True
                return answer
            self._scram.conclude(frame.data)
        except ScramError as error:
            raise AuthenticationError(f"the broker has not proved itself: {error}") from None
        return None

    def answered(self, frame: Auth) -> Auth | None:
        """The same as `received`; keys that are needed are made at once, however long it takes."""
        try:
            return self.received(frame)
        except KeysNeededError as needed:
            self._credentials.derive(needed.salt, needed.iterations)
            return self.received(frame)


def unexpected(frame: Frame) -> RemoteProtocolError:
    """The error of a broker that goes on before it was answered."""
    return RemoteProtocolError(f"{type(frame).__name__.upper()} came before the broker's AUTH was answered")


def _check_prepared(access: Access) -> None:
    """A name or a password that cannot be is the program's mistake, told before anything is connected."""
    from transport.security.saslprep import PreparationError, saslprep  # noqa: PLC0415 - only with a password

    try:
        saslprep(access.user or "", "name of the user")
        saslprep(access.password or "")
    except PreparationError as error:
        raise LocalProtocolError(str(error)) from None
