"""The log of a broker's process, on stderr: lines of text, or one JSON object a line.

Whoever logs a peer's text escapes it (`transport.wire.shown`). Each line is escaped here once more as a whole, for what comes from
libraries, or in the text of an exception: a line of the log is a line, whoever chose the words in it.
"""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Final

from transport.wire.shown import MAX_LINE_BYTES, shown

MAX_TRACE_LINES: Final = 200
"""Of one exception; the first ones are left out of more."""
FIELDS: Final = ("who", "what", "resource", "peer")
"""What a record may say apart from its message (``extra=``): who did what to which resource, and from where."""
AUDIT: Final = "penstock.audit"
"""The logger of who did what, which is heard whatever the level is."""


class LogFormatter(logging.Formatter):
    """What both have in common: time, message and exception, each safe to print."""

    def time(self, record: logging.LogRecord) -> str:
        """When, in UTC, as RFC 3339 has it."""
        text = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        return text.replace("+00:00", "Z")

    def message(self, record: logging.LogRecord) -> str:
        """What is said."""
        return shown(record.getMessage(), MAX_LINE_BYTES)

    def trace(self, record: logging.LogRecord) -> list[str]:
        """The lines of the exception, if there is one."""
        if record.exc_info:
            lines = self.formatException(record.exc_info).split("\n")[-MAX_TRACE_LINES:]
            return [shown(line, MAX_LINE_BYTES) for line in lines]
        return []


class TextFormatter(LogFormatter):
    """``TIME LEVEL LOGGER: message``; the lines of an exception are indented, so that none of them looks like a line of the log."""

    def format(self, record: logging.LogRecord) -> str:
        """One record."""
        head = f"{self.time(record)} {record.levelname} {record.name}: {self.message(record)}"
        return "\n    ".join([head, *self.trace(record)])


class JsonFormatter(LogFormatter):
    """One object: ``time``, ``level``, ``logger``, ``message``, those of `FIELDS` that are known, and ``exception``."""

    def format(self, record: logging.LogRecord) -> str:
        """One record."""
        said = {
            "time": self.time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self.message(record),
        }
        for field in FIELDS:
            value = getattr(record, field, None)
            if value is not None:
                said[field] = shown(str(value))
        if trace := self.trace(record):
            said["exception"] = "\n".join(trace)
        return json.dumps(said, ensure_ascii=False)


def start_logging(log_format: str, level: str) -> None:
    """Log to stderr from now on."""
    root = logging.getLogger()
    if root.handlers:
        # A program that runs the command within itself has a log of its own.
        return
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    root.addHandler(handler)
    logging.getLogger(AUDIT).setLevel(logging.INFO)
    set_level(level)


def set_level(level: str) -> None:
    """Log what is of this level or above, and who did what."""
    logging.getLogger().setLevel(level.upper())
