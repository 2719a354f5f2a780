"""What administration does beyond declaring and listing: it moves messages, looks at them, closes connections, and backs a broker up."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transport.wire.names import check_name

if TYPE_CHECKING:
    from collections.abc import Callable
    from os import PathLike

    from actors.storage.backups import Backup
    from transport.clients.peeked import PeekedMessage
    from transport.clients.picture import Picture
    from transport.wire.address import Address
    from transport.wire.receiving import Part

Facts = dict[str, Any]
"""One JSON object of an answer."""

DEFAULT_RATE = 64 * 1024 * 1024
"""Bytes a second of a backup: what others notice of it is said in docs/backups.md."""


class MessageCommands(ABC):
    """These commands, for who can send one."""

    address: Address

    @abstractmethod
    async def _command(self, name: str, arguments: Facts | None = None) -> Any:
        """Send one COMMAND and wait for its RESULT's JSON value."""

    @abstractmethod
    async def _ask_for(self, name: str, arguments: Facts, seconds: float | None = None) -> Part:
        """The body of a RESULT, within the time of a command or ``seconds``."""

    @abstractmethod
    async def _list(self, command: str, what: str, arguments: Facts | None = None) -> list[Facts]:
        """All rows of a list."""

    async def move(
        self,
        source: str,
        target: str,
        count: int | None = None,
        *,
        create: bool = False,
        keep_history: bool | None = None,
        progress: Callable[[int], object] | None = None,
        stopped: Callable[[], bool] = lambda: False,
    ) -> int:
        """Move what can be received now, the oldest first, from one queue to another. Returns how many messages.

        Each message leaves the one queue and enters the other in one instant, with its id, key and headers. In the other it is new: its
        time to live begins, and it was never delivered, nor has it failed. What is delayed, held, reserved or staged stays.

        Args:
            source: the queue that they leave.
            target: the queue that they enter.
            count: messages at most; None for all that are there when it begins.
            create: whether the target is made where there is none.
            keep_history: whether the headers that say what a message has died of stay. None keeps them, but for what goes back to the
                queue in which it died last: that begins anew there, with the key that it had.
            progress: told now and then how many were moved.
            stopped: asked between two steps, whether to end there.

        Raises:
            MoveStoppedError: the broker refused to go on (``queue-full``, ``not-found`` ...), or nothing can be moved for long. It says how
                many were moved until then.
            ConnectionLostError, PeerTimeoutError: what the last step has moved is not known; all steps before it were told to ``progress``.
        """
        from transport.clients.moving import move  # noqa: PLC0415 - of few programs

        names: Facts = {"from": check_name(source, "queue"), "to": check_name(target, "queue"), "create": create}
        if keep_history is not None:
            # Not said otherwise: a broker of before refuses what it does not know.
            names["keep_history"] = keep_history
        return await move(lambda more: self._command("queue.move", names | more), count, progress, stopped)

    async def peek(
        self,
        name: str,
        count: int = 10,
        *,
        start: int | None = None,
        newest: bool = False,
        most_bytes: int | None = None,
    ) -> list[PeekedMessage]:
        """Look at messages that are stored, whoever holds them, and change nothing.

        Args:
            name: the queue.
            count: how many at most.
            start: from the message with this number on; None for the oldest.
            newest: the last ones instead.
            most_bytes: of each payload and key no more than so many of the first; None for what the broker gives, 1 MiB.

        Raises:
            BrokerError: ``not-found``.
            RemoteProtocolError: the answer is of another shape.
        """
        from transport.clients.peeked import peek  # noqa: PLC0415 - of few programs

        arguments: Facts = {"name": check_name(name, "queue"), "bytes": most_bytes}
        return await peek(lambda more: self._command("queue.peek", arguments | more), count, start, newest)

    async def picture(
        self, order: str = "pressure", contains: str = "", *, limit: int = 50, start: int = 0, queue: str | None = None
    ) -> Picture:
        """What goes on: some of the queues with their rates and the sentence that says who holds back whom, and the totals of all.

        Rates are those of the last second in which somebody looked: the first picture after a while has none.

        Args:
            order: what comes first: ``pressure``, ``rate``, ``backlog`` or ``name``.
            contains: only queues whose name has this in it.
            limit: queues at most, up to 200.
            start: how many to pass over, up to 1000.
            queue: of which to tell, as ``flow``, who sends and who receives.

        Raises:
            BrokerError: ``protocol-error`` for a value that cannot be, and from a broker of before, which has no pictures.
            RemoteProtocolError: the answer is of another shape.
        """
        from transport.clients.picture import checked  # noqa: PLC0415 - of few programs

        asked = {"order": order, "contains": contains, "limit": limit, "start": start, "queue": queue}
        return checked(await self._command("picture", asked))

    async def connections(self) -> list[Facts]:
        """Every connection: ``id``, ``role``, ``queue``, ``client_id``, ``user``, ``peer`` and its figures."""
        return await self._list("connection.list", "connections")

    async def close_connections(
        self, number: int | None = None, *, user: str | None = None, reason: str | None = None
    ) -> int | None:
        """End a connection by its number, or all of a user but this one; each is told ``closed`` with the reason. Returns how many.

        Our clients connect again. Whoever is to stay away is to lose a right, or the user.

        Raises:
            BrokerError: ``not-found``, or ``protocol-error`` where it is this connection, or neither or both are given.
        """
        arguments = {"id": number, "user": user, "reason": reason}
        return count_of(await self._command("connection.close", arguments), "closed")

    async def backup(
        self,
        target: str | PathLike[str],
        *,
        rate: int | None = DEFAULT_RATE,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> Backup:
        """Write a consistent copy of the broker's journal into the directory ``target`` of this machine, which is not there yet.

        It has every message that was confirmed before the call. Nobody waits for it. `penstock journal restore` makes a data
        directory of it.

        Args:
            target: its name is there when the copy is whole and durable; until then it is ``target.partial``.
            rate: bytes a second at most; None for as many as come.
            on_progress: told of bytes copied, and bytes of all.

        Raises:
            BackupFailedError: the target is there already, or what came is not whole.
            BrokerError: ``backup-refused``: the broker has no journal, or a backup is under way; ``forbidden``: it takes the right
                ``administer``.
            OSError: the disk of this machine refuses. Nothing is left behind.
        """
        from transport.clients.backup import take_backup  # noqa: PLC0415 - it needs the journal, and no other client does

        return await take_backup(self._ask_for, Path(target), str(self.address), rate, on_progress)


def count_of(answer: object, key: str) -> int | None:
    """The number that an answer has under ``key``; None where it has none."""
    value = answer.get(key) if isinstance(answer, dict) else None
    return value if type(value) is int else None


def has_changed(answer: object) -> bool:
    """Whether a broker says that something has changed."""
    return isinstance(answer, dict) and answer.get("changed") is True
