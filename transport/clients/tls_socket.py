"""TLS for clients that block: a socket that is read and written as `BlockingConnection` does it with a plain one.

What TLS has decrypted already is not shown by the kernel's poll, so whoever waits asks `TlsSocket.pending` first.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Sequence
from typing import Final

RECORD_BYTES: Final = 16 * 1024
"""The most that one record of TLS holds. Smaller parts are joined up to that, or each would be a record."""
MAX_WRITE_BYTES: Final = 1024 * 1024
"""Bytes written in one call at most, however much the socket takes: its user listens in between."""


class TlsSocket:
    """A connected socket under TLS; the handshake is done, and the broker verified.

    Args:
        plain: the socket; it is this one's from now on, and closed where the handshake fails.
        context: with what.
        server_name: the name that the peer's certificate must have.
        seconds: for the handshake.

    Attributes:
        failure: what ended TLS, as far as it was read.

    Raises:
        OSError: the handshake failed, or was not done in time.
    """

    def __init__(self, plain: socket.socket, context: ssl.SSLContext, server_name: str, seconds: float) -> None:
        self.failure: ssl.SSLError | None = None
        try:
            plain.settimeout(seconds)
            self._tls = context.wrap_socket(plain, server_hostname=server_name)
        except BaseException:
            plain.close()
            raise

    def fileno(self) -> int:
        """For poll."""
        return self._tls.fileno()

    def settimeout(self, seconds: float) -> None:
        """How long `recv_into` waits; 0 for not at all."""
        self._tls.settimeout(seconds)

    def pending(self) -> bool:
        """Whether something is there to be received that poll does not show."""
        return self._tls.pending() > 0

    def recv_into(self, buffer: memoryview) -> int:
        """As a socket's: the end of the stream is 0, however it ended, for frames know where they end.

        Raises:
            BlockingIOError: nothing is there, and the timeout is 0.
        """
        try:
            return self._tls.recv_into(buffer)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise BlockingIOError from None
        except ssl.SSLError as error:
            self.failure = error
            raise

    def sendmsg(self, parts: Sequence[memoryview]) -> int:
        """Write what the socket takes at once of ``parts``; how many bytes that were.

        Where it raised, the next call must begin with the same bytes: TLS has made a record of them.

        Raises:
            BlockingIOError: it takes nothing now.
            BrokenPipeError: the peer has ended TLS.
        """
        taken = index = 0
        while index < len(parts) and taken < MAX_WRITE_BYTES:
            chunk, used = _chunk(parts, index)
            index += used
            begun = 0
            while begun < len(chunk) and taken < MAX_WRITE_BYTES:
                sent = self._send(chunk[begun:])
                if not sent:
                    if not taken:
                        raise BlockingIOError
                    return taken
                begun += sent
                taken += sent
        return taken

    def close(self) -> None:
        """Close the socket; the peer sees its end, for nothing is said of it within TLS."""
        self._tls.close()

    def _send(self, chunk: memoryview) -> int:
        try:
            return self._tls.send(chunk)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return 0
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError) as error:
            raise BrokenPipeError(str(error)) from error


def _chunk(parts: Sequence[memoryview], index: int) -> tuple[memoryview, int]:
    """The part at ``index``, joined with those behind it while they fit a record; and how many parts that are."""
    end, size = index + 1, len(parts[index])
    while end < len(parts) and size + len(parts[end]) <= RECORD_BYTES:
        size += len(parts[end])
        end += 1
    return (parts[index], 1) if end == index + 1 else (memoryview(b"".join(parts[index:end])), end - index)
