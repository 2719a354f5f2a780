"""What a connection of HTTP receives goes to aiohttp's parser in pieces, and it is known where in a request the parser stands.

A receive has up to 256 KiB. As chunks of one byte each these are 43,000, a tenth of a second of parsing, and anybody may send them. So a
piece has no more lines than are parsed in a small part of a turn, and is charged to the loop's turns (`transport.shell.turns`). A peer that
owes stands in line with all others that do. What it has sent waits here meanwhile, and nothing more of it is read: so one receive waits at
most, or two, where a loop had the next one in hand. A body that says its length is copied and not parsed, so it goes on whole.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from transport.shell.turns import Turns

FREE_BYTES: Final = 512
"""A receive of so many costs what it costs to receive it: it is handed on as it is."""
PIECE_BYTES: Final = 8 * 1024
"""Of what has lines, at most."""
PIECE_LINES: Final = 256
"""A piece has about so many at most: chunks of one byte are 128 then, a quarter of a millisecond."""
LEAST_PIECE_BYTES: Final = 256
LINES_A_UNIT: Final = 4
"""A chunk has two, takes some two microseconds to parse and two to read, and a unit of work is some eight."""
BYTES_A_UNIT: Final = 32 * 1024
"""Of what is copied alone."""
END_OF_LINE: Final = b"\r"
"""Of heads and between chunks; what is a line of text in a body mostly ends without it, and costs nothing."""
END_OF_HEAD: Final = b"\r\n\r\n"
"""Every head ends so, and every body in chunks."""
IN_CHUNKS: Final = -1


class Fed(asyncio.Protocol):
    """A protocol around aiohttp's, which it feeds.

    Args:
        inner: aiohttp's.
        turns: the loop's.

    Attributes:
        inner: as given.
    """

    __slots__ = (
        "_at",
        "_content",
        "_held",
        "_in_head",
        "_in_line",
        "_length",
        "_owed",
        "_reading",
        "_seen",
        "_transport",
        "_turns",
        "_waiting",
        "inner",
    )

    def __init__(self, inner: Any, turns: Turns) -> None:
        self.inner = inner
        self._turns = turns
        self._transport: asyncio.Transport | None = None
        # What waits, from a place on; whether this stands in line for it, or for what was done; whether aiohttp takes no more now.
        self._waiting = b""
        self._at = 0
        self._in_line = self._held = False
        self._owed = 0
        self._reading = True
        # The newest request's body, where it has one that is not complete, and its length.
        self._content: Any = None
        self._length = 0
        self._seen = 0
        self._in_head = False

    @property
    def keeps(self) -> bool:
        """Whether something waits that was not handed on."""
        return bool(self._waiting)

    # What aiohttp's protocol asks of the transport

    def hold(self) -> None:
        """It takes no more for now."""
        self._held = True
        self._look_whether_to_read()

    def go_on(self) -> None:
        """It takes more."""
        held, self._held = self._held, False
        if held and self._waiting and not self._in_line:
            # Not from within: a reader of the body asks for it.
            self._stand_in_line()
        self._look_whether_to_read()

    # In line: `transport.shell.turns.Worker`

    def work(self, share: int) -> int:
        """Its turn has come: what was done is paid, and for what is left of the share the next pieces are handed on."""
        self._in_line = False
        done, self._owed = self._owed, 0
        while done < share and self._can_go_on():
            done += self._next_piece()
        if self._can_go_on() and not self._in_line:
            self._stand_in_line()
        self._look_whether_to_read()
        return done

    def abort(self, error: Exception | None = None) -> None:
        """End it at once."""
        raise NotImplementedError

    # For the protocol itself

    def _feed(self, data: bytes) -> None:
        """Hand on what was received, in pieces, as far as this turn has it; the rest waits."""
        if len(data) <= FREE_BYTES and not self._waiting:
            self._hand_on(data)
            return
        self._waiting = self._waiting[self._at :] + data if self._waiting else data
        self._at = 0
        while not self._in_line and self._can_go_on():
            owed = self._turns.used(self._next_piece())
            if owed:
                self._owed += owed
                self._stand_in_line()
        self._look_whether_to_read()

    def _hand_on(self, piece: bytes) -> None:
        """Have it parsed, and see where it has ended."""
        inner = self.inner
        if inner._request_count != self._seen and inner._messages:
            self._kept_was_parsed(*inner._messages[-1])
        seen, left = inner._request_count, self._body_left()
        inner.data_received(piece)
        if inner._request_count != seen and inner._messages:
            self._note(*inner._messages[-1])
            before = piece[: -self._length] if self._length > 0 else piece
            self._in_head = self._content is None and not _ends_a_head(before)
        elif left is None:
            # Empty lines in front of a request are nothing.
            self._in_head = self._in_head or bool(piece.strip(b"\r\n"))
        elif self._body_left() is None:
            self._content = None
            self._in_head = not _ends_a_head(piece) if left == IN_CHUNKS else len(piece) > left

    def _kept_was_parsed(self, message: Any, content: Any) -> None:
        """A request came out of what aiohttp had kept, and this did not see where it ends: it is taken for the last thing there was."""
        self._note(message, content)
        self._in_head = False

    def _forget_body(self) -> None:
        """A request is answered: its body, once complete, is kept no longer."""
        if self._content is not None and self._content.is_eof():
            self._content = None

    def _drop(self) -> None:
        """Hand on nothing more."""
        self._waiting, self._content = b"", None

    # Inside

    def _can_go_on(self) -> bool:
        if not self._waiting:
            return False
        if self._transport is None or self._transport.is_closing():
            self._drop()
            return False
        return not self._held

    def _stand_in_line(self) -> None:
        self._in_line = True
        self._turns.join(self)

    def _next_piece(self) -> int:
        """Hand on one; returns the units of work that it was."""
        data, at = self._waiting, self._at
        left = self._body_left() or 0
        if left > 0:
            end, lines = at + left, 0
        else:
            end = min(at + PIECE_BYTES, len(data))
            lines = data.count(END_OF_LINE, at, end)
            if lines > PIECE_LINES:
                end = at + max(LEAST_PIECE_BYTES, (end - at) * PIECE_LINES // lines)
                lines = data.count(END_OF_LINE, at, end)
        if end >= len(data):
            self._waiting = b""
        else:
            self._at = end
        piece = data if at == 0 and not self._waiting else data[at:end]
        self._hand_on(piece)
        return lines // LINES_A_UNIT + len(piece) // BYTES_A_UNIT

    def _note(self, message: Any, content: Any) -> None:
        """The newest request: it may have a body, and that of one before is complete."""
        self._seen = self.inner._request_count
        self._content, self._length = None, 0
        if content.total_bytes or not content.is_eof():
            self._length = IN_CHUNKS if message.chunked else int(message.headers.get("Content-Length", 0))
            if not content.is_eof():
                self._content = content

    def _body_left(self) -> int | None:
        """Bytes of the newest request's body that are to come; None where it is complete, `IN_CHUNKS` where nobody knows."""
        content = self._content
        if content is None or content.is_eof():
            return None
        return IN_CHUNKS if self._length < 0 else max(0, self._length - content.total_bytes)

    def _look_whether_to_read(self) -> None:
        transport = self._transport
        wanted = not (self._held or self._waiting or self._in_line)
        if wanted is self._reading or transport is None or transport.is_closing():
            return
        self._reading = wanted
        if wanted:
            transport.resume_reading()
        else:
            transport.pause_reading()


def _ends_a_head(piece: bytes) -> bool:
    """Whether it ends with the end of a head, of which the beginning may have come before."""
    return piece.endswith(END_OF_HEAD) or (len(piece) < len(END_OF_HEAD) and END_OF_HEAD.endswith(piece))
