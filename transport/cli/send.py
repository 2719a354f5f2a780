"""``penstock send``: lines of files or of the standard input become messages, no faster than the broker takes them."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from signal import Signals
from typing import TYPE_CHECKING, Annotated

import typer

from transport.cli._access import STDIN
from transport.cli._options import ConnectTimeout, QueueOption, SendAddress, verb_command
from transport.cli._run import on_signal, tell
from transport.cli.exit_codes import SIGNAL_EXIT_BASE
from transport.clients.backoff import DEFAULT_CONNECT_TIMEOUT
from transport.errors import TransportError
from transport.wire.address import DEFAULT_SEND_ADDRESS

if TYPE_CHECKING:
    from transport.cli._input import LineInput, Window
    from transport.clients.sender_session import Confirmation
    from transport.security.access import Access

VERB = "send"


def _readable(paths: list[str] | None) -> list[str] | None:
    """Typer callback: an input that cannot be there is a usage error, before anything is sent."""
    for path in paths or []:
        if path == STDIN:
            continue
        if not Path(path).exists():
            raise typer.BadParameter(f"{path} does not exist")
        if Path(path).is_dir():
            raise typer.BadParameter(f"{path} is a folder; name the files in it")
        if not os.access(path, os.R_OK):
            raise typer.BadParameter(f"{path} may not be read")
    return paths


@verb_command(VERB, inputs="files")
async def send(
    queue: QueueOption,
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FILE ...|-]", help="What to send; the standard input by default.", callback=_readable),
    ] = None,
    address: SendAddress = DEFAULT_SEND_ADDRESS,
    connect_timeout: ConnectTimeout = DEFAULT_CONNECT_TIMEOUT,
    *,
    access: Access,
) -> int:
    """Send lines, one message a line. Exits with 0 only when every one is confirmed by the broker."""
    from asyncio import CancelledError  # noqa: PLC0415 - not needed for --help

    from streams import Sink, Source  # noqa: PLC0415
    from transport.cli._input import LineInput, Window  # noqa: PLC0415
    from transport.clients.backoff import Backoff  # noqa: PLC0415
    from transport.clients.sender import Sender  # noqa: PLC0415

    window = Window()
    lines = LineInput(files or [], window)
    sender = Sender(address, queue=queue, reconnect=Backoff(give_up_after=connect_timeout), access=access)
    stopped_by: list[Signals] = []

    with _progress(lines) as show:

        def confirmed(confirmation: Confirmation) -> None:
            window.confirmed(confirmation.count)
            show(window)

        began = time.monotonic()
        running = Source.from_async_iterable(lines.batches).via(sender).to(Sink.foreach(confirmed)).run()

        def stop(number: Signals) -> None:
            stopped_by.append(number)
            running.cancel()

        failure: Exception | None = None
        with on_signal(stop):
            try:
                await running
            except CancelledError:
                if not stopped_by:
                    raise
            except (TransportError, OSError) as error:
                failure = error
    tell(VERB, _summary(window, queue, address, time.monotonic() - began))
    if failure is not None:
        raise failure
    if stopped_by:
        tell(VERB, f"stopped by {stopped_by[0].name} before the end of the input")
        return SIGNAL_EXIT_BASE + stopped_by[0]
    if lines.error is not None:
        raise lines.error
    return 0


def _summary(window: Window, queue: str, address: str, seconds: float) -> str:
    messages, rate = window.confirmed_messages, window.confirmed_messages / max(seconds, 1e-6)
    megabytes = window.confirmed_bytes / 1e6
    text = (
        f"{messages} messages confirmed in queue {queue} at {address}, "
        f"{megabytes:.1f} MB in {seconds:.2f} s ({rate:,.0f} messages/s)"
    )
    open_ones = window.read_messages - messages
    return text if not open_ones else f"{text}; {open_ones} read and not confirmed, which may or may not be stored"


@contextmanager
def _progress(lines: LineInput) -> Iterator[Callable[[Window], None]]:
    """What brings the figures up to date: a bar on stderr where somebody looks, on a terminal only. It is removed at the end."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich import progress as bars  # noqa: PLC0415 - rich is only loaded where it is shown
    from rich.console import Console  # noqa: PLC0415

    total = lines.total_bytes()
    left = bars.TimeElapsedColumn() if total is None else bars.TimeRemainingColumn()
    messages = bars.TextColumn("{task.fields[messages]:,} messages")
    columns = (messages, bars.BarColumn(), bars.DownloadColumn(), bars.TransferSpeedColumn(), left)
    with bars.Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("send", total=total, messages=0)
        # Redrawn by rich's own timer.
        yield lambda window: progress.update(task, completed=window.confirmed_bytes, messages=window.confirmed_messages)
