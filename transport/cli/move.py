"""``penstock queue move``: messages from one queue to another, as many as asked for, until it is done or somebody stops it."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from transport.cli import _written as written
from transport.cli._administering import admin_command
from transport.cli._options import name
from transport.cli._run import on_signal, tell
from transport.cli.exit_codes import SIGNAL_EXIT_BASE
from transport.errors import ConnectionLostError, MoveStoppedError, PeerTimeoutError

if TYPE_CHECKING:
    from transport.clients.administration import Administration

VERB = "queue move"
Source = Annotated[str, typer.Argument(metavar="FROM", help="The queue that they leave.", callback=name)]
Target = Annotated[str, typer.Argument(metavar="TO", help="The queue that they enter.", callback=name)]
Count = Annotated[
    int | None, typer.Option("--count", metavar="N", min=1, help="Messages at most; all that are ready otherwise.")
]
Create = Annotated[bool, typer.Option("--create", help="Make the queue TO if there is none.")]
KeepHistory = Annotated[
    bool | None,
    typer.Option(
        "--keep-history/--strip-history",
        help="Whether headers that say what messages have died of stay; unless told, only what goes back to where it died loses them.",
    ),
]


@admin_command(VERB)
async def move(
    administration: Administration,
    source: Source,
    target: Target,
    count: Count = None,
    create: Create = False,
    keep_history: KeepHistory = None,
) -> None:
    """Move the messages that are ready, the oldest first, with their ids, keys and headers.

    What receivers hold, and what waits for a delay, stays. TO takes no more than it has room for. Ctrl-C ends between two steps.
    What goes back to the queue in which it died is tried as if it were new.
    """
    shown = _Progress()
    signals: list[signal.Signals] = []
    try:
        with on_signal(signals.append):
            moved = await administration.move(
                source,
                target,
                count,
                create=create,
                keep_history=keep_history,
                progress=shown.show,
                stopped=lambda: bool(signals),
            )
    except MoveStoppedError as error:
        if error.code == "not-found" and repr(target) in error.text and not create:
            tell(VERB, f"there is no queue {target!r} to move messages to: --create makes it")
            raise typer.Exit(1) from None
        raise
    except (ConnectionLostError, PeerTimeoutError):
        tell(VERB, f"moved for certain: {written.counted(shown.moved, 'message')}; the last step may have moved more")
        raise
    finally:
        shown.end()
    typer.echo(
        f"{written.counted(moved, 'message')} moved from queue {source} to queue {target} at {administration.address}"
    )
    if signals:
        tell(VERB, "stopped before the end; what was not moved is where it was")
        raise typer.Exit(SIGNAL_EXIT_BASE + signals[0])


class _Progress:
    """How far it is, in one line of a terminal; nothing where the output is none.

    Attributes:
        moved: messages that are moved for certain.
    """

    def __init__(self) -> None:
        from transport.cli._bar import somebody_looks  # noqa: PLC0415 - not needed for --help

        self.moved = 0
        self._shows = somebody_looks()
        self._line = ""

    def show(self, moved: int) -> None:
        """So many are moved."""
        self.moved = moved
        if self._shows:
            self._line = f"{written.counted(moved, 'message')} moved"
            sys.stderr.write(f"\r{self._line}")
            sys.stderr.flush()

    def end(self) -> None:
        """Leave the line as it was."""
        if self._line:
            sys.stderr.write("\r" + " " * len(self._line) + "\r")
            sys.stderr.flush()
