"""``penstock bench``: how much a broker takes and gives, and how soon, measured with clients as programs have them."""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from transport.cli._access import ACCESS, take_access
from transport.cli._options import CONNECTING, ConnectTimeout, Parameter, address, time_option, with_parameters
from transport.cli._run import fail, failures, on_signal, run, tell
from transport.cli.exit_codes import EXIT_DONE, EXIT_FAILED, SIGNAL_EXIT_BASE
from transport.wire.address import RECEIVE_PORT

if TYPE_CHECKING:
    from transport.cli._bench_run import Plan

VERB: Final = "bench"
MAX_SECONDS: Final = 3600
MAX_CLIENTS: Final = 64
STAMP_BYTES: Final = 8
MAX_SIZE: Final = 1 << 20
MAX_BATCH: Final = 10_000
MAX_BYTES: Final = 8 << 20
"""Of a batch: it fits a frame."""

DEFAULT_SECONDS: Final = 10.0
Seconds = Annotated[
    float,
    time_option("--seconds", "How long to measure.", least=0.5, most=MAX_SECONDS, default=DEFAULT_SECONDS),
]
Size = Annotated[
    int, typer.Option("--size", metavar="BYTES", min=STAMP_BYTES, max=MAX_SIZE, help="Bytes of each message.")
]
Batch = Annotated[
    int,
    typer.Option("--batch", metavar="N", min=1, max=MAX_BATCH, help="Messages that a sender is given at once."),
]
Senders = Annotated[int, typer.Option("--senders", metavar="N", min=1, max=MAX_CLIENTS, help="Senders at one time.")]
Receivers = Annotated[
    int, typer.Option("--receivers", metavar="N", min=1, max=MAX_CLIENTS, help="Receivers at one time.")
]
Memory = Annotated[
    bool, typer.Option("--memory", help="Start a broker for this, in memory.", rich_help_panel="A broker of its own")
]
Data = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        help="Start a broker for this, with its journal in DIR: it measures the disk too.",
        rich_help_panel="A broker of its own",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object instead of the picture.")]
ReceiveAddress = Annotated[
    str | None,
    typer.Option(
        "--receive-address",
        metavar="H[:P]",
        help="The broker's receiving address.",
        callback=address(RECEIVE_PORT),
        show_default="the context's, or the port after --address",
    ),
]


def _bench(
    seconds: Seconds = DEFAULT_SECONDS,
    size: Size = 100,
    batch: Batch = 1000,
    senders: Senders = 1,
    receivers: Receivers = 1,
    as_json: AsJson = False,
    memory: Memory = False,
    data: Data = None,
    receive_address: ReceiveAddress = None,
    connect_timeout: ConnectTimeout = 10.0,
    **where: Any,
) -> None:
    """Measure a broker: what it confirms and gives a second, and how long a message takes. The queue is its own, and is deleted.

    It takes as much of the broker as it can get: others feel it. Its user needs `configure`, `write` and `read` on `penstock-bench-*`.
    """
    if size * batch > MAX_BYTES:
        raise typer.BadParameter(
            f"--size {size} and --batch {batch} make batches of {size * batch:,} bytes, {MAX_BYTES:,} are the most: lower one of them"
        )
    if memory and data is not None:
        raise typer.BadParameter("--memory and --data exclude one another")
    own = memory or data is not None
    said = [
        f"--{name.replace('_', '-')}"
        for name, value in {**where, "receive_address": receive_address}.items()
        if value is not None
    ]
    if own and said:
        raise typer.BadParameter(f"--memory and --data start a broker here; {said[0]} is for one that there is")
    from transport.cli._bench_broker import OwnBroker  # noqa: PLC0415 - the help needs none of it
    from transport.cli._bench_run import Plan  # noqa: PLC0415
    from transport.security.access import NOBODY  # noqa: PLC0415

    cpu: Callable[[], float | None] = lambda: None  # noqa: E731 - the same type as the broker's own
    with ExitStack() as stack:
        if own:
            try:
                # A signal that ends this program ends the broker too.
                stack.callback(signal.signal, signal.SIGTERM, signal.signal(signal.SIGTERM, _interrupt))
                broker = stack.enter_context(OwnBroker(data))
            except failures() as error:
                fail(VERB, error)
            addresses, access, cpu = (broker.send_address, broker.receive_address), NOBODY, broker.cpu
        else:
            given = {**where, "receive_address": receive_address}
            access = take_access(VERB, given)
            addresses = given["address"], given["receive_address"]
        _measure(Plan(*addresses, seconds, size, batch, senders, receivers, connect_timeout, access), cpu, as_json)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _measure(plan: Plan, cpu: Callable[[], float | None], as_json: bool) -> None:
    async def main() -> int:
        from transport.cli._bench_report import facts_of, report  # noqa: PLC0415 - the help needs none of it
        from transport.cli._bench_run import DRAIN_SECONDS, Bench  # noqa: PLC0415

        bench = Bench(plan, cpu)
        stopped_by: list[signal.Signals] = []

        def stop(number: signal.Signals) -> None:
            stopped_by.append(number)
            bench.stop()

        with on_signal(stop):
            measured = await bench.run()
        if as_json:
            import json  # noqa: PLC0415

            typer.echo(json.dumps(facts_of(plan, measured), indent=2))
        else:
            typer.echo(report(plan, measured))
        if stopped_by:
            tell(VERB, f"stopped by {stopped_by[0].name}; the queue {measured.queue} is deleted")
            return SIGNAL_EXIT_BASE + stopped_by[0]
        if measured.overdue is not None:
            tell(
                VERB,
                f"{measured.overdue} did not come to its end in the {DRAIN_SECONDS:g} s after its time, and was broken off: "
                "the figures are of what had come until then",
            )
            return EXIT_FAILED
        return EXIT_DONE

    run(VERB, main, uvloop=True)


def _command(**given: Any) -> None:
    _bench(**given)


_PARAMETERS: dict[str, Parameter] = {
    "seconds": (Seconds, DEFAULT_SECONDS),
    "size": (Size, 100),
    "batch": (Batch, 1000),
    "senders": (Senders, 1),
    "receivers": (Receivers, 1),
    "as_json": (AsJson, False),
    "memory": (Memory, False),
    "data": (Data, None),
    "address": CONNECTING["address"],
    "receive_address": (ReceiveAddress, None),
    "connect_timeout": CONNECTING["connect_timeout"],
    **ACCESS,
}
bench = with_parameters(_command, _bench, _PARAMETERS)
