"""Frames of bytes: the stage that puts a decoder into a stream, and the splitting of blocks into lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, Protocol

from streams.contract import Subscriber
from streams.errors import FAILURES, LineTooLongError
from streams.frame_decoders import ByteDelimiterDecoder
from streams.materialize import Materialization
from streams.stages.expand import MapConcat

MAX_LINE_BYTES: Final = 16 * 1024 * 1024
"""Bytes in one line at most: what may have to be held until its end comes. The same as a message's bound."""


class Decoder(Protocol):
    """What makes frames of bytes, without I/O."""

    def feed(self, block: bytes) -> Iterable[bytes]:
        """The frames that are whole with ``block``."""
        ...

    def finish(self) -> list[bytes]:
        """The frames that are whole now that no more comes."""
        ...


class FramingStage(MapConcat[bytes, bytes]):
    """Blocks of bytes in, frames out.

    Args:
        downstream: where the frames go.
        m: the run.
        decoder: makes them.
        name: the stage's, in failures.
    """

    __slots__ = ("_decoder",)

    def __init__(self, downstream: Subscriber[bytes], m: Materialization, decoder: Decoder, name: str) -> None:
        super().__init__(downstream, m, decoder.feed, name)
        self._decoder: Decoder | None = decoder

    def _last_results(self) -> Iterator[bytes] | None:
        decoder, self._decoder = self._decoder, None
        if decoder is None:
            return None
        try:
            frames = decoder.finish()
        except FAILURES as error:  # of a frame that is not whole
            self._function_failed(error, decoder.finish)
            return iter(())
        return iter(frames) if frames else None

    def _function_failed(self, error: BaseException, function: Callable[..., Any], element: Any = None) -> None:  # noqa: ARG002 - the decoder's name tells nothing
        # Supervision has no say: after a frame that cannot be read nobody knows where the next begins.
        self._fail(error)


class LineFraming(FramingStage):
    """Blocks of bytes in, lines out, without their newline; a last line needs none.

    Args:
        downstream: where the lines go.
        m: the run.
        limit: bytes in one line, at most.
    """

    __slots__ = ()

    def __init__(self, downstream: Subscriber[bytes], m: Materialization, limit: int) -> None:
        decoder = ByteDelimiterDecoder(
            b"\n", limit, allow_truncation=True, too_long=lambda _size: LineTooLongError(limit)
        )
        super().__init__(downstream, m, decoder, "lines")


class DrainedLines(LineFraming):
    """The same behind a file. Where the run is to end in good order, half a line is none: it is told here, and not the file."""

    __slots__ = ("__weakref__",)

    def __init__(self, downstream: Subscriber[bytes], m: Materialization, limit: int) -> None:
        super().__init__(downstream, m, limit)
        m.on_drain(self)

    def drained(self) -> None:
        """Nothing more comes."""
        self._complete_early()
