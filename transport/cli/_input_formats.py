"""The formats of ``penstock send``: how the blocks of an input become messages in batches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple, Protocol

from actors.batch import BinaryColumn, HeaderValue, Message, MessageBatch, pack_headers
from transport.cli._splitting import NUL, InputFormatError, LengthSplitter, Splitter, WholeFile
from transport.clients.sender_batches import DEFAULT_BATCH_MESSAGES, MAX_BATCH_BYTES, Sendable
from transport.wire.timing import NO_TIMING, Timed, Timing

if TYPE_CHECKING:
    from transport.clients.json_messages import Given


class Piece(NamedTuple):
    """Messages that were read together.

    Attributes:
        element: what a sender takes.
        messages: how many.
        size: how many bytes of the input they were.
        payload: how many bytes their payloads have.
    """

    element: Sendable
    messages: int
    size: int
    payload: int


class Decoder(Protocol):
    """Cuts one input into messages. What it cannot take ends it, behind all the messages before."""

    def feed(self, block: bytes) -> Iterator[Piece]:
        """What ``block`` completes; raises InputFormatError."""

    def finish(self) -> Iterator[Piece]:
        """What is left at the end of the input; raises InputFormatError."""


class LinesSplitter(Protocol):
    """One of `transport.cli._splitting`."""

    def feed(self, block: bytes) -> list[bytes]:
        """The lines that ``block`` completes."""

    def finish(self) -> list[bytes]:
        """The last line, where there is one."""


class LineDecoder(ABC):
    """Messages of lines, however those are told apart.

    Args:
        splitter: what tells them apart.
    """

    __slots__ = ("_splitter",)

    def __init__(self, splitter: LinesSplitter) -> None:
        self._splitter = splitter

    def feed(self, block: bytes) -> Iterator[Piece]:
        """What ``block`` completes."""
        try:
            lines = self._splitter.feed(block)
        except InputFormatError as error:
            yield from self._pieces(error.before)
            raise
        yield from self._pieces(lines)

    def finish(self) -> Iterator[Piece]:
        """What is left at the end of the input."""
        yield from self._pieces(self._splitter.finish())

    @abstractmethod
    def _pieces(self, lines: Sequence[bytes]) -> Iterator[Piece]:
        """The messages of ``lines``; raises InputFormatError behind those before what it cannot take."""


class PlainDecoder(LineDecoder):
    """Payloads alone: each line is one, however lines are told apart.

    Args:
        splitter: what tells them apart.
        extra: bytes of the input that each takes beside itself.
        key: the key of every message; None for none.
        headers: the headers of every message.
        batch_messages: messages in one batch at most.
    """

    __slots__ = ("_batch_messages", "_columns", "_extra", "_key", "_packed")

    def __init__(
        self,
        splitter: LinesSplitter,
        extra: int = 1,
        key: bytes | None = None,
        headers: Mapping[str, HeaderValue] | None = None,
        batch_messages: int = DEFAULT_BATCH_MESSAGES,
    ) -> None:
        super().__init__(splitter)
        self._extra = extra
        self._key = key or None
        self._packed = pack_headers(headers) or None
        self._batch_messages = batch_messages
        # The same for every batch of as many messages, as most are.
        self._columns: tuple[int, BinaryColumn | None, BinaryColumn | None] = (0, None, None)

    def _pieces(self, lines: Sequence[bytes]) -> Iterator[Piece]:
        step = self._batch_messages
        for at in range(0, len(lines), step):
            batch = MessageBatch.from_payloads(lines[at : at + step])
            count = len(batch)
            if self._key is not None or self._packed is not None:
                batch = self._with_columns(batch, count)
            payload = len(batch.payloads.data)
            yield Piece(batch, count, payload + self._extra * count, payload)

    def _with_columns(self, batch: MessageBatch, count: int) -> MessageBatch:
        if self._columns[0] != count:
            keys = None if self._key is None else BinaryColumn.from_values([self._key] * count)
            headers = None if self._packed is None else BinaryColumn.from_values([self._packed] * count)
            self._columns = (count, keys, headers)
        return MessageBatch(batch.payloads, None, *self._columns[1:])


class JsonDecoder(LineDecoder):
    """An object a line; those that follow one another and have the same timing make a batch.

    Args:
        given: what a message has whose line does not say.
        batch_messages: messages in one batch at most.
    """

    __slots__ = ("_batch_messages", "_given", "_number")

    def __init__(self, given: Given, batch_messages: int = DEFAULT_BATCH_MESSAGES) -> None:
        from transport.cli._json_lines import MAX_JSON_LINE_BYTES  # noqa: PLC0415 - for this format alone

        super().__init__(Splitter(max_line=MAX_JSON_LINE_BYTES))
        self._given = given
        self._batch_messages = batch_messages
        self._number = 0

    def _pieces(self, lines: Sequence[bytes]) -> Iterator[Piece]:
        from transport.cli._json_lines import read_message  # noqa: PLC0415 - as above

        read: list[tuple[Message, Timing, int]] = []
        wrong: InputFormatError | None = None
        for line in lines:
            self._number += 1
            if not line.strip():
                continue
            try:
                message, timing = read_message(line, self._given)
            except ValueError as error:
                wrong = InputFormatError(f"line {self._number}: {error}", self._number, [])
                break
            read.append((message, timing, len(line) + 1))
            if len(read) == self._batch_messages:
                yield from _batches(read)
                read = []
        yield from _batches(read)
        if wrong is not None:
            raise wrong


def _batches(read: list[tuple[Message, Timing, int]]) -> Iterator[Piece]:
    """Batches of messages that may stand in one: ids are a column, and a timing is a batch's."""
    for (timing, _), run in groupby(read, lambda each: (each[1], each[0].id is None)):
        items = list(run)
        batch = MessageBatch.from_messages([message for message, _, _ in items])
        times = timing.delay, timing.ttl, timing.priority, timing.deliver_at
        element: Sendable = batch if timing == NO_TIMING else Timed(batch, *times)
        yield Piece(element, len(items), sum(size for _, _, size in items), len(batch.payloads.data))


def lines(key: bytes | None = None, headers: Mapping[str, HeaderValue] | None = None) -> Decoder:
    """A message a line."""
    return PlainDecoder(Splitter(max_line=_room(key, headers)), 1, key, headers)


def decoder_of(
    name: str | None,
    key: bytes | None = None,
    headers: Mapping[str, HeaderValue] | None = None,
    *,
    published: bool = False,
) -> Callable[[], Decoder]:
    """Makes a decoder for each input.

    Args:
        name: the format: ``null``, ``length-prefixed``, ``whole-file`` or ``jsonl``; None for lines.
        key: the key of every message that has no other; None for none.
        headers: the headers of every message, beside its own.
        published: whether they go to an exchange.

    Raises:
        BatchError: there are more headers than a message may have.
    """
    room = _room(key, headers)
    if name == "null":
        return lambda: PlainDecoder(Splitter(NUL, room, "message"), 1, key, headers)
    if name == "length-prefixed":
        return lambda: PlainDecoder(LengthSplitter(room), 4, key, headers)
    if name == "whole-file":
        return lambda: PlainDecoder(WholeFile(room), 0, key, headers)
    if name == "jsonl":
        from transport.clients.json_messages import Given  # noqa: PLC0415 - as above

        given = Given(key, dict(headers or {}), published)
        return lambda: JsonDecoder(given)
    return lambda: lines(key, headers)


def _room(key: bytes | None, headers: Mapping[str, HeaderValue] | None) -> int:
    """Bytes that a payload may have beside key and headers."""
    beside = len(key or b"") + len(pack_headers(headers))
    return MAX_BATCH_BYTES - beside
