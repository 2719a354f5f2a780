"""A frame decoder that is handed bytes, as tests have them, and gives all frames that they complete at once."""

from __future__ import annotations

from transport.errors import RemoteProtocolError
from transport.wire import frames
from transport.wire.frames import RawFrame
from transport.wire.receiving import Part


class FrameDecoder(frames.FrameDecoder):
    """The product's, and what a shell does with it."""

    def buffer_updated(self, nbytes: int) -> list[RawFrame]:
        """Take the ``nbytes`` just received; an error behind good frames is not raised but left in `error`, and raised by the next call."""
        self.received(nbytes)
        found: list[RawFrame] = []
        try:
            while (raw := self.next_frame()) is not None:
                found.append(raw)
        except RemoteProtocolError:
            if not found:
                raise
        return found

    def receive_data(self, data: Part) -> list[RawFrame]:
        """The same for bytes already at hand."""
        found: list[RawFrame] = []
        view = memoryview(data)
        while view and self.error is None:
            buffer = self.get_buffer()
            taken = min(len(buffer), len(view))
            buffer[:taken] = view[:taken]
            view = view[taken:]
            found += self.buffer_updated(taken)
        return found
