"""What administration does about schedules: it declares, lists, pauses and deletes them."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any, Final

from transport.clients.message_commands import Facts, has_changed
from transport.errors import LimitExceededError, LocalProtocolError, RemoteProtocolError
from transport.wire.names import check_name
from transport.wire.timing import check_priority, setting_milliseconds

MAX_COMMAND_BYTES: Final = 4_000
"""What a command may say of a schedule, its payload in base64: a frame's header has 4 KiB."""


class ScheduleCommands(ABC):
    """These commands, for who can send one. docs/schedules.md says what schedules do."""

    @abstractmethod
    async def _command(self, name: str, arguments: Facts | None = None) -> Any:
        """Send one COMMAND and wait for its RESULT's JSON value."""

    @abstractmethod
    async def _list(self, command: str, what: str, arguments: Facts | None = None) -> list[Facts]:
        """All rows of a list."""

    async def schedules(self) -> list[Facts]:
        """Every schedule: what it was declared with, but for payload and headers, and how it stands.

        That is ``state`` (``scheduled``, ``waiting``, ``failing``, ``paused`` or ``over``), ``next`` and ``waiting`` (times, as ISO 8601
        has them, or None), ``times_fired``, ``times_missed``, ``times_failed``, and ``error``.
        """
        return await self._list("schedule.list", "schedules")

    async def schedule(self, name: str) -> Facts:
        """One schedule: as in `schedules`, with ``payload`` (bytes) and ``headers``.

        Raises:
            BrokerError: ``not-found``.
        """
        answer = await self._command("schedule.show", {"name": check_name(name, "schedule")})
        try:
            found: Facts = answer | {"payload": b64decode(answer["payload"], validate=True)}
        except (TypeError, KeyError, ValueError) as error:
            raise RemoteProtocolError(
                f"the broker's answer about a schedule is of another shape: {answer!r:.80}"
            ) from error
        return found

    async def declare_schedule(
        self,
        name: str,
        expression: str,
        *,
        queue: str | None = None,
        exchange: str | None = None,
        routing_key: str = "",
        payload: bytes = b"",
        headers: Mapping[str, str] | None = None,
        key: str | bytes = "",
        ttl: float | None = None,
        priority: int = 0,
        zone: str = "UTC",
        missed: str = "skip",
        replace: bool = False,
    ) -> bool:
        """A schedule is to be there; one that is there must say the same. Returns whether something has changed.

        Args:
            name: its name.
            expression: when: of cron, such as ``0 8 * * MON-FRI``, or an interval, such as ``every 30s``.
            queue: where its messages go, unless they go to an exchange. One that is not there is made.
            exchange: the exchange.
            routing_key: with which they are published there.
            payload: of each message.
            headers: of each message, beside ``penstock-schedule`` and ``penstock-scheduled-for``.
            key: of each message: a text, or its bytes in UTF-8, as a `Message` has it.
            ttl: seconds after which a message is of no use; with 0 it goes to who can receive it as it comes, or expires.
            priority: of each message, where its queue has levels (``max_priority``).
            zone: the time zone that a cron expression is meant in.
            missed: what is done about times that passed while nothing could be stored: ``skip``, ``once`` or ``all``.
            replace: whether it takes the place of one that says something else, and begins anew.

        Raises:
            BrokerError: ``already-exists`` with something else, ``protocol-error`` for what cannot be, ``not-found`` for the exchange,
                ``forbidden``, or a limit.
            InvalidNameError: nothing can have the name.
            LimitExceededError: it is more than a command can say.
            LocalProtocolError: the payload is no bytes, or the key or a header no text; or the priority cannot be.
        """
        key = _check_content(payload, key, headers or {})
        check_priority(priority)
        said: Facts = {"name": check_name(name, "schedule"), "expression": expression, "zone": zone, "missed": missed}
        if queue is not None:
            said["queue"] = check_name(queue)
        if exchange is not None:
            said["exchange"] = check_name(exchange, "exchange") if exchange else exchange
        said |= {"routing_key": routing_key, "payload": b64encode(payload).decode(), "key": key, "replace": replace}
        if headers:
            said["headers"] = json.dumps(dict(headers))
        if priority:
            # A broker that is older knows of none, and says so.
            said["priority"] = priority
        if ttl is not None:
            said["ttl_ms"] = setting_milliseconds("ttl", ttl)
        size = sum(len(argument) + len(str(value).encode()) + 4 for argument, value in said.items())
        if size > MAX_COMMAND_BYTES:
            raise LimitExceededError(
                f"what is said of schedule {name!r:.60} has {size} bytes, payload and headers included, and MAX_COMMAND_BYTES is "
                f"{MAX_COMMAND_BYTES}: have the message say where the rest is"
            )
        return has_changed(await self._command("schedule.create", said))

    async def delete_schedule(self, name: str) -> None:
        """Delete a schedule. What it has stored stays.

        Raises:
            BrokerError: ``not-found``.
        """
        await self._command("schedule.delete", {"name": check_name(name, "schedule")})

    async def pause_schedule(self, name: str) -> bool:
        """Nothing is to come of a schedule until it is resumed. Returns whether something has changed; errors as of `delete_schedule`."""
        return has_changed(await self._command("schedule.pause", {"name": check_name(name, "schedule")}))

    async def resume_schedule(self, name: str) -> bool:
        """A schedule is to go on, from the next of its times. As `pause_schedule`."""
        return has_changed(await self._command("schedule.resume", {"name": check_name(name, "schedule")}))


def _check_content(payload: object, key: object, headers: Mapping[str, object]) -> str:
    """What each message of a schedule holds; its key as the text that it is: unlike what is sent, key and headers are texts."""
    if not isinstance(payload, bytes | bytearray | memoryview):
        raise LocalProtocolError(f"the payload of a schedule must be bytes, not {type(payload).__name__}")
    if isinstance(key, bytes):
        try:
            key = key.decode()
        except UnicodeDecodeError:
            raise LocalProtocolError(f"the key of a schedule must be UTF-8, which {key!r:.60} is not") from None
    if not isinstance(key, str):
        raise LocalProtocolError(f"the key of a schedule must be a str, or bytes of UTF-8, not {type(key).__name__}")
    for name, value in headers.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise LocalProtocolError(
                f"the header {name!r:.60} of a schedule must be a str with a str, not {type(value).__name__}"
            )
    return key
