"""Who a client of AMQP is: looked at when it comes, and again when it changes its secret."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from transport.errors import LimitExceededError
from transport.gateways.amqp.errors import AmqpError
from transport.gateways.amqp.negotiation import Certificate, Password
from transport.gateways.amqp.reply_codes import ReplyCode
from transport.security.principal import ANYONE, Principal
from transport.security.proofs import looks_like_token
from transport.security.subject import subject_of

if TYPE_CHECKING:
    from typing import Any

    from transport.broker.listener import Host
    from transport.shell.connection import Connection

SHRUNK = "the rights of this user have changed, and no longer allow what this connection does"


class Applicant(Protocol):
    """The connection whose client it is."""

    connection: Connection[Any] | None

    def begin_work(self) -> None:
        """Handle nothing more of the client until `end_work`."""

    def end_work(self) -> None:
        """Handle again what it says."""

    def end(self, error: AmqpError) -> None:
        """End the connection, and tell why."""


class Admission:
    """One connection's.

    Args:
        host: what the broker gives.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._judging: asyncio.Task[None] | None = None

    def judge(
        self,
        applicant: Applicant,
        proof: Password | Certificate,
        welcome: Callable[[Principal], None],
        refuse: Callable[[], None],
    ) -> None:
        """Have one of these two called: it is who it says, or not. A wrong password takes a while; without users everybody is welcome."""
        if self._host.entrance.users is None:
            welcome(ANYONE)
            return
        applicant.begin_work()
        work = self._judge(applicant, proof, welcome, refuse)
        self._judging = self._host.loop.create_task(work, name="amqp login")
        self._judging.add_done_callback(self._judged)

    def stop(self) -> None:
        """The connection ends."""
        if self._judging is not None:
            self._judging.cancel()

    def _judged(self, judging: asyncio.Task[None]) -> None:
        """Forget the task: it knows its connection, which knows this."""
        if self._judging is judging:
            self._judging = None

    async def _judge(
        self,
        applicant: Applicant,
        proof: Password | Certificate,
        welcome: Callable[[Principal], None],
        refuse: Callable[[], None],
    ) -> None:
        connection = applicant.connection
        assert connection is not None, "it stands"
        try:
            found = await self._principal(proof, connection)
            if found is None:
                refuse()
            else:
                welcome(found)
        except LimitExceededError as error:
            applicant.end(AmqpError(ReplyCode.RESOURCE_ERROR, str(error)))
        except Exception as error:  # noqa: BLE001 - a defect of ours ends this connection only
            connection.fail(error)
        finally:
            applicant.end_work()

    async def _principal(self, proof: Password | Certificate, connection: Connection[Any]) -> Principal | None:
        entrance = self._host.entrance
        if isinstance(proof, Password):
            if looks_like_token(proof.password):
                return await self._of_token(proof, connection.peer)
            return await entrance.authenticate(proof.user, proof.password, connection.peer)
        subject = subject_of(connection.certificate)
        return None if subject is None else await entrance.of_certificate(subject, connection.peer)

    async def _of_token(self, proof: Password, peer: str) -> Principal | None:
        """Whose token was said in a password's place, as RabbitMQ has it for its own; of another user than is named, or none, nobody."""
        entrance = self._host.entrance
        found = await entrance.of_token(proof.password, peer)
        if found is not None and proof.user not in ("", found.name):
            entrance.failed(peer, proof.user)
            return None
        return found
