"""The administration client: queues, subscriptions and statistics over the sending address. docs/protocol.md, "Administration"."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from types import TracebackType
from typing import Any, NoReturn, Self, cast

from transport.clients.administration_link import AdministrationLink
from transport.clients.backoff import DEFAULT_CONNECT_TIMEOUT, Backoff
from transport.errors import BrokerError, ConnectionLostError, PeerTimeoutError, RemoteProtocolError, TransportError
from transport.wire.address import DEFAULT_SEND_ADDRESS, parse_address
from transport.wire.arguments import say_settings
from transport.wire.names import check_name
from transport.wire.receiving import Part

DEFAULT_TIMEOUT = 10.0
"""Seconds in which one command must be answered."""
CLOSE_TIMEOUT = 2.0
"""Seconds that closing may take; nothing of value is lost by then."""
PAGE_ROWS = 500
"""Rows of a list asked for at a time."""
MAX_LIST_BYTES = 128 * 1024 * 1024
"""Of all pages of a list together: some 180,000 queues, ten times what a broker has by default; in memory a few times as much."""
LIST_TIMEOUTS = 6
"""All pages of a list have so many times what one command has, however many they are."""
RETRY = Backoff(minimum=0.05, maximum=1.0)
"""A person waits for these commands, so the attempts come quicker than a stream's."""
CLOSED = "this administration client was closed"

Facts = dict[str, Any]
"""One JSON object of an answer."""


class Administration:
    """A connection in the role ``admin``; an async context manager.

    After a command that was not answered in time, or any error that closes, the connection is over and every later command
    raises `ConnectionLostError`.

    Attributes:
        address: where the broker is.
        epoch: the broker's epoch, once connected.
    """

    def __init__(
        self,
        address: str = DEFAULT_SEND_ADDRESS,
        *,
        connect_timeout: float = DEFAULT_CONNECT_TIMEOUT,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> None:
        self.address = parse_address(address)
        self.epoch = 0
        self._connect_timeout = connect_timeout
        self._timeout = timeout
        self._link: AdministrationLink | None = None
        self._closed = asyncio.Event()

    async def __aenter__(self) -> Self:
        """Connect.

        Raises:
            ConnectionLostError: no broker answered within the time allowed.
            BrokerError: it refused.
        """
        await self._connect()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End the connection, or the attempts to make one; a command under way fails."""
        self._closed.set()
        if self._link is not None:
            await _let_go(self._link)

    async def queues(self) -> list[Facts]:
        """Every queue: ``name``, ``ready``, ``in_flight`` and its other figures."""
        return await self._list("queue.list", "queues")

    async def create_queue(
        self,
        name: str,
        max_messages: int | None = None,
        max_bytes: int | None = None,
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
    ) -> None:
        """Declare a queue with settings of `QueueSettings`; what is None is the broker's. docs/configuration.md has what each does.

        0 is never for ``max_receives`` and ``ttl``, and an empty ``dead_letter_queue`` is the queue's own.

        Raises:
            BrokerError: ``already-exists`` with other settings, or a limit.
            ImpossibleTimeError: a time is no number of 0 or more. What is more than 0 and less than 1 ms counts as 1 ms.
        """
        settings = say_settings(locals())  # its parameters have the names of the table
        await self._command("queue.create", {"name": check_name(name, "queue"), **settings})

    async def delete_queue(self, name: str) -> int | None:
        """Delete a queue with all it holds; its connections end with ``queue-deleted``. Returns how many, where the broker says.

        Clients that reconnect make the queue anew, with the broker's settings.

        Raises:
            BrokerError: ``not-found``.
        """
        return _count(await self._command("queue.delete", {"name": check_name(name, "queue")}), "connections")

    async def purge_queue(self, name: str) -> int | None:
        """Drop what is ready or delayed; what receivers hold stays theirs. Returns how many messages, where the broker says.

        Raises:
            BrokerError: ``not-found``.
        """
        return _count(await self._command("queue.purge", {"name": check_name(name, "queue")}), "purged")

    async def statistics(self) -> Facts:
        """The broker's figures: ``broker`` and ``storage`` (an object each), ``queues`` and ``connections`` (lists of objects).

        ``storage`` is None where the broker keeps everything in memory.
        """
        answer = await self._command("stats", {"lists": False})
        if not isinstance(answer, dict):
            self._bad_answer("stats", answer)
        if "queues" not in answer:
            # A broker of before gives the lists whatever it is asked.
            answer["queues"] = await self._list("queue.list", "queues")
            answer["connections"] = await self._list("connection.list", "connections")
        return answer

    async def subscriptions(self) -> list[Facts]:
        """Every subscription: ``queue``, ``name`` and its figures; docs/protocol.md, "Administration", has them."""
        return await self._list("subscription.list", "subscriptions")

    async def release_subscription(self, queue: str, name: str) -> int | None:
        """End a subscription's reservations; its messages become receivable again in their old place. Returns how many.

        Raises:
            BrokerError: ``not-found``.
        """
        arguments = {"queue": check_name(queue, "queue"), "name": check_name(name, "subscription")}
        return _count(await self._command("subscription.release", arguments), "released")

    async def delete_subscription(self, queue: str, name: str) -> int | None:
        """Forget a subscription whose owner is gone; what it had reserved becomes receivable again. Returns how many messages.

        Raises:
            BrokerError: ``not-found``, or ``subscription-owned`` while its owner is connected.
        """
        arguments = {"queue": check_name(queue, "queue"), "name": check_name(name, "subscription")}
        return _count(await self._command("subscription.delete", arguments), "released")

    async def transactions(self) -> list[Facts]:
        """Every open transaction: ``writer``, ``version``, ``queues`` (names), ``stages``, ``messages`` and ``bytes``."""
        return await self._list("transaction.list", "transactions")

    async def abort_transaction(self, writer: str, version: int) -> int | None:
        """Discard what a transaction has staged; a committed one is not undone. Returns how many messages, where the broker says."""
        arguments = {"writer": check_name(writer, "writer"), "version": version}
        return _count(await self._command("transaction.abort", arguments), "discarded")

    # Inside

    async def _connect(self) -> None:
        if self._link is not None:
            raise ConnectionLostError("an administration client connects once; make a new one")
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._connect_timeout
        attempt = 0
        while not self._closed.is_set():
            error = await self._attempt(deadline)
            if error is None:
                return
            delay = RETRY.delay(attempt, random.random())  # noqa: S311 - spreads clients out, guards nothing
            if loop.time() + delay >= deadline and not self._closed.is_set():
                raise self._unreachable(error) from error
            attempt += 1
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(delay):
                    await self._closed.wait()
        raise ConnectionLostError(CLOSED)

    async def _attempt(self, deadline: float) -> Exception | None:
        """Connect; returns the error after which another attempt may do better."""
        link = self._link = AdministrationLink(self.address)
        try:
            self.epoch = (await link.open(deadline)).epoch
        except BaseException as error:
            self._link = None
            link.end(ConnectionLostError(CLOSED))
            lost = isinstance(error, OSError | ConnectionLostError | PeerTimeoutError)
            if lost or (isinstance(error, BrokerError) and error.transient):
                return cast("Exception", error)
            raise
        return None

    def _unreachable(self, error: Exception) -> TransportError:
        if isinstance(error, BrokerError):
            return error
        within = f"within {self._connect_timeout:g} s: {str(error) or 'no answer'}"
        return ConnectionLostError(f"no connection to the broker at {self.address} {within}")

    async def _command(self, name: str, arguments: Facts | None = None) -> Any:
        """Send one COMMAND and wait for its RESULT's JSON value."""
        return _parsed(name, await self._ask(name, arguments or {}, self._timeout))

    async def _ask(self, name: str, arguments: Facts, seconds: float) -> Part:
        if self._link is None:
            if self._closed.is_set():
                raise ConnectionLostError(CLOSED)
            raise ConnectionLostError("connect first: async with Administration(...) as administration")
        return await self._link.ask(name, arguments, seconds)

    async def _list(self, command: str, what: str) -> list[Facts]:
        """All rows of a list, page after page; a broker of before gives them at once.

        What `next` is like is the broker's business: pages without end are known by one that comes again or is empty, bytes, or time.
        """
        clock = asyncio.get_running_loop().time
        rows: list[Facts] = []
        page: Facts = {"limit": PAGE_ROWS}
        seen: set[str] = set()
        size = 0
        deadline = clock() + LIST_TIMEOUTS * self._timeout
        while True:
            left = deadline - clock()
            if left <= 0:
                whole = LIST_TIMEOUTS * self._timeout
                raise PeerTimeoutError(f"{len(rows)} {what} came within {whole:g} s, not all: allow a longer timeout")
            body = await self._ask(command, page, min(self._timeout, left))
            size += len(body)
            if size > MAX_LIST_BYTES:
                raise RemoteProtocolError(
                    f"the broker's list of {what} exceeds {MAX_LIST_BYTES} bytes: {size} have come"
                )
            answer = _parsed(command, body)
            if not isinstance(answer, dict):
                return self._objects(answer, what)
            more = self._objects(answer.get("rows"), what)
            rows += more
            following = answer.get("next")
            if following is None:
                return rows
            if not isinstance(following, str):
                self._bad_answer(what, answer)
            if following in seen or not more:
                raise RemoteProtocolError(f"the broker's list of {what} has no end: a page leads back, or has no row")
            seen.add(following)
            page["after"] = following

    def _objects(self, answer: object, what: str) -> list[Facts]:
        """The list of objects that an answer is."""
        if not isinstance(answer, list) or not all(isinstance(item, dict) for item in answer):
            self._bad_answer(what, answer)
        return answer

    def _bad_answer(self, what: str, answer: object) -> NoReturn:
        raise RemoteProtocolError(f"the broker's answer about {what} is of another shape: {answer!r:.80}")


def _parsed(name: str, body: Part) -> Any:
    try:
        return json.loads(bytes(body) or b"null")
    except (ValueError, RecursionError) as error:
        raise RemoteProtocolError(f"the answer to {name} is not JSON: {error}") from error


def _count(answer: object, key: str) -> int | None:
    value = answer.get(key) if isinstance(answer, dict) else None
    return value if type(value) is int else None


async def _let_go(link: AdministrationLink) -> None:
    link.end(ConnectionLostError(CLOSED))
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(CLOSE_TIMEOUT):
            await link.closed()
