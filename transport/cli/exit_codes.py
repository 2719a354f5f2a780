"""The exit codes of every verb: one table, which docs/cli.md and docs/operations.md repeat, and a test holds them to it."""

from __future__ import annotations

from typing import Final, NamedTuple

EXIT_DONE: Final = 0
EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
EXIT_FEWER: Final = 3
"""`receive` was to print a number of messages, and fewer came in the time that it was to wait."""
EXIT_STORAGE: Final = 74
"""EX_IOERR of sysexits.h, so that a supervisor can tell it from a refusal."""
SIGNAL_EXIT_BASE: Final = 128
"""A command that a signal ended before its work was done exits with this plus the signal's number, as shells have it."""


class ExitCode(NamedTuple):
    """A row of the table.

    Attributes:
        code: as it is written: a number, or ``128 + n``.
        meaning: what has happened.
    """

    code: str
    meaning: str


EXIT_CODES: Final = (
    ExitCode(
        str(EXIT_DONE),
        "done; for `broker` and `receive` also: ended in good order after a signal; for `broker --check`: nothing is wrong",
    ),
    ExitCode(
        str(EXIT_FAILED),
        "the broker refused, or could not be reached in time; an input could not be read; an address could not be bound, or too few files "
        "may be open; `journal verify` found damage; a backup could not be made or restored; what `bench` sent did not all come "
        "back in time; of what `send --mandatory` sent, some came back",
    ),
    ExitCode(
        str(EXIT_USAGE),
        "wrong usage, a settings file or users file that cannot be read, or a setting that cannot be, such as a file where a journal's "
        "directory is meant; nothing was connected or started",
    ),
    ExitCode(
        str(EXIT_FEWER), "`receive --count N --idle-exit TIME`: no message came for so long, and fewer than N before"
    ),
    ExitCode(str(EXIT_STORAGE), "the journal failed, is damaged, cannot be opened or made, or another broker has it"),
    ExitCode(
        f"{SIGNAL_EXIT_BASE} + n",
        "signal n came before the work was done: `send` before the end of its input, `receive --count` before N messages, an "
        "administrative command before its answer, `broker` a second time while it drained",
    ),
)
"""Every code there is."""
