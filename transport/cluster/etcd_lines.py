"""What an etcd says on its output: cut into lines of bounded length, each with a level and a text as ours are."""

from __future__ import annotations

import json
import logging
import re
from typing import Final, NamedTuple

from transport.wire.shown import MAX_LINE_BYTES, shown

LEVELS: Final = {
    "debug": logging.DEBUG,
    "info": logging.DEBUG,
    "warn": logging.INFO,
    "error": logging.WARNING,
    "dpanic": logging.ERROR,
    "panic": logging.ERROR,
    "fatal": logging.ERROR,
}
"""Of ours by etcd's: it tells every few seconds of another machine that is away, and is told of as a member anyway."""
PLAIN_LEVEL: Final = logging.WARNING
"""Of a line that is not its log: what it prints when it cannot even begin to log."""
OF_GRPC: Final = "WARNING: "
"""The beginning of a line that a library of its prints: its own connections come and go, at each end."""
REJECTED: Final = "rejected connection"
OF_TLS: Final = ("x509:", "tls:")
"""In the reason of one that no later try mends: without this line nobody learns why the etcds do not find together."""
_TIME_OF_TRY: Final = re.compile(r"current time \S+ is")
"""In the reason of a certificate that has expired: another text each second, of a line that is told once."""
_SAID_ANYWAY: Final = frozenset({"level", "ts", "caller", "msg", "stacktrace"})


class Line(NamedTuple):
    """A line.

    Attributes:
        level: as of ``logging``.
        text: to be shown.
        once: whether it comes with each try, many times a second, and is to be told once.
    """

    level: int
    text: str
    once: bool = False


class LineCutter:
    """Cuts bytes into lines; of a longer one than ``MAX_LINE_BYTES`` the rest is dropped."""

    def __init__(self) -> None:
        self._begun = b""

    def feed(self, block: bytes) -> list[bytes]:
        """The lines that end in ``block``."""
        *ended, begun = (self._begun + block).split(b"\n")
        self._begun = begun[:MAX_LINE_BYTES]
        return [line[:MAX_LINE_BYTES] for line in ended if line]

    def rest(self) -> list[bytes]:
        """What has no end."""
        begun, self._begun = self._begun, b""
        return [begun] if begun else []


def read_line_of_etcd(line: bytes) -> Line:
    """What a line says."""
    text = line.decode(errors="replace")
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict) or not isinstance(said.get("msg"), str):
        return Line(logging.INFO if text.startswith(OF_GRPC) else PLAIN_LEVEL, shown(text, MAX_LINE_BYTES))
    reason = _TIME_OF_TRY.sub("the time is", str(said.get("error")))
    if said["msg"] == REJECTED and any(words in reason for words in OF_TLS):
        host = str(said.get("remote-addr")).rpartition(":")[0]
        # A certificate, there or here; or one of the two speaks no TLS.
        text = f"this machine's etcd takes no connection from {host}, for their settings of TLS do not fit: {reason}"
        return Line(logging.WARNING, shown(text, MAX_LINE_BYTES), once=True)
    others = ", ".join(f"{name}: {value}" for name, value in said.items() if name not in _SAID_ANYWAY)
    level = LEVELS.get(str(said.get("level")), PLAIN_LEVEL)
    return Line(level, shown(f"{said['msg']}{f' ({others})' if others else ''}", MAX_LINE_BYTES))
