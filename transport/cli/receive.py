"""``penstock receive``: messages to the standard output, acknowledged once they are written."""

from __future__ import annotations

import sys
import time
from signal import Signals
from typing import TYPE_CHECKING, Annotated

import typer

from transport.cli._options import (
    ConnectTimeout,
    Jsonl,
    LengthPrefixed,
    NoCreate,
    Null,
    QueueOrNone,
    Quiet,
    ReceiveAddress,
    format_of,
    time_option,
    verb_command,
)
from transport.cli._receiving_from import BindingKey, FromExchange, origin_of
from transport.cli._run import QUIETLY_EMPTY, TOLD_AT_ONCE, on_signal, tell, untold, wait_teller
from transport.cli.exit_codes import EXIT_DONE, EXIT_FEWER, SIGNAL_EXIT_BASE
from transport.clients.backoff import DEFAULT_CONNECT_TIMEOUT
from transport.wire.address import DEFAULT_RECEIVE_ADDRESS

if TYPE_CHECKING:
    from transport.cli._printing import Printer
    from transport.security.access import Access

VERB = "receive"
DEFAULT_MAX_IN_FLIGHT = 1000


@verb_command(VERB)
async def receive(
    queue: QueueOrNone = None,
    *,
    exchange: FromExchange = None,
    binding_key: BindingKey = None,
    address: ReceiveAddress = DEFAULT_RECEIVE_ADDRESS,
    null: Null = False,
    length_prefixed: LengthPrefixed = False,
    jsonl: Jsonl = False,
    count: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Print exactly this many messages, then exit.")
    ] = None,
    idle_exit: Annotated[
        float | None,
        time_option(
            "--idle-exit",
            f"Exit when no message has come for so long; with --count before N of them: exit code {EXIT_FEWER}.",
        ),
    ] = None,
    max_in_flight: Annotated[
        int, typer.Option(metavar="N", min=1, help="Messages held and not yet acknowledged, at most.")
    ] = DEFAULT_MAX_IN_FLIGHT,
    no_create: NoCreate = False,
    quiet: Quiet = False,
    connect_timeout: ConnectTimeout = DEFAULT_CONNECT_TIMEOUT,
    access: Access,
) -> int:
    """Print messages as lines, or in another format. In a pipe, acknowledged means that the pipe has it, not that its reader is done.

    Without --count or --idle-exit it goes on until it is stopped. Where the reader may fail, keep the messages: have it read a file, or
    handle them in a program with a Receiver; what a queue has put aside goes back with `queue move`. With --exchange it begins with what is
    published from then on.
    """
    form = format_of(null=null, length_prefixed=length_prefixed, jsonl=jsonl)
    from transport.cli._output_formats import encoder_of  # noqa: PLC0415 - not needed for --help
    from transport.cli._printing import Printer  # noqa: PLC0415
    from transport.clients.backoff import Backoff  # noqa: PLC0415
    from transport.clients.receiver import Receiver  # noqa: PLC0415

    origin = origin_of(queue, exchange, binding_key, no_create=no_create)
    # That a queue is empty is news to who looks on, and is what a script with --idle-exit waits for.
    looked_at = idle_exit is None and sys.stderr.isatty()
    on_wait = untold if quiet else wait_teller(VERB, TOLD_AT_ONCE if looked_at else TOLD_AT_ONCE | QUIETLY_EMPTY)
    receiver = Receiver(
        address,
        queue=origin.queue,
        bind=origin.bindings or None,
        max_in_flight=max_in_flight,
        limit=count,
        reconnect=Backoff(give_up_after=connect_timeout),
        access=access,
        create=not no_create,
        on_wait=on_wait,
    )
    printer = Printer(sys.stdout.fileno(), idle_exit, encoder_of(form, lambda text: tell(VERB, text)), on_wait)
    stopped_by: list[Signals] = []

    def stop(number: Signals) -> None:
        stopped_by.append(number)
        printer.stop()

    began = time.monotonic()
    failed = True
    try:
        with on_signal(stop):
            await printer.run(receiver)
        failed = False
    finally:
        # Who could not even begin has nothing to sum up.
        if not quiet and (printer.printed or not failed):
            tell(VERB, _summary(printer, origin.text, address, time.monotonic() - began))
    return _exit_code(printer, count, idle_exit, stopped_by)


def _summary(printer: Printer, origin: str, address: str, seconds: float) -> str:
    from transport.cli import _written as written  # noqa: PLC0415 - as above

    text = (
        f"{written.counted(printer.printed, 'message')} ({written.size(printer.printed_bytes)}) received from {origin} at {address} "
        f"in {written.duration(seconds)}"
    )
    if printer.again:
        text += f"; {printer.again:,} came again"
    if printer.perhaps_again:
        text += f"; {printer.perhaps_again:,} perhaps again, for the broker was restarted"
    return text


def _exit_code(printer: Printer, count: int | None, idle_exit: float | None, stopped_by: list[Signals]) -> int:
    """An end by signal is the ordinary one, unless a number was asked for and is not reached; so is one by silence."""
    if count is None or printer.printed >= count:
        return EXIT_DONE
    if stopped_by:
        tell(VERB, f"stopped by {stopped_by[0].name} after {printer.printed} of {count} messages")
        return SIGNAL_EXIT_BASE + stopped_by[0]
    if printer.idled:
        tell(VERB, f"no message has come for {idle_exit:g} s, after {printer.printed} of {count} messages")
        return EXIT_FEWER
    return EXIT_DONE
