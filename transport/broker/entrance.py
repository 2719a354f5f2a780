"""Who may come in: the users that are in force, and what becomes of those inside when the users change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from transport.broker import audit
from transport.broker.passwords import PasswordChecker
from transport.broker.strangers import MOST_FAILURES, Failures, Unopened
from transport.broker.unhurried import Unhurried
from transport.config.config import DEFAULT_MAX_UNAUTHENTICATED
from transport.errors import LimitExceededError, LocalProtocolError
from transport.security.users_file import UsersFileError, read_users
from transport.wire.messages import ANY_NODE

if TYPE_CHECKING:
    from transport.broker.last_good import FilesOfANode
    from transport.broker.leadership import Leadership
    from transport.broker.served import Connections, Served
    from transport.security.principal import Principal
    from transport.security.users import Users
    from transport.wire.messages import Hello

LONGEST_LOOK: Final = 3600.0
"""Seconds after which the clock is looked at anew where a token's time ends later: clocks are set, and the loop's is another."""
SHRUNK: Final = ("forbidden", "the rights of this user have changed, and no longer allow what this connection does")
GONE: Final = ("authentication-failed", "what this connection came in with is good no longer")


def _of_any_node(hello: Hello) -> bool:
    return hello.role == "admin" and hello.options.get(ANY_NODE) is True


def _utc() -> datetime:
    return datetime.now(UTC)


async def _passed(seconds: float) -> None:
    """Have somebody wait who has failed too often."""
    loop = asyncio.get_running_loop()
    over = asyncio.Event()
    timer = loop.call_later(seconds, over.set)
    try:
        await over.wait()
    finally:
        timer.cancel()


def users_of(path: Path) -> Unhurried[Users]:
    """What reads the users file at ``path``; it raises `UsersFileError`."""
    return Unhurried(lambda: read_users(path), lambda why: UsersFileError(f"{path}: {why}"))


def _host_of(peer: str) -> str:
    return peer.rpartition(":")[0]


def _logged(failures: Failures, peer: str) -> str | None:
    """What the line of one more failure of that peer's address ends with; None where its address has had enough lines."""
    times = failures.note(_host_of(peer))
    if times > MOST_FAILURES:
        return None
    return " (no more of this address is logged before a minute is over)" if times == MOST_FAILURES else ""


class Entrance:
    """One broker's.

    Args:
        users_file: where the users are; None where everybody may come in.
        connections: those who are inside.
        clock: monotonic seconds.
        most_unopened: how many may be accepted and not let in yet.
        now: the clock that tokens end by.

    Attributes:
        users: those in force; None where everybody may come in.
        unopened: those who are accepted and not let in yet.
        now: as given.
        leadership: whether the broker leads its cluster; None where it is in none.
    """

    leadership: Leadership | None = None

    def __init__(
        self,
        users_file: str | None,
        connections: Connections,
        clock: Callable[[], float],
        most_unopened: int = DEFAULT_MAX_UNAUTHENTICATED,
        now: Callable[[], datetime] = _utc,
    ) -> None:
        self.users: Users | None = None
        self.unopened = Unopened(most_unopened)
        self._failures = Failures(clock)
        # No guesses, so that nobody waits for them; they are counted for the log alone.
        self._others = Failures(clock)
        self.now = now
        self._file = None if users_file is None else users_of(Path(users_file))
        self._connections = connections
        self._passwords = PasswordChecker(lambda: self.users, now)
        self._reading = asyncio.Lock()
        self._looking: asyncio.TimerHandle | None = None

    @property
    def leads(self) -> bool:
        """Whether whoever comes can be let in: the broker leads its cluster, or is in none."""
        return self.leadership is None or self.leadership.leads

    def bars(self, connection: Served[Any], hello: Hello | None = None) -> bool:
        """Whether ``connection`` may not come in, for the broker does not lead its cluster; it was told so then, and ends.

        Who says in its ``hello`` that it wants any node of the cluster may come in: it is told how that stands, and no more.
        """
        if self.leadership is None or self.leadership.leads or (hello is not None and _of_any_node(hello)):
            return False
        self.leadership.refuse(connection)
        return True

    def open(self) -> None:
        """Read the users for the first time.

        Raises:
            LocalProtocolError: they cannot be read, or others might read them.
        """
        if self._file is not None:
            try:
                self.users = self._file.now()
            except UsersFileError as error:
                raise LocalProtocolError(f"users_file: {error}") from None

    async def open_of(self, files: FilesOfANode) -> None:
        """As of `open`, for a broker that stands by turns: the users that were good last stay where they cannot be read."""
        if self._file is not None:
            try:
                self.users = await files.users.read(self._file)
            except UsersFileError as error:
                raise LocalProtocolError(f"users_file: {error}") from None

    def watch(self) -> None:
        """End connections from now on when the time of what they came in with is over."""
        if self.users is not None:
            self._look_later()

    async def reload(self) -> None:
        """Read the users anew, and end the connections of those who may no longer do what they do.

        Raises:
            UsersFileError: that was not possible; those before stay in force.
        """
        if self._file is None:
            return
        async with self._reading:
            # A file of many users takes a second, and the loop has others to serve.
            self.users = await self._file.later()
            if self.leadership is not None:
                self.leadership.files.users.value = self.users
            self._look()

    def wait(self, peer: str) -> float:
        """Seconds that this side has a peer wait for the answer to its proof, for its address has failed too often."""
        return self._failures.wait(_host_of(peer))

    def failed(self, peer: str, name: str | None, certificate: str | None = None) -> None:
        """A peer, which says it is ``name``, has shown a proof that is none: a ``certificate`` of that subject, or another."""
        if (more := _logged(self._failures, peer)) is None:
            return
        if certificate is None:
            audit.unproved(name, peer, more)
        else:
            audit.unknown_certificate(certificate, peer, more)

    def nothing_shown(self, peer: str) -> None:
        """A peer has shown no proof at all."""
        if (more := _logged(self._others, peer)) is not None:
            audit.nothing_shown(peer, more)

    def not_secured(self, peer: str, why: str) -> None:
        """TLS with a peer has not come about."""
        if (more := _logged(self._others, peer)) is not None:
            audit.not_secured(peer, why, more)

    async def authenticate(self, name: str, password: str, peer: str) -> Principal | None:
        """Who says this name and this password, which came as they are, as other protocols have it; None for nobody.

        Args:
            name: the user's.
            password: theirs.
            peer: who says so, host:port; one that has failed too often waits, unless this password was right before.

        Raises:
            LimitExceededError: too many passwords are being checked.
        """
        if (wait := self.wait(peer)) and not self._passwords.knows(name, password):
            await _passed(wait)
        try:
            found = await self._passwords.check(name, password, _host_of(peer))
        except LimitExceededError:
            # It was a guess, for all that is known: whoever fills the line with them is slowed.
            self.failed(peer, name)
            raise
        if found is None:
            self.failed(peer, name)
        return found

    async def of_token(self, token: str, peer: str) -> Principal | None:
        """Whose token it is, which came as it is; None for nobody's. ``peer`` as of `authenticate`."""
        if wait := self.wait(peer):
            await _passed(wait)
        found = None if self.users is None else self.users.of_token(token, self.now())
        if found is None:
            self.failed(peer, None)
        return found

    async def of_certificate(self, subject: str, peer: str) -> Principal | None:
        """Whose certificate it is, by its subject, which TLS has verified; None for nobody's. ``peer`` as of `authenticate`."""
        if wait := self.wait(peer):
            await _passed(wait)
        found = None if self.users is None else self.users.of_certificate(subject)
        if found is None:
            self.failed(peer, subject, subject)
        return found

    def close(self) -> None:
        """Look at nothing any more."""
        if self._looking is not None:
            self._looking.cancel()
        self._passwords.close()

    # Inside

    def _look(self) -> None:
        """See that everybody inside may still be there."""
        users = self.users
        assert users is not None, "there is a file"
        # Whatever comes of this look, there is another.
        self._look_later()
        now = self.now()
        self._passwords.forget()
        for connection in list(self._connections.standing.values()):
            rights = connection.operations
            if rights is None:
                continue
            principal = users.again(rights.principal, now)
            code, text = GONE if principal is None else SHRUNK
            if principal is None or not rights.renew(principal):
                peer = "?" if connection.connection is None else connection.connection.peer
                audit.ended(rights.principal.name, text, peer)
                connection.refused(code, text)

    def _look_later(self) -> None:
        """Look again when the next token's time is over."""
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None
        assert self.users is not None, "as above"
        now = self.now()
        end = self.users.next_end(now)
        if end is not None:
            seconds = min(LONGEST_LOOK, max(0.0, (end - now).total_seconds()))
            self._looking = asyncio.get_running_loop().call_later(seconds, self._look)
