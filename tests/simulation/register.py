"""A cluster's register in virtual time: as slow, deaf and forgetful as one that is reached over a network, and never wrong.

What reaches it is carried out at once and in full, as an etcd does. What may go wrong is the way there and back: a request is refused, or
lost, or arrives when nobody waits for it any more; an answer is lost. Everything that is by chance comes from one random generator. What is
under way belongs to no process: a swap of one that was killed may still land.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from random import Random
from typing import NamedTuple, TypeVar

from actors.replication.document import ClusterDocument, decode_document, encode_document
from actors.replication.register import (
    NOTHING,
    RegisterMovedError,
    RegisterUnavailableError,
    SwapUnknownError,
    Versioned,
)
from streams.testkit import elapse

CALL_SECONDS = 3.0
"""As the one in etcd has it."""
MAX_STEP = 5
"""Revisions that others take between two of the document: versions need not follow on."""

T = TypeVar("T")


class Fault(Enum):
    """What becomes of one call."""

    NONE = auto()
    REFUSED = auto()
    """There is no connection: nothing is sent."""
    LOST_REQUEST = auto()
    """It is sent, and never arrives."""
    LOST_ANSWER = auto()
    """It is carried out, and nobody is told."""
    LATE = auto()
    """It arrives when nobody waits for an answer any more."""
    HELD = auto()
    """It arrives when ``SimulatedRegister.release`` says so."""


@dataclass(frozen=True)
class RegisterFaults:
    """How often what happens, as shares of all calls; the rest comes through.

    Attributes:
        refused, lost_request, lost_answer, late: as of `Fault`.
        latency: seconds one way, between these.
        lateness: seconds that what is late takes, between these.
    """

    refused: float = 0.0
    lost_request: float = 0.0
    lost_answer: float = 0.0
    late: float = 0.0
    latency: tuple[float, float] = (0.001, 0.05)
    lateness: tuple[float, float] = (CALL_SECONDS, 10 * CALL_SECONDS)

    def draw(self, random: Random) -> Fault:
        """What becomes of a call."""
        chance = random.random()
        for fault, share in (
            (Fault.REFUSED, self.refused),
            (Fault.LOST_REQUEST, self.lost_request),
            (Fault.LOST_ANSWER, self.lost_answer),
            (Fault.LATE, self.late),
        ):
            if chance < share:
                return fault
            chance -= share
        return Fault.NONE


class Written(NamedTuple):
    """A swap that was carried out.

    Attributes:
        time: when.
        by: whose it was.
        version: of the document since.
        document: what was written.
    """

    time: float
    by: str
    version: int
    document: ClusterDocument


class SimulatedRegister:
    """The register itself; each node has a `client`.

    Args:
        loop: whose time it goes by. On the simulation's own loop what is under way comes in the schedule's order.
        random: where chance comes from.
        faults: how often what goes wrong.

    Attributes:
        faults: may be changed at any time.
        planned: what becomes of the next calls, before chance decides.
        forgets_swaps: whether swaps that arrive are carried out and nobody is told of them.
        history: all that was written, in order.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, random: Random, faults: RegisterFaults | None = None) -> None:
        self.faults = faults or RegisterFaults()
        self.planned: deque[Fault] = deque()
        self.forgets_swaps = False
        self.history: list[Written] = []
        self._loop = loop
        self._random = random
        self._version = NOTHING
        self._content: bytes | None = None
        self._refusing: dict[str, None] = {}
        self._silent: dict[str, None] = {}
        self._held: list[Callable[[], None]] = []
        self._context = contextvars.Context()

    def client(self, name: str) -> SimulatedClient:
        """The register as the node ``name`` reaches it."""
        return SimulatedClient(self, name)

    @property
    def now(self) -> Versioned:
        """What it holds."""
        return Versioned(self._version, None if self._content is None else decode_document(self._content))

    # Who reaches it

    def refuse(self, *names: str) -> None:
        """Have these find nobody there."""
        self._refusing.update(dict.fromkeys(names))

    def silence(self, *names: str) -> None:
        """Have nothing come through from or to these; some of what they send meanwhile arrives when they are healed."""
        self._silent.update(dict.fromkeys(names))

    def heal(self, *names: str) -> None:
        """Have these reach it again."""
        for name in names:
            self._refusing.pop(name, None)
            self._silent.pop(name, None)
        self.release()

    def release(self) -> None:
        """Have what was held back arrive, in any order."""
        held, self._held = self._held, []
        self._random.shuffle(held)
        for arrive in held:
            self.later(self._random.uniform(*self.faults.latency), arrive)

    # For its clients

    async def call(self, name: str, carry_out: Callable[[], T], *, swaps: bool = False) -> T:
        """Have ``carry_out`` called when it arrives, and its result come back; ``swaps`` says that it changes something.

        Raises:
            RegisterUnavailableError: nothing was sent.
            TimeoutError: no answer has come.
        """
        fault = self.planned.popleft() if self.planned else self.faults.draw(self._random)
        if swaps and self.forgets_swaps and fault is Fault.NONE:
            fault = Fault.LOST_ANSWER
        if name in self._refusing:
            fault = Fault.REFUSED
        elif name in self._silent:
            fault = Fault.HELD if self._random.random() < 0.5 else Fault.LOST_REQUEST
        latency = self._random.uniform(*self.faults.latency)
        if fault is Fault.REFUSED:
            await elapse(latency)
            raise RegisterUnavailableError("nobody is there")
        answer: asyncio.Future[T] = self._loop.create_future()

        def come_back(result: T) -> None:
            if not answer.done():
                answer.set_result(result)

        def arrive() -> None:
            result = carry_out()
            if fault is Fault.NONE and name not in self._silent:
                self.later(self._random.uniform(*self.faults.latency), lambda: come_back(result))

        if fault is Fault.HELD:
            self._held.append(arrive)
        elif fault is Fault.LATE:
            self.later(self._random.uniform(*self.faults.lateness), arrive)
        elif fault in (Fault.NONE, Fault.LOST_ANSWER):
            self.later(latency, arrive)
        async with asyncio.timeout(CALL_SECONDS):
            return await answer

    def later(self, seconds: float, callback: Callable[[], object]) -> None:
        """Have something happen that belongs to no process."""
        arrive_at = getattr(self._loop, "arrive_at", None)
        if arrive_at is None:
            self._loop.call_later(seconds, callback, context=self._context)
        else:
            arrive_at(self._loop.time() + seconds, None, callback, self._context)

    def compare_and_swap(self, name: str, version: int, content: bytes) -> tuple[bool, int]:
        """Whether it was carried out, and the version that there is now."""
        if version != self._version:
            return False, self._version
        self._version += self._random.randint(1, MAX_STEP)
        self._content = content
        self.history.append(Written(self._loop.time(), name, self._version, decode_document(content)))
        return True, self._version


class SimulatedClient:
    """One node's way to it; implements `actors.replication.register.Register`."""

    def __init__(self, register: SimulatedRegister, name: str) -> None:
        self._register = register
        self._name = name

    async def read(self) -> Versioned:
        """As of `Register`."""
        try:
            return await self._register.call(self._name, lambda: self._register.now)
        except TimeoutError:
            raise RegisterUnavailableError("the simulated register does not answer") from None

    async def swap(self, version: int, document: ClusterDocument) -> int:
        """As of `Register`."""
        content = encode_document(document)
        try:
            done, seen = await self._register.call(
                self._name, lambda: self._register.compare_and_swap(self._name, version, content), swaps=True
            )
        except TimeoutError:
            raise SwapUnknownError("the simulated register does not answer") from None
        if not done:
            raise RegisterMovedError(seen)
        return seen
