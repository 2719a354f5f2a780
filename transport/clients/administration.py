"""The administration client: queues, subscriptions and statistics over the sending address. docs/protocol.md, "Administration"."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any, NoReturn, Self, cast

from transport.clients.authentication import Credentials
from transport.clients.backoff import DEFAULT_CONNECT_TIMEOUT, Backoff
from transport.clients.cluster_commands import ClusterCommands
from transport.clients.exchange_commands import ExchangeCommands
from transport.clients.link import BrokerLink, FrameConnection
from transport.clients.message_commands import Facts as Facts  # noqa: PLC0414 - given here too
from transport.clients.message_commands import MessageCommands, count_of
from transport.clients.queue_commands import QueueCommands
from transport.clients.schedule_commands import ScheduleCommands
from transport.errors import (
    AuthenticationError,
    BrokerError,
    ConnectionLostError,
    PeerTimeoutError,
    RemoteProtocolError,
)
from transport.security.access import Access
from transport.wire.address import DEFAULT_SEND_ADDRESS
from transport.wire.contact_points import parse_contact_points, written
from transport.wire.messages import ANY_NODE, VERSION, Command, Error, Frame, Hello, Result, Welcome
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
FIRST_RETRY, LAST_RETRY = 0.05, 1.0
"""Seconds between attempts to connect. A person waits for these commands, so they come quicker than a stream's."""
HELLO = Hello(VERSION, "admin", None, None, {})
HELLO_ANY = Hello(VERSION, "admin", None, None, {ANY_NODE: True})
CLOSED = "this administration client was closed"


class _Link(BrokerLink):
    """One that knows what the attempts had come to before its connection was made; that counts no more where nobody answers on it."""

    before: Exception | None = None

    def connection_opened(self, connection: FrameConnection) -> None:
        """See `BrokerLink`."""
        self.before = self.error
        super().connection_opened(connection)


class Administration(QueueCommands, MessageCommands, ExchangeCommands, ScheduleCommands, ClusterCommands):
    """A connection in the role ``admin``, with one command at a time; an async context manager.

    A refusal (ERROR that does not close) carries no request number, so it belongs to the command that waits. After a command that was not
    answered in time, or any error that closes, the connection is over and every later command raises `ConnectionLostError`.

    Args:
        address: the broker's sending address, or several of a cluster.
        connect_timeout: seconds to find it.
        timeout: seconds for each command.
        access: who asks.
        any_node: whether a broker of a cluster is to let it in that does not lead; `cluster` is all that it does there.

    Attributes:
        address: where the broker is: of several contact points the one that has let it in, or was tried last.
        epoch: the broker's epoch, once connected.
    """

    def __init__(
        self,
        address: str | Sequence[str] = DEFAULT_SEND_ADDRESS,
        *,
        connect_timeout: float = DEFAULT_CONNECT_TIMEOUT,
        timeout: float = DEFAULT_TIMEOUT,
        access: Access | None = None,
        any_node: bool = False,
    ) -> None:
        self._hello = HELLO_ANY if any_node else HELLO
        self._addresses = parse_contact_points(address, "an administration client")
        self.address = self._addresses[0]
        self.epoch = 0
        self._connect_timeout = connect_timeout
        self._timeout = timeout
        self._access = access
        self._credentials = Credentials(access)
        self._link: _Link | None = None
        # Why it has ended; None while it has not.
        self._over: Exception | None = None
        self._waiting: asyncio.Future[Frame] | None = None
        self._turn = asyncio.Lock()
        self._request = 0

    async def __aenter__(self) -> Self:
        """Connect.

        Raises:
            ConnectionLostError: no broker answered within the time allowed.
            BrokerError: it refused.
        """
        if self._link is not None:
            raise ConnectionLostError("an administration client connects once; make a new one")
        if self._over is not None:
            raise self._over
        backoff = Backoff(FIRST_RETRY, LAST_RETRY, give_up_after=self._connect_timeout)
        link = self._link = _Link(
            written(self._addresses), lambda: self._hello, self, backoff, credentials=self._credentials
        )
        link.start()
        try:
            self.epoch = cast("Welcome", await self._answered(self._connect_timeout)).epoch
        except BaseException as error:
            link.abort()
            if self._over is None:
                # Not by `close`: it may be tried again.
                self._link = None
            if not isinstance(error, TimeoutError):
                raise
            self.address = link.address
            failure = self._unreachable(self._told_before(link) or error)
        else:
            return self
        raise failure

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def addresses(self) -> tuple[str, ...]:
        """The contact points that it was given."""
        return tuple(str(each) for each in self._addresses)

    @property
    def connect_timeout(self) -> float:
        """Seconds that it was given to find the broker."""
        return self._connect_timeout

    def another(self, connect_timeout: float | None = None) -> Administration:
        """A client like this one, of the same broker and not yet connected: a client connects once. Its time to connect may be another."""
        return Administration(
            written(self._addresses),
            connect_timeout=self._connect_timeout if connect_timeout is None else connect_timeout,
            timeout=self._timeout,
            access=self._access,
            any_node=self._hello is HELLO_ANY,
        )

    def elsewhere(self, address: str, *, any_node: bool = False) -> Administration:
        """`another`, of the broker at another address: another node of its cluster, say, also one that does not lead (``any_node``)."""
        other = self.another()
        if any_node:
            other._hello = HELLO_ANY
        other._addresses = parse_contact_points(address, "an administration client")
        other.address = other._addresses[0]
        return other

    async def close(self) -> None:
        """End the connection, or the attempts to make one; a command under way fails."""
        self._end(ConnectionLostError(CLOSED))
        if self._link is not None:
            await asyncio.wait((self._link.over,), timeout=CLOSE_TIMEOUT)

    async def statistics(self) -> Facts:
        """The broker's figures: ``broker``, ``storage`` and ``exchanges`` (objects), ``queues`` and ``connections`` (lists of objects).

        ``storage`` is None where the broker keeps everything in memory. ``exchanges`` is of all of them together.
        """
        answer = await self._command("stats", {"lists": False})
        if not isinstance(answer, dict):
            self._bad_answer("stats", answer)
        if "queues" not in answer:
            # A broker of before gives the lists whatever it is asked.
            answer["queues"] = await self._list("queue.list", "queues")
            answer["connections"] = await self.connections()
        return answer

    async def subscriptions(self) -> list[Facts]:
        """Every subscription: ``queue``, ``name`` and its figures; docs/protocol.md, "Administration", has them."""
        return await self._list("subscription.list", "subscriptions")

    async def release_subscription(self, queue: str, name: str, force: bool = False) -> int | None:
        """End a subscription's reservations; its messages become receivable again in their old place. Returns how many.

        Args:
            queue: its queue.
            name: the subscription.
            force: also while its owner is connected. What that has read and not acknowledged then comes again, to it or to others.

        Raises:
            BrokerError: ``not-found``, or ``subscription-owned`` while its owner is connected.
        """
        arguments: dict[str, Any] = {"queue": check_name(queue, "queue"), "name": check_name(name, "subscription")}
        if force:
            # Not said otherwise: a broker of before knows no such argument, and refuses nobody.
            arguments["force"] = True
        return count_of(await self._command("subscription.release", arguments), "released")

    async def delete_subscription(self, queue: str, name: str) -> int | None:
        """Forget a subscription whose owner is gone; what it had reserved becomes receivable again. Returns how many messages.

        Raises:
            BrokerError: ``not-found``, or ``subscription-owned`` while its owner is connected.
        """
        arguments = {"queue": check_name(queue, "queue"), "name": check_name(name, "subscription")}
        return count_of(await self._command("subscription.delete", arguments), "released")

    async def transactions(self) -> list[Facts]:
        """Every open transaction: ``writer``, ``version``, ``queues`` (names), ``stages``, ``messages`` and ``bytes``."""
        return await self._list("transaction.list", "transactions")

    async def abort_transaction(self, writer: str, version: int) -> int | None:
        """Discard what a transaction has staged; a committed one is not undone. Returns how many messages, where the broker says."""
        arguments = {"writer": check_name(writer, "writer"), "version": version}
        return count_of(await self._command("transaction.abort", arguments), "discarded")

    # LinkUser

    def link_opened(self, welcome: Welcome) -> None:
        """The broker is there."""
        if self._link is not None:
            self.address = self._link.address
        self._answer(welcome)

    def link_frame(self, frame: Frame) -> None:
        """The answer to the command that waits."""
        if isinstance(frame, Error):
            if self._request:
                self._answer(BrokerError(frame.code, frame.text))
            return
        if isinstance(frame, Result) and frame.request != self._request:
            raise RemoteProtocolError(f"a RESULT for request {frame.request}; {self._request} was asked")
        self._answer(frame)

    def link_writable(self) -> None:
        """One command is under way at a time: there is nothing to hold back."""

    def link_lost(self, error: Exception | None) -> None:
        """It is over; whoever waits is told why."""
        if isinstance(error, OSError):
            error = ConnectionLostError(f"the connection to the broker at {self.address} broke: {error}")
        self._end(error or ConnectionLostError("the broker closed the connection"))

    def link_failed(self, error: Exception) -> None:
        """No connection was made."""
        if self._link is not None:
            self.address = self._link.address
        self._answer(self._unreachable(error) if isinstance(error, ConnectionLostError) else error)

    # Inside

    def _told_before(self, link: _Link) -> Exception | None:
        """What the time, which has ended under an attempt, is laid to in the place of no answer: what a broker said, or that it refuses."""
        error = link.error
        if error is None or isinstance(_root(error), BrokerError | AuthenticationError):
            return error
        return None if error is link.before or len(self._addresses) > 1 else error

    def _unreachable(self, error: BaseException) -> BaseException:
        """What the link gave up with, as it came to it."""
        error = _root(error)
        if isinstance(error, BrokerError | AuthenticationError):
            return error
        from transport.clients.reasons import advice, reason_of  # noqa: PLC0415 - only for an error

        within = f"within {self._connect_timeout:g} s: {reason_of(error) if str(error) else 'no answer'}"
        lost = ConnectionLostError(f"no connection to the broker at {self.address} {within}{advice(error)}")
        lost.__cause__ = error
        return lost

    def _end(self, error: Exception) -> None:
        """Be over because of ``error``; the first reason stands."""
        self._over = self._over or error
        self._answer(self._over)
        if self._link is not None:
            self._link.abort()

    async def _answered(self, seconds: float) -> Frame:
        self._waiting = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(seconds):
                return await self._waiting
        finally:
            self._waiting = None

    def _answer(self, answer: Frame | BaseException) -> None:
        waiting = self._waiting
        if waiting is None or waiting.done():
            return
        if isinstance(answer, BaseException):
            waiting.set_exception(answer)
        else:
            waiting.set_result(answer)

    async def _ask_for(self, name: str, arguments: Facts, seconds: float | None = None) -> Part:
        """The body of a RESULT, as `_ask`, within the time of a command or ``seconds``."""
        return await self._ask(name, arguments, seconds or self._timeout)

    async def _command(self, name: str, arguments: Facts | None = None) -> Any:
        """Send one COMMAND and wait for its RESULT's JSON value."""
        return _parsed(name, await self._ask(name, arguments or {}, self._timeout))

    async def _command_within(self, name: str, arguments: Facts, seconds: float) -> Any:
        return _parsed(name, await self._ask(name, arguments, max(seconds, self._timeout)))

    async def _ask(self, name: str, arguments: Facts, seconds: float) -> Part:
        """The body of the RESULT.

        Raises:
            BrokerError: a refusal.
            PeerTimeoutError: no answer within ``seconds``; the connection is over, for one that is late would be taken for the next one's.
            ConnectionLostError: the connection is over.
        """
        if self._link is None or not (self._over or self._link.is_open):
            raise self._over or ConnectionLostError("connect first: async with Administration(...) as administration")
        async with self._turn:
            if self._over is not None:
                raise ConnectionLostError(
                    f"not connected to the broker at {self.address}: {self._over}"
                ) from self._over
            self._request += 1
            self._link.send(Command(self._request, name, arguments))
            try:
                return cast("Result", await self._answered(seconds)).json
            except TimeoutError:
                self._end(
                    PeerTimeoutError(f"the broker at {self.address} did not answer {name} within {seconds:.3g} s")
                )
                assert self._over is not None
                raise self._over from None
            except asyncio.CancelledError:
                self._end(ConnectionLostError(f"{name} was cancelled while the broker was working on it"))
                raise

    async def _list(self, command: str, what: str, arguments: Facts | None = None) -> list[Facts]:
        """All rows of a list, page after page; a broker of before gives them at once.

        What `next` is like is the broker's business: pages without end are known by one that comes again or is empty, bytes, or time.
        """
        clock = asyncio.get_running_loop().time
        rows: list[Facts] = []
        page: Facts = {"limit": PAGE_ROWS, **(arguments or {})}
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


def _root(error: BaseException) -> BaseException:
    """What was the first of the errors that led to this one."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error
