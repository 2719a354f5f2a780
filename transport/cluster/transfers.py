"""Transfers over links: who gives one answers what it is asked for, piece by piece, and who takes one asks for the next when one is stored.

So there is one piece under way, or waiting for the disk, and the slower disk holds up the other. Pieces go at the pace of transfers, on a
lane of their own (`outgoing.py`). Files are read and written on threads. A transfer goes on behind a connection that has ended, from the
record that it has come to: the leader says again that one is to be taken, and then it is asked.

Senders go on meanwhile, and the log behind the checkpoint is kept only so far. So before the checkpoint is given it is asked whether its
log will still be there. If not, there is a later one, and what was stored meanwhile and is still wanted comes too: mostly little.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any, Final, Protocol, TypeVar

from actors.replication.vocabulary import TakeTransfer
from transport.cluster.frames import Buffer
from transport.cluster.records import MAX_RECORDS
from transport.cluster.transfer_messages import (
    AskRecords,
    AskState,
    GivenHead,
    GivenRecords,
    GivenState,
    NoTransfer,
    TransferMessage,
    Wait,
)
from transport.errors import RemoteProtocolError, TransportError

ASK_AGAIN_SECONDS: Final = 0.5
"""After an answer that there is nothing to be given yet."""
STILL_SECONDS: Final = 5.0
"""While something is being read for so long, whoever waits for it is told so."""
THREADS: Final = 2
"""That read and write for transfers: a node takes one at a time, and gives some at a bounded rate."""
STATE_PIECE_BYTES: Final = 1 << 20

_ASKS: Final = (AskRecords, AskState)
_ANSWERS: Final = (GivenRecords, GivenHead, GivenState, Wait, NoTransfer)

T = TypeVar("T")

logger = logging.getLogger("penstock.cluster")


class TransferRefusedError(TransportError):
    """Who was to give a transfer gives none."""


class Head(Protocol):
    """What a checkpoint is: ``journal.TransferHead``."""

    @property
    def lsn(self) -> int:
        """Every record below it is contained."""

    @property
    def epoch(self) -> int:
        """Of the record before it."""

    @property
    def epoch_first(self) -> int:
        """The first record of that."""

    @property
    def state_bytes(self) -> int:
        """Of its state."""


class Source(Protocol):
    """What is given: ``journal.TransferSource``, ready to be read."""

    lsn: int

    def records(self, lsn: int = 0) -> Iterator[list[Any]]:
        """In pieces, ascending."""

    def head(self) -> Head:
        """Of the checkpoint."""

    def state(self, most: int = STATE_PIECE_BYTES) -> Iterator[memoryview]:
        """Of the checkpoint, in pieces of so many bytes."""


class Target(Protocol):
    """Where one is taken into: ``journal.TransferTarget``."""

    next_lsn: int

    def add(self, records: Iterable[Any]) -> None:
        """The next records."""

    def begin_state(self) -> None:
        """The state comes, from its beginning."""

    def add_state(self, piece: Buffer) -> None:
        """The next of it."""

    def finish(self, head: Any) -> None:
        """All has come."""

    def close(self) -> None:
        """Let go of it."""


class Sends(Protocol):
    """What carries messages: `ClusterLinks`."""

    def send(self, peer: str, message: Any) -> bool:
        """Send one; whether there is a connection."""


class TransferNode(Protocol):
    """Who gives and takes. It is called on the loop."""

    def taking(self, peer: str) -> None:
        """Something of the transfer has come."""

    def taken(self, peer: str, head: Head) -> None:
        """The transfer is whole and finished."""

    def take_failed(self, peer: str, error: Exception) -> None:
        """It cannot go on; the target is closed."""

    def give_failed(self, peer: str, error: Exception) -> None:
        """What was to be given cannot be read."""

    def renewed(self, peer: str, source: Any) -> bool:
        """All records before the checkpoint of ``source`` were given. Whether there is to be a later one, which is then given (`give`)."""


class _Giving:
    """A transfer that is given to one peer; its files are read on one thread at a time."""

    def __init__(self, source: Source | None) -> None:
        self.source = source
        self.asked: AskRecords | AskState | None = None
        self.reading: AskRecords | AskState | None = None
        self._pieces: Iterator[list[Any]] | None = None
        self._records_at = -1
        self._state: Iterator[memoryview] | None = None
        self._state_at = -1

    def answer(self, source: Source, asked: AskRecords | AskState) -> TransferMessage:
        """On a thread: what is asked for."""
        if isinstance(asked, AskRecords):
            return self._records(source, asked.lsn)
        if asked.lsn != source.lsn:
            return _head(source, 0)
        return self._state_piece(source, asked)

    def _records(self, source: Source, lsn: int) -> TransferMessage:
        if self._pieces is None or self._records_at != lsn:
            self._pieces = _few(source.records(lsn))
        piece = next(self._pieces, None)
        if piece is None:
            self._pieces = None
            return _head(source, lsn)
        self._records_at = stop = piece[-1].lsn + 1
        return GivenRecords(lsn, stop, piece)

    def _state_piece(self, source: Source, asked: AskState) -> TransferMessage:
        if self._state is None or self._state_at != asked.offset:
            self._state, self._state_at = source.state(STATE_PIECE_BYTES), 0
            while self._state_at < asked.offset:
                self._state_at += len(next(self._state, b"")) or asked.offset
        piece = next(self._state, None) if self._state_at == asked.offset else None
        if piece is None:
            raise RemoteProtocolError(f"the state of the checkpoint has no piece from byte {asked.offset} on")
        self._state_at += len(piece)
        return GivenState(asked.lsn, asked.offset, piece)


class _Taking:
    """The transfer that is taken."""

    def __init__(self, peer: str, target: Target) -> None:
        self.peer = peer
        self.target = target
        self.asked: AskRecords | AskState | None = None
        self.busy = False
        self.over = False
        self.head: GivenHead | None = None
        self.offset = 0
        self.timer: asyncio.TimerHandle | None = None


class Transfers:
    """What a node gives and takes.

    Args:
        links: sends its messages; what comes is handed to `received`.
        node: is told.
    """

    def __init__(self, links: Sends, node: TransferNode) -> None:
        self._links = links
        self._node = node
        self._loop = asyncio.get_running_loop()
        self._threads = ThreadPoolExecutor(THREADS, "penstock transfer")
        self._giving: dict[str, _Giving] = {}
        self._taking: _Taking | None = None
        self._told: _Taking | None = None  # whose end will be told: not that of one that was dropped
        self._under_way: set[asyncio.Task[None]] = set()
        self._at_target: set[asyncio.Task[None]] = set()

    # Giving

    def give(self, peer: str, source: Source | None) -> None:
        """Give a transfer to whoever asks with this directory; None while what is given is being prepared: then it waits."""
        self._giving[peer] = _Giving(source)

    def stop_giving(self, peer: str) -> None:
        """Give it no more; the source may be read for a moment yet."""
        self._giving.pop(peer, None)

    # Taking

    def take(self, peer: str, target: Target) -> None:
        """Take one from a peer, and nothing of another any more."""
        if self._taking is not None:
            self.drop(self._taking.peer)
        self._taking = self._told = _Taking(peer, target)
        self._ask(self._taking, AskRecords(target.next_lsn))

    def drop(self, peer: str) -> None:
        """Take no more from this peer; the target is closed as it is, and nothing more is told of it."""
        if self._told is not None and self._told.peer == peer:
            self._told = None
        taking = self._taking
        if taking is not None and taking.peer == peer:
            self._end(taking)
            if not taking.busy:
                self._run(self._close(taking), self._at_target)

    async def let_go(self) -> None:
        """Wait until the targets of transfers that are over are closed."""
        while self._at_target:
            await asyncio.wait(self._at_target)

    def received(self, peer: str, message: Any) -> bool:
        """Handle a message of a transfer; False for any other, which is for others to handle."""
        if isinstance(message, TakeTransfer):
            self._ask_again(peer)
            return False
        if isinstance(message, _ASKS):
            self._asked(peer, message)
        elif isinstance(message, _ANSWERS):
            taking = self._taking
            if taking is not None and taking.peer == peer and not taking.busy:
                self._given(taking, message)
        else:
            return False
        return True

    async def close(self) -> None:
        """Give and take nothing more; what is being read or written is waited for."""
        self._giving.clear()
        if self._taking is not None:
            self.drop(self._taking.peer)
        while self._under_way:
            await asyncio.wait(self._under_way)
        self._threads.shutdown(wait=False)

    # What others ask for

    def _asked(self, peer: str, asked: AskRecords | AskState) -> None:
        giving = self._giving.get(peer)
        if giving is None:
            self._links.send(peer, NoTransfer("this node gives no transfer to that one now"))
        elif giving.source is None:
            self._links.send(peer, Wait())
        elif giving.reading is None:
            giving.reading = asked
            self._run(self._answer(peer, giving, giving.source))
        elif giving.reading != asked:
            giving.asked = asked

    async def _answer(self, peer: str, giving: _Giving, source: Source) -> None:
        while giving.reading is not None and self._giving.get(peer) is giving:
            reading = self._loop.run_in_executor(self._threads, giving.answer, source, giving.reading)
            while not (await asyncio.wait({reading}, timeout=STILL_SECONDS))[0]:
                if self._giving.get(peer) is giving:
                    self._links.send(peer, Wait())
            # Who has asked for something else meanwhile is answered what it has asked last.
            giving.reading, giving.asked = giving.asked, None
            self._answered(peer, giving, reading)

    def _answered(self, peer: str, giving: _Giving, reading: asyncio.Future[TransferMessage]) -> None:
        error = reading.exception()
        if self._giving.get(peer) is not giving:
            return
        if error is not None:
            self._links.send(peer, NoTransfer(f"it cannot be read: {error}"))
            del self._giving[peer]
            self._node.give_failed(peer, error if isinstance(error, Exception) else RemoteProtocolError(str(error)))
        elif giving.reading is None:
            answer = reading.result()
            try:
                if isinstance(answer, GivenHead) and self._node.renewed(peer, giving.source):
                    # Who takes it asks again, from where it has come to: what it has is good for a later checkpoint too.
                    answer = Wait()
            except Exception as failure:  # noqa: BLE001 - whoever takes it would wait for ever
                self._giving.pop(peer, None)
                self._node.give_failed(peer, failure)
                return
            self._links.send(peer, answer)

    # What others give

    def _ask(self, taking: _Taking, message: AskRecords | AskState) -> None:
        taking.asked = message
        self._links.send(taking.peer, message)

    def _ask_again(self, peer: str) -> None:
        taking = self._taking
        if taking is not None and taking.peer == peer and taking.asked is not None:
            self._links.send(peer, taking.asked)

    def _given(self, taking: _Taking, message: TransferMessage) -> None:
        asked = taking.asked
        match message:
            case Wait():
                self._node.taking(taking.peer)
                if taking.timer is None:
                    taking.timer = self._loop.call_later(ASK_AGAIN_SECONDS, self._waited, taking)
            case NoTransfer(reason):
                self._fail(taking, TransferRefusedError(f"it gives no transfer: {reason}"))
            case GivenRecords() if isinstance(asked, AskRecords) and message.lsn == asked.lsn:
                self._store(taking, lambda: taking.target.add(message.records))
            case GivenHead() if isinstance(asked, AskRecords) and message.asked == asked.lsn:
                taking.head, taking.offset = message, 0
                self._store(taking, taking.target.begin_state)
            case GivenHead() if isinstance(asked, AskState) and message.lsn != asked.lsn:
                # Another checkpoint, so what is wanted is known anew.
                taking.head = None
                self._node.taking(taking.peer)
                self._ask(taking, AskRecords(taking.target.next_lsn))
            case GivenState(lsn, offset, piece) if asked == AskState(lsn, offset):
                taking.offset += len(piece)
                self._store(taking, lambda: taking.target.add_state(piece))
            case _:
                pass  # of a connection before this one

    def _waited(self, taking: _Taking) -> None:
        taking.timer = None
        if not taking.over and taking.asked is not None:
            self._links.send(taking.peer, taking.asked)

    def _store(self, taking: _Taking, store: Callable[[], None]) -> None:
        taking.asked, taking.busy = None, True
        self._node.taking(taking.peer)
        self._run(self._stored(taking, store), self._at_target)

    async def _stored(self, taking: _Taking, store: Callable[[], None]) -> None:
        try:
            await self._stored_on_thread(taking, store)
            head = taking.head
            whole = head is not None and taking.offset >= head.state_bytes
            if whole and not taking.over:
                await self._stored_on_thread(taking, taking.target.finish, head)
        except Exception as error:  # noqa: BLE001 - whatever the disk says, or what was sent makes of it
            taking.busy = False
            if not taking.over:
                self._fail(taking, error)
                return
            whole = False
        taking.busy = False
        if taking.over:
            await self._close(taking)
        elif head is None:
            self._ask(taking, AskRecords(taking.target.next_lsn))
        elif not whole:
            self._ask(taking, AskState(head.lsn, taking.offset))
        else:
            self._end(taking)
            self._node.taken(taking.peer, head)

    async def _stored_on_thread(self, taking: _Taking, call: Callable[..., None], *given: Any) -> None:
        """A disk that takes its time is no transfer of which nothing comes."""
        storing = self._loop.run_in_executor(self._threads, call, *given)
        while not (await asyncio.wait({storing}, timeout=STILL_SECONDS))[0]:
            if not taking.over:
                self._node.taking(taking.peer)
        storing.result()

    def _fail(self, taking: _Taking, error: Exception) -> None:
        self._end(taking)
        self._run(self._closed(taking, error), self._at_target)

    async def _closed(self, taking: _Taking, error: Exception) -> None:
        await self._close(taking)
        if self._told is taking:
            self._told = None
            self._node.take_failed(taking.peer, error)

    async def _close(self, taking: _Taking) -> None:
        await self._on_thread(taking.target.close)

    def _end(self, taking: _Taking) -> None:
        taking.over = True
        if taking.timer is not None:
            taking.timer.cancel()
            taking.timer = None
        if self._taking is taking:
            self._taking = None

    # Threads

    def _run(self, work: Any, *among: set[asyncio.Task[None]]) -> None:
        task = self._loop.create_task(work, name="a transfer")
        for tasks in (self._under_way, *among):
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    async def _on_thread(self, call: Callable[..., T], *given: Any) -> T:
        return await self._loop.run_in_executor(self._threads, call, *given)


def _few(pieces: Iterator[list[Any]]) -> Iterator[list[Any]]:
    """The same records, no more at a time than one message may have."""
    for piece in pieces:
        several = iter(piece)
        while few := list(islice(several, MAX_RECORDS)):
            yield few


def _head(source: Source, asked: int) -> GivenHead:
    head = source.head()
    return GivenHead(head.lsn, head.epoch, head.epoch_first, head.state_bytes, asked)
