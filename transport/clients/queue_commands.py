"""What administration does with queues: it lists, declares, alters, empties and deletes them. docs/protocol.md, "Administration"."""

from __future__ import annotations

from abc import ABC, abstractmethod
from base64 import b64encode
from typing import TYPE_CHECKING, Any, Final, NoReturn

from actors.queue.vocabulary.settings import UNALTERABLE, by_own_names
from transport.clients.message_commands import Facts, count_of
from transport.errors import BrokerError, LocalProtocolError
from transport.wire.arguments import CHECK, DECLARED_WITH, SETTING_ARGUMENTS, say_settings
from transport.wire.names import check_name

if TYPE_CHECKING:
    from collections.abc import Mapping

SETTING_NAMES: Final = tuple(each.name for each in SETTING_ARGUMENTS.values())


def _named(settings: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return by_own_names(settings)
    except ValueError as error:
        raise LocalProtocolError(str(error)) from None


class QueueCommands(ABC):
    """These commands, for who can send one."""

    @abstractmethod
    async def _command(self, name: str, arguments: Facts | None = None) -> Any:
        """Send one COMMAND and wait for its RESULT's JSON value."""

    @abstractmethod
    async def _list(self, command: str, what: str, arguments: Facts | None = None) -> list[Facts]:
        """All rows of a list."""

    @abstractmethod
    def _bad_answer(self, command: str, answer: object) -> NoReturn:
        """End the connection, and say what of an answer cannot be."""

    async def queues(self) -> list[Facts]:
        """Every queue: ``name``, ``ready``, ``in_flight`` and its other figures."""
        return await self._list("queue.list", "queues")

    async def queue(self, name: str) -> Facts:
        """The facts of one queue, as in `queues`.

        Raises:
            BrokerError: ``not-found``.
            InvalidNameError: no queue can have the name.
        """
        # A broker of before knows no such argument, and gives all of them.
        found = await self._list("queue.list", "queues", {"name": check_name(name, "queue")})
        for queue in found:
            if queue.get("name") == name:
                return queue
        raise BrokerError("not-found", f"there is no queue {name!r}")

    async def check_queue(self, name: str, settings: Mapping[str, Any], *, alter: bool = False) -> Facts:
        """What `create_queue`, or `alter_queue`, would make of ``settings``; the broker judges all of it and changes nothing.

        Returns:
            all settings that the queue would have; for one that would be created also ``room``: how many queues more there can be.

        Raises:
            BrokerError: what the command would raise; ``protocol-error`` also from a broker of before, which cannot judge without changing.
            InvalidNameError: no queue can have the name.
            ImpossibleTimeError: a time is no number of 0 or more.
        """
        said = say_settings(dict.fromkeys(SETTING_NAMES) | _named(settings))
        command = "queue.alter" if alter else "queue.create"
        answer = await self._command(command, {"name": check_name(name, "queue"), **said, CHECK: True})
        if not isinstance(answer, dict):
            self._bad_answer(command, answer)
        return answer

    async def create_queue(
        self,
        name: str,
        max_messages: float | None = None,
        max_bytes: float | None = None,
        visibility_timeout: float | None = None,
        *,
        overflow: str | None = None,
        max_receives: int | None = None,
        dead_letter_queue: str | None = None,
        delay: float | None = None,
        ttl: float | None = None,
        exclusive: bool | None = None,
        max_staged_messages: int | None = None,
        max_staged_bytes: int | None = None,
        subscription_expiry: float | None = None,
        durable: bool | None = None,
        dead_letter_exchange: str | None = None,
        dead_letter_routing_key: str | None = None,
        expires: float | None = None,
        single_active_consumer: bool | None = None,
        retry_delay: float | None = None,
        retry_max_delay: float | None = None,
        drop_failed: bool | None = None,
        max_priority: int | None = None,
        deduplication_window: float | None = None,
        max_deduplication_ids: int | None = None,
        groups: bool | None = None,
        declared_with: bytes = b"",
        max_failures: int | None = None,
    ) -> None:
        """Declare a queue with settings of `QueueSettings`; what is None is the broker's. docs/configuration.md has what each does.

        0 is never for ``max_receives``, ``ttl``, ``subscription_expiry`` and ``expires``, no limit for ``max_messages`` and
        ``max_bytes``, and none for ``max_priority`` and ``deduplication_window``; a ``ttl`` of -1 is one of 0: what nobody can receive as
        it comes expires. An empty
        ``dead_letter_queue`` is the queue's own, an empty ``dead_letter_exchange`` none, and with an empty ``dead_letter_routing_key`` each
        message has its own. ``max_failures`` is another name for ``max_receives``. ``declared_with`` is kept with
        a queue that is made: what another protocol declares it with.

        Raises:
            BrokerError: ``already-exists`` with other settings, a limit, or ``protocol-error`` for a setting that cannot be.
            InvalidNameError: no queue can have the name.
            ImpossibleTimeError: a time is no number of 0 or more. What is more than 0 and less than 1 ms counts as 1 ms.
        """
        settings = say_settings(_named(locals()))  # its parameters have the names of the table
        if declared_with:
            # Not said otherwise: a broker of before refuses what it does not know.
            settings[DECLARED_WITH] = b64encode(declared_with).decode()
        await self._command("queue.create", {"name": check_name(name, "queue"), **settings})

    async def alter_queue(
        self,
        name: str,
        max_messages: float | None = None,
        max_bytes: float | None = None,
        visibility_timeout: float | None = None,
        *,
        overflow: str | None = None,
        max_receives: int | None = None,
        dead_letter_queue: str | None = None,
        delay: float | None = None,
        ttl: float | None = None,
        max_staged_messages: int | None = None,
        max_staged_bytes: int | None = None,
        subscription_expiry: float | None = None,
        dead_letter_exchange: str | None = None,
        dead_letter_routing_key: str | None = None,
        expires: float | None = None,
        retry_delay: float | None = None,
        retry_max_delay: float | None = None,
        drop_failed: bool | None = None,
        deduplication_window: float | None = None,
        max_deduplication_ids: int | None = None,
        max_failures: int | None = None,
    ) -> None:
        """Give a queue that is there other settings; what is None stays as it is. docs/configuration.md has what follows when.

        0 is never for ``max_receives``, ``ttl``, ``subscription_expiry`` and ``expires``, no limit for ``max_messages`` and
        ``max_bytes``, and none for ``deduplication_window``; a ``ttl`` of -1 is one of 0: what nobody can receive as it comes expires.
        An empty
        ``dead_letter_queue`` is the queue's own, an empty ``dead_letter_exchange`` none, and with an empty ``dead_letter_routing_key`` each
        message has its own. ``max_failures`` is another name for ``max_receives``.

        Raises:
            BrokerError: ``not-found``, or ``protocol-error`` for a setting that cannot be, and where none is given.
            InvalidNameError: no queue can have the name.
            ImpossibleTimeError: a time is no number of 0 or more. What is more than 0 and less than 1 ms counts as 1 ms.
        """
        settings = say_settings(_named(locals()) | dict.fromkeys(UNALTERABLE))  # as in `create_queue`
        await self._command("queue.alter", {"name": check_name(name, "queue"), **settings})

    async def delete_queue(self, name: str) -> int | None:
        """Delete a queue with all it holds; its connections end with ``queue-deleted``. Returns how many, where the broker says.

        Clients that reconnect make the queue anew, with the broker's settings.

        Raises:
            BrokerError: ``not-found``.
        """
        return count_of(await self._command("queue.delete", {"name": check_name(name, "queue")}), "connections")

    async def purge_queue(self, name: str) -> int | None:
        """Drop what is ready or delayed; what receivers hold stays theirs. Returns how many messages, where the broker says.

        Raises:
            BrokerError: ``not-found``.
        """
        return count_of(await self._command("queue.purge", {"name": check_name(name, "queue")}), "purged")
