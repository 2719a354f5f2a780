"""``penstock receive``: payloads to the standard output, a line each, acknowledged once they are written."""

from __future__ import annotations

import sys
from signal import Signals
from typing import TYPE_CHECKING, Annotated

import typer

from transport.cli._options import ConnectTimeout, QueueOption, ReceiveAddress, verb_command
from transport.cli._run import on_signal, tell
from transport.cli.exit_codes import SIGNAL_EXIT_BASE
from transport.clients.backoff import DEFAULT_CONNECT_TIMEOUT
from transport.wire.address import DEFAULT_RECEIVE_ADDRESS

if TYPE_CHECKING:
    from transport.cli._printing import Printer
    from transport.security.access import Access

VERB = "receive"
DEFAULT_MAX_IN_FLIGHT = 1000


@verb_command(VERB)
async def receive(
    queue: QueueOption,
    *,
    address: ReceiveAddress = DEFAULT_RECEIVE_ADDRESS,
    count: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Print exactly this many messages, then exit.")
    ] = None,
    idle_exit: Annotated[
        float | None,
        typer.Option(metavar="S", min=0.001, help="Exit when no message has come for this many seconds."),
    ] = None,
    max_in_flight: Annotated[
        int, typer.Option(metavar="N", min=1, help="Messages held and not yet acknowledged, at most.")
    ] = DEFAULT_MAX_IN_FLIGHT,
    connect_timeout: ConnectTimeout = DEFAULT_CONNECT_TIMEOUT,
    access: Access,
) -> int:
    """Print messages as lines. Each is acknowledged after it is written; without --count or --idle-exit, until stopped."""
    if count is not None and idle_exit is not None:
        raise typer.BadParameter("--count and --idle-exit exclude one another")
    from transport.cli._printing import Printer  # noqa: PLC0415 - not needed for --help
    from transport.clients.backoff import Backoff  # noqa: PLC0415
    from transport.clients.receiver import Receiver  # noqa: PLC0415

    receiver = Receiver(
        address,
        queue=queue,
        max_in_flight=max_in_flight,
        limit=count,
        reconnect=Backoff(give_up_after=connect_timeout),
        access=access,
    )
    printer = Printer(sys.stdout.fileno(), idle_exit)
    stopped_by: list[Signals] = []

    def stop(number: Signals) -> None:
        stopped_by.append(number)
        printer.stop()

    with on_signal(stop):
        await printer.run(receiver)
    return _exit_code(printer, count, stopped_by)


def _exit_code(printer: Printer, count: int | None, stopped_by: list[Signals]) -> int:
    """An end by signal is the ordinary one, unless a number was asked for and is not reached."""
    if stopped_by and count is not None and printer.printed < count:
        tell(VERB, f"stopped by {stopped_by[0].name} after {printer.printed} of {count} messages")
        return SIGNAL_EXIT_BASE + stopped_by[0]
    return 0
