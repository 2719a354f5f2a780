"""A program of the workload that writes in transactions, over frames of its own: stages, attempts that fail and linger, commit, abort."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any

from streams.testkit import elapse
from tests.simulation.clients import Client
from tests.simulation.history import CommitAnswered, CommitAsked, History, Noted, Staged, name_of
from tests.simulation.said import Saying, batch_of
from tests.simulation.wiretap import Frames
from transport.wire import messages as wire
from transport.wire.codec import encode

if TYPE_CHECKING:
    from tests.simulation.plan import WriterPlan

SILENCE = 12.0
"""Seconds without a word, longer than three of the longest heartbeats, after which the broker is taken for gone."""
AGAIN = 0.2
"""Mean seconds until what was interrupted is tried again."""
PASSING = frozenset({"shutting-down", "timeout", "not-leader"})
"""Errors that say no more than that the connection is over, or is to be made elsewhere."""
OVERLAP = 3
"""Messages that may be sent again after a reconnect though they are stored."""


class InterruptedByNetworkError(Exception):
    """The connection is gone, or was never there."""


class DeclinedError(Exception):
    """The broker said ERROR."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code


class Wire(asyncio.Protocol):
    """A connection's frames, one after the other."""

    def __init__(self) -> None:
        self._frames = Frames()
        self._waiting: deque[Any] = deque()
        self._over = False
        self._changed = asyncio.Event()
        self._transport: Any = None

    @classmethod
    async def open(
        cls, place: str, role: str, queue: str | None, options: dict[str, Any]
    ) -> tuple[Wire, dict[str, Any]]:
        """Connect and be welcomed; returns the WELCOME's options too."""
        host, _, port = place.partition(":")
        try:
            async with asyncio.timeout(SILENCE):
                _, protocol = await asyncio.get_running_loop().create_connection(cls, host, int(port))
        except (OSError, TimeoutError) as error:
            raise InterruptedByNetworkError from error
        protocol.say(wire.Hello(wire.VERSION, role, queue, options["writer"], options))
        try:
            return protocol, (await protocol.expect(wire.Welcome)).options
        except BaseException:
            protocol.close()
            raise

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See ``asyncio.Protocol``."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """See ``asyncio.Protocol``."""
        for frame in self._frames.feed(data):
            if isinstance(frame, wire.Ping):
                self.say(wire.Pong(frame.token))
            self._waiting.append(frame)
        self._changed.set()

    def connection_lost(self, _error: Exception | None) -> None:
        """See ``asyncio.Protocol``."""
        self._over = True
        self._changed.set()

    def say(self, frame: wire.Frame) -> None:
        """Send a frame."""
        if not self._transport.is_closing():
            self._transport.write(b"".join(bytes(part) for part in encode(frame)))

    async def following(self) -> Any:
        """The next frame; an ERROR is raised."""
        while True:
            while not self._waiting:
                if self._over:
                    raise InterruptedByNetworkError
                self._changed.clear()
                try:
                    async with asyncio.timeout(SILENCE):
                        await self._changed.wait()
                except TimeoutError:
                    self.close()
                    raise InterruptedByNetworkError from None
            frame = self._waiting.popleft()
            if isinstance(frame, wire.Error) and frame.code in PASSING:
                raise InterruptedByNetworkError
            if isinstance(frame, wire.Error):
                raise DeclinedError(frame.code, frame.text)
            if not isinstance(frame, wire.Ping | wire.Pong):
                return frame

    async def expect(self, kind: type) -> Any:
        """The next frame, which is of this kind."""
        frame = await self.following()
        assert isinstance(frame, kind), f"{frame} where {kind.__name__} was to come"
        return frame

    def close(self) -> None:
        """Hang up."""
        if self._transport is not None:
            self._transport.close()


class Attempt:
    """One attempt at one task: a stage, and what it is to hold."""

    def __init__(self, queue: str, name: str, payloads: list[bytes]) -> None:
        self.queue = queue
        self.name = name
        self.payloads = payloads


class Writer(Client):
    """Commits version after version; what a life has begun the next one goes on with."""

    def __init__(self, plan: WriterPlan, seed: int, history: History) -> None:
        super().__init__(plan.name, seed, history)
        self.plan = plan
        self._version = 0
        self._attempts = 0
        self._places = 0
        self._saying = {queue: Saying(says, f"{plan.name}-{queue}", seed) for queue, says in plan.says}
        self._lingering: list[asyncio.Task[None]] = []

    async def _live(self) -> None:
        plan = self.plan
        while self._version < plan.versions:
            await self._write(self._version)
            self._history.add(CommitAnswered(self._loop.time(), plan.name, self._version))
            self._version += 1
            if plan.pause:
                await elapse(self.random.expovariate(1 / plan.pause))
        self.finished.set_result(None)

    async def _write(self, version: int) -> None:
        """Stage a batch and commit it, again from the beginning where the broker has lost a part of it."""
        plan = self.plan
        while True:
            if self.random.random() < plan.aborts:
                await self._stage(self._attempt(plan.queues[0], 0), version, 1.0)
                await self._end(version, wire.AbortTransaction(1))
            winners: list[Attempt] = []
            for queue in plan.queues:
                for task in range(plan.tasks):
                    while self.random.random() < plan.fails:
                        await self._fail(self._attempt(queue, task), version)
                    attempt = self._attempt(queue, task)
                    if not await self._stage(attempt, version, 1.0):
                        return
                    winners.append(attempt)
            messages = tuple((each.queue, name_of(payload)) for each in winners for payload in each.payloads)
            self._history.add(CommitAsked(self._loop.time(), plan.name, version, messages))
            if await self._end(version, wire.CommitTransaction(1), winners):
                return
            self._history.add(Noted(self._loop.time(), f"{plan.name} stages version {version} again"))

    def _says(self, queue: str) -> str:
        return self._saying[queue].label() if queue in self._saying else ""

    def _attempt(self, queue: str, task: int) -> Attempt:
        self._attempts += 1
        name = f"{task}-{self._attempts}"
        label = f"{self.plan.name}/{self._version}/{name}"
        count = self.random.randint(0, self.plan.largest_stage)
        payloads = [
            f"{self._says(queue)}{label}/{number}|".encode()
            + self.random.randbytes(self.random.randint(0, self.plan.largest_payload))
            for number in range(count)
        ]
        if payloads:
            names = tuple(map(name_of, payloads))
            where = self._loop.time(), queue, f"{self.plan.name}/{self._version}/{queue}/{name}", 0
            self._history.add(Staged(*where, self.plan.name, self._version, names))
        return Attempt(queue, name, payloads)

    async def _fail(self, attempt: Attempt, version: int) -> None:
        """Stage a part of an attempt and leave it; perhaps it does not know that it has failed, and goes on."""
        await self._stage(attempt, version, 0.5)
        if self.random.random() < self.plan.lingers:
            task = asyncio.get_running_loop().create_task(self._linger(attempt, version))
            self._lingering.append(task)

    async def _linger(self, attempt: Attempt, version: int) -> None:
        await elapse(self.random.uniform(0, 3.0))
        await self._stage(attempt, version, 1.0)

    async def _open(self, role: str, queue: str | None, options: dict[str, Any]) -> tuple[Wire, dict[str, Any]]:
        """Connect where it was possible last, or to the next one of a cluster."""
        places = self.send_address.split(",")
        try:
            return await Wire.open(places[self._places % len(places)], role, queue, options)
        except InterruptedByNetworkError:
            self._places += 1
            raise

    async def _stage(self, attempt: Attempt, version: int, share: float) -> bool:
        """Stage a share of an attempt over as many connections as it takes; False if the version is committed already."""
        target = round(len(attempt.payloads) * share)
        options = {"writer": self.plan.name, "version": version, "stage": attempt.name}
        while True:
            try:
                connection, welcome = await self._open("sender", attempt.queue, options)
                try:
                    if welcome["committed"]:
                        return False
                    await self._send(connection, attempt, welcome["last_sequence"] or 0, target)
                    return True
                finally:
                    connection.close()
            except InterruptedByNetworkError:
                pass
            except DeclinedError as error:
                if error.code == "transaction-committed":
                    return False
                if error.code not in ("taken-over", "transaction-incomplete"):
                    self._failed(self.name, error)
                    return True
            await elapse(self.random.expovariate(1 / AGAIN))

    async def _send(self, connection: Wire, attempt: Attempt, stored: int, target: int) -> None:
        """Send what is not stored, within the broker's demand, and a little of what is; wait for every confirmation."""
        at = max(0, stored - self.random.randint(0, OVERLAP))
        messages = size = 0
        granted = (0, 0)
        unconfirmed: deque[int] = deque()
        while at < target or unconfirmed:
            if at < target and messages > 0 and size > 0:
                count = min(target - at, messages, self.random.randint(1, 8))
                batch = batch_of(attempt.payloads[at : at + count])
                count = max(1, min(count, batch.count_within(size)))
                batch = batch.slice(0, count)
                connection.say(wire.Send(at, None, batch))
                at, messages, size = at + count, messages - count, size - batch.nbytes
                unconfirmed.append(at)
                if self.plan.pause:
                    await elapse(self.random.expovariate(1 / self.plan.pause))
                continue
            frame = await connection.following()
            if isinstance(frame, wire.Demand):
                # Cumulative: what was granted before has been counted, and used or not.
                messages, size = messages + frame.messages - granted[0], size + frame.bytes - granted[1]
                granted = frame.messages, frame.bytes
            else:
                assert isinstance(frame, wire.Sent), frame
                assert frame.up_to == unconfirmed.popleft()
                if frame.rejected is not None:
                    raise DeclinedError("transaction-committed", frame.rejected)

    async def _end(self, version: int, request: wire.Frame, winners: list[Attempt] | None = None) -> bool:
        """Commit or abort, however often the answer is lost; False if a stage is not there whole."""
        while True:
            try:
                connection, _ = await self._open("transaction", None, {"writer": self.plan.name, "version": version})
                try:
                    for each in winners or ():
                        connection.say(wire.Enlist(each.queue, each.name, len(each.payloads)))
                    connection.say(request)
                    await connection.expect(wire.TransactionEnded)
                    return True
                finally:
                    connection.close()
            except InterruptedByNetworkError:
                pass
            except DeclinedError as error:
                if error.code != "transaction-incomplete":
                    self._failed(self.name, error)
                return False
            await elapse(self.random.expovariate(1 / AGAIN))
