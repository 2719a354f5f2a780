"""What a connection was not made for, in words that say most: the system's own."""

from __future__ import annotations

import os
import re
import socket

from transport.errors import ADVICE, LEADERLESS_ADVICE, ConnectionLostError, NotLeaderError

CALL_FAILED = re.compile(r"\[Errno (\d+)\] Connect call failed \([^)]*\)")
"""What asyncio says of an address that does not answer."""


def reason_of(error: BaseException) -> str:
    """What a connection was not made for, in the system's words where those are in asyncio's: ``Connection refused``."""
    if isinstance(error, socket.gaierror) and error.strerror:
        return error.strerror
    return CALL_FAILED.sub(lambda found: os.strerror(int(found[1])), str(error)) or type(error).__name__


def system_words(error: BaseException) -> str | None:
    """What the system says of ``error``; None where it is none of the system's. Numbers of TLS's and of names' errors are others."""
    if isinstance(error, socket.gaierror):
        return error.strerror
    if not isinstance(error, OSError) or error.errno is None:
        return None
    words = os.strerror(error.errno)
    return words if error.strerror == words or CALL_FAILED.fullmatch(str(error)) else None


def why_not(error: BaseException | None) -> str:
    """The same of an error and what it comes of, on one line."""
    reason, cause = None, error
    while cause is not None and reason is None:
        reason, cause = system_words(cause), cause.__cause__
    return reason.lower() if reason else str(error or "it has not answered")


def leaderless(error: BaseException | None) -> bool:
    """Whether it comes of a cluster whose brokers are there, and none of them knew who leads."""
    while error is not None:
        if isinstance(error, NotLeaderError):
            return not error.leader
        error = error.__cause__
    return False


def lacking(error: BaseException | None) -> str:
    """Who could not be found, where this is why."""
    return "leader" if leaderless(error) else "broker"


def advice(error: BaseException | None) -> str:
    """What to do about an error of a client that is given up; a text ends with it."""
    return LEADERLESS_ADVICE if leaderless(error) else ADVICE


def caused(text: str, cause: Exception) -> ConnectionLostError:
    """An error with this text that comes of ``cause``."""
    error = ConnectionLostError(text)
    error.__cause__ = cause
    return error
