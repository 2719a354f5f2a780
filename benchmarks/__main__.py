"""``python -m benchmarks``: one command a benchmark."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from benchmarks._report import Report
from benchmarks._transfer import Transfer

DURABLE_IN_FLIGHT = 256_000
"""A receiver's window that covers several group commits: with 64,000, which a broker in memory is content with, it waits for syncs."""

app = typer.Typer(no_args_is_help=True, add_completion=False, help=__doc__)

Json = Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the result as JSON, too.")]
Rounds = Annotated[int, typer.Option(min=1, metavar="N", help="Rounds of each, in turn; medians are reported.")]
Size = Annotated[int, typer.Option(min=1, metavar="BYTES", help="Bytes of a payload.")]
Cores = Annotated[int, typer.Option(min=1, metavar="N", help="Spark's local cores.")]
Uvloop = Annotated[bool, typer.Option(help="uvloop's event loop in all processes, or asyncio's own.")]
Profile = Annotated[
    Path | None,
    typer.Option(
        "--profile-broker",
        metavar="FILE",
        help="Run the broker under cProfile; FILE.txt lists the last round's hottest functions. Slows it down by half.",
    ),
]

Data = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        help="Where the journals' folders are made; beside the repository by default.",
        file_okay=False,
        exists=True,
    ),
]


@app.command()
def throughput(
    messages: Annotated[int, typer.Option(min=1, metavar="N", help="Messages of a round.")] = 4_000_000,
    size: Size = 100,
    batch: Annotated[int, typer.Option(min=1, metavar="N", help="Messages of a batch.")] = 1_000,
    max_in_flight: Annotated[int, typer.Option(min=1, metavar="N", help="The receiver's.")] = 64_000,
    rounds: Rounds = 5,
    uvloop: Uvloop = True,
    json: Json = None,
    profile: Profile = None,
) -> None:
    """Messages a second in batches, against the same bytes through a relay."""
    from benchmarks.throughput import run  # noqa: PLC0415 - a command loads what it needs

    _finish(run(Transfer(messages, size, batch, True, max_in_flight, uvloop, profile), rounds), json)


@app.command()
def single(
    messages: Annotated[int, typer.Option(min=1, metavar="N", help="Messages of a round.")] = 1_000_000,
    size: Size = 100,
    batch: Annotated[int, typer.Option(min=1, metavar="N", help="The sender's limit of its own batches.")] = 1_000,
    max_in_flight: Annotated[int, typer.Option(min=1, metavar="N", help="The receiver's.")] = 10_000,
    rounds: Rounds = 5,
    uvloop: Uvloop = True,
    json: Json = None,
    profile: Profile = None,
) -> None:
    """Messages a second, each an element and a delivery of its own."""
    from benchmarks.throughput import run  # noqa: PLC0415 - a command loads what it needs

    _finish(run(Transfer(messages, size, batch, False, max_in_flight, uvloop, profile), rounds), json)


@app.command()
def latency(
    rate: Annotated[float, typer.Option(min=1, metavar="N", help="Messages a second.")] = 1_000,
    seconds: Annotated[float, typer.Option(min=0.01, metavar="S", help="Seconds that count, of a round.")] = 10.0,
    warm_up: Annotated[float, typer.Option(min=0, metavar="S", help="Seconds before them that do not.")] = 1.0,
    size: Annotated[int, typer.Option(min=8, metavar="BYTES", help="Bytes of a payload.")] = 100,
    max_in_flight: Annotated[int, typer.Option(min=1, metavar="N", help="The receiver's.")] = 1_000,
    rounds: Rounds = 3,
    uvloop: Uvloop = True,
    json: Json = None,
) -> None:
    """How long a message takes, at a paced rate."""
    from benchmarks.latency import run  # noqa: PLC0415 - a command loads what it needs

    _finish(run(rate, seconds, warm_up, size, max_in_flight, rounds, uvloop), json)


@app.command()
def durable(
    messages: Annotated[int, typer.Option(min=1, metavar="N", help="Messages of a round.")] = 4_000_000,
    size: Size = 100,
    batch: Annotated[int, typer.Option(min=1, metavar="N", help="Messages of a batch.")] = 1_000,
    small_batch: Annotated[int, typer.Option(min=1, metavar="N", help="Messages of a batch, once more.")] = 100,
    large_size: Annotated[int, typer.Option(min=1, metavar="BYTES", help="Bytes of a payload, once more.")] = 1_024,
    large_messages: Annotated[int, typer.Option(min=1, metavar="N", help="How many of these.")] = 500_000,
    max_in_flight: Annotated[int, typer.Option(min=1, metavar="N", help="The receiver's.")] = DURABLE_IN_FLIGHT,
    rounds: Rounds = 3,
    uvloop: Uvloop = True,
    data: Data = None,
    json: Json = None,
    profile: Profile = None,
) -> None:
    """Messages a second that are confirmed after an fdatasync, against a broker in memory and a plain append."""
    from benchmarks.durable import run  # noqa: PLC0415 - a command loads what it needs

    transfer = Transfer(messages, size, batch, True, max_in_flight, uvloop, profile)
    _finish(run(transfer, small_batch, large_size, large_messages, rounds, data), json)


@app.command()
def cluster(
    messages: Annotated[int, typer.Option(min=1, metavar="N", help="Messages of a round.")] = 4_000_000,
    size: Size = 100,
    batch: Annotated[int, typer.Option(min=1, metavar="N", help="Messages of a batch.")] = 1_000,
    max_in_flight: Annotated[int, typer.Option(min=1, metavar="N", help="The receiver's.")] = DURABLE_IN_FLIGHT,
    rounds: Rounds = 3,
    data: Data = None,
    json: Json = None,
) -> None:
    """Messages a second that three brokers confirm together, against one alone and a bare loop that ships and syncs."""
    from benchmarks.cluster import run  # noqa: PLC0415 - a command loads what it needs

    _finish(run(Transfer(messages, size, batch, True, max_in_flight, True), rounds, data), json)


@app.command("cluster_latency")
def cluster_latency(
    rate: Annotated[float, typer.Option(min=1, metavar="N", help="Messages a second.")] = 1_000,
    seconds: Annotated[float, typer.Option(min=0.01, metavar="S", help="Seconds that count, of a round.")] = 10.0,
    warm_up: Annotated[float, typer.Option(min=0, metavar="S", help="Seconds before them that do not.")] = 1.0,
    size: Annotated[int, typer.Option(min=8, metavar="BYTES", help="Bytes of a payload.")] = 100,
    max_in_flight: Annotated[int, typer.Option(min=1, metavar="N", help="The receiver's.")] = 1_000,
    rounds: Rounds = 3,
    data: Data = None,
    json: Json = None,
) -> None:
    """How long a message and its confirmation take with three brokers, at a paced rate, against one alone."""
    from benchmarks._paced_transfer import Schedule  # noqa: PLC0415 - a command loads what it needs
    from benchmarks.cluster_latency import run  # noqa: PLC0415 - likewise

    _finish(run(Schedule(rate, seconds, warm_up, size, max_in_flight, True), rounds, data), json)


@app.command("cluster_beside")
def cluster_beside(
    messages: Annotated[int, typer.Option(min=1, metavar="N", help="Messages of a round.")] = 2_000_000,
    size: Size = 100,
    batch: Annotated[int, typer.Option(min=1, metavar="N", help="Messages of a batch.")] = 1_000,
    theirs: Annotated[int, typer.Option(min=1, metavar="N", help="Messages of a round of the others.")] = 100_000,
    large_messages: Annotated[int, typer.Option(min=1, metavar="N", help="Large messages of a round.")] = 16_000,
    large_size: Annotated[int, typer.Option(min=1, metavar="BYTES", help="Bytes of their payloads.")] = 65_536,
    large_batch: Annotated[int, typer.Option(min=1, metavar="N", help="Large messages of a batch.")] = 16,
    large_theirs: Annotated[
        int, typer.Option(min=1, metavar="N", help="Large messages of a round of the others.")
    ] = 8_000,
    max_in_flight: Annotated[int, typer.Option(min=1, metavar="N", help="The receiver's.")] = DURABLE_IN_FLIGHT,
    rounds: Rounds = 3,
    data: Data = None,
    json: Json = None,
) -> None:
    """Three brokers that act as one, beside RabbitMQ's quorum queues and JetStream on three nodes, where they are installed."""
    from benchmarks.cluster_beside import Part, run  # noqa: PLC0415 - a command loads what it needs

    parts = [
        Part(f"{size} B", size, messages, theirs, batch, 20.0),
        Part(f"{large_size} B", large_size, large_messages, large_theirs, large_batch, 5.0),
    ]
    _finish(run(parts, max_in_flight, rounds, data), json)


@app.command("cluster_joining")
def cluster_joining(
    backlog: Annotated[
        str, typer.Option("--bytes", metavar="SIZE", help="Of the payloads that nobody receives.")
    ] = "5GB",
    size: Annotated[int, typer.Option(min=1, metavar="BYTES", help="Bytes of a payload.")] = 65_536,
    batch: Annotated[int, typer.Option(min=1, metavar="N", help="Messages of a batch.")] = 16,
    seconds: Annotated[float, typer.Option(min=1, metavar="S", help="Seconds of each part but the transfer.")] = 30.0,
    segment_bytes: Annotated[
        str | None, typer.Option(metavar="SIZE", help="The brokers'; small ones for a small backlog.")
    ] = None,
    log_bytes: Annotated[
        str | None, typer.Option(metavar="SIZE", help="The brokers' --cluster-log-bytes; likewise.")
    ] = None,
    data: Data = None,
    json: Json = None,
) -> None:
    """What senders and memory feel of it while an empty node takes the place of one of three that hold a live backlog."""
    from benchmarks.cluster_joining import Load, run  # noqa: PLC0415 - a command loads what it needs
    from transport.config.units import parse_size  # noqa: PLC0415 - likewise

    given = {"--segment-bytes": segment_bytes, "--cluster-log-bytes": log_bytes}
    options = tuple(word for name, value in given.items() if value is not None for word in (name, value))
    _finish(run(Load(parse_size(backlog), size, batch, seconds, options), data), json)


@app.command()
def arrow(
    messages: Annotated[int, typer.Option(min=1, metavar="N", help="Messages of a round.")] = 4_000_000,
    size: Size = 100,
    batch: Annotated[
        int, typer.Option(min=1, metavar="N", help="Rows of a record batch, messages of a batch.")
    ] = 10_000,
    max_in_flight: Annotated[int, typer.Option(min=1, metavar="N", help="The receiver's.")] = DURABLE_IN_FLIGHT,
    rounds: Rounds = 5,
    uvloop: Uvloop = True,
    data: Data = None,
    json: Json = None,
    profile: Profile = None,
) -> None:
    """Messages a second as Arrow record batches both ways, against payload objects and against the bytes alone."""
    from benchmarks.arrow import run  # noqa: PLC0415 - a command loads what it needs

    _finish(run(Transfer(messages, size, batch, True, max_in_flight, uvloop, profile), rounds, data), json)


@app.command()
def security(
    messages: Annotated[
        int, typer.Option(min=1, metavar="N", help="Messages of a round; a tenth under TLS.")
    ] = 4_000_000,
    size: Size = 100,
    batch: Annotated[int, typer.Option(min=1, metavar="N", help="Messages of a batch.")] = 1_000,
    clients: Annotated[int, typer.Option(min=1, metavar="N", help="Clients that come back at one time.")] = 5_000,
    rate: Annotated[float, typer.Option(min=1, metavar="N", help="Messages a second of the pair beside them.")] = 500,
    seconds: Annotated[float, typer.Option(min=1, metavar="S", help="Seconds of the pair.")] = 15.0,
    max_in_flight: Annotated[int, typer.Option(min=1, metavar="N", help="The receiver's.")] = 64_000,
    rounds: Rounds = 3,
    uvloop: Uvloop = True,
    json: Json = None,
) -> None:
    """What users, TLS and the return of many clients cost."""
    from benchmarks.security import run  # noqa: PLC0415 - a command loads what it needs

    _finish(run(Transfer(messages, size, batch, True, max_in_flight, uvloop), clients, rate, seconds, rounds), json)


@app.command("group_commit")
def group_commit(
    senders: Annotated[int, typer.Option(min=1, metavar="N", help="Senders with one message under way each.")] = 64,
    messages: Annotated[int, typer.Option(min=1, metavar="N", help="Messages of a round, of all of them.")] = 100_000,
    size: Annotated[int, typer.Option(min=1, metavar="BYTES", help="Bytes of a payload.")] = 4_096,
    rounds: Rounds = 3,
    uvloop: Uvloop = True,
    data: Data = None,
    json: Json = None,
    profile: Profile = None,
) -> None:
    """Confirmations a second, and syncs a message, of many senders that each wait for one confirmation."""
    from benchmarks.group_commit import run  # noqa: PLC0415 - a command loads what it needs

    _finish(run(senders, messages, size, rounds, uvloop, data, profile), json)


@app.command()
def smq(
    size: Annotated[
        list[int] | None,
        typer.Option(
            min=1, metavar="BYTES", help="Bytes of a payload; may be given several times. [default: 100 to 65,536]"
        ),
    ] = None,
    messages: Annotated[int, typer.Option(min=1, metavar="N", help="Messages of a size and round.")] = 2_000,
    warm_up: Annotated[int, typer.Option(min=0, metavar="N", help="First ones that do not count.")] = 200,
    rounds: Rounds = 5,
    uvloop: Uvloop = True,
    json: Json = None,
) -> None:
    """How long a source of the simple message queue waits for a confirmation, beside a native sender."""
    from benchmarks.smq import run  # noqa: PLC0415 - a command loads what it needs

    _finish(run(size or [100, 1_000, 8_000, 8_192, 16_384, 65_536], messages, warm_up, rounds, uvloop), json)


@app.command()
def websocket(
    messages: Annotated[int, typer.Option(min=1, metavar="N", help="Messages of a round.")] = 1_000_000,
    size: Size = 100,
    batch: Annotated[int, typer.Option(min=1, metavar="N", help="Messages of a batch.")] = 100,
    max_in_flight: Annotated[int, typer.Option(min=1, metavar="N", help="The receiver's.")] = 64_000,
    rounds: Rounds = 5,
    uvloop: Uvloop = True,
    json: Json = None,
    profile: Profile = None,
) -> None:
    """What the native protocol costs a broker over WebSocket, beside TCP."""
    from benchmarks.websocket import run  # noqa: PLC0415 - a command loads what it needs

    _finish(run(messages, size, batch, max_in_flight, rounds, uvloop, profile), json)


@app.command()
def http(
    requests: Annotated[int, typer.Option(min=1, metavar="N", help="Requests of a round.")] = 12_800,
    connections: Annotated[int, typer.Option(min=1, metavar="N", help="Each waits for its answer.")] = 32,
    size: Size = 100,
    rounds: Rounds = 5,
    uvloop: Uvloop = True,
    data: Data = None,
    json: Json = None,
    profile: Profile = None,
) -> None:
    """What a durable publish over HTTP costs, beside the same request to a handler that only parses it."""
    from benchmarks.http import run  # noqa: PLC0415 - a command loads what it needs

    _finish(run(requests, connections, size, rounds, uvloop, data, profile), json)


@app.command("durable_latency")
def durable_latency(
    rate: Annotated[float, typer.Option(min=1, metavar="N", help="Messages a second.")] = 1_000,
    seconds: Annotated[float, typer.Option(min=0.01, metavar="S", help="Seconds that count, of a round.")] = 10.0,
    warm_up: Annotated[float, typer.Option(min=0, metavar="S", help="Seconds before them that do not.")] = 1.0,
    size: Annotated[int, typer.Option(min=8, metavar="BYTES", help="Bytes of a payload.")] = 100,
    max_in_flight: Annotated[int, typer.Option(min=1, metavar="N", help="The receiver's.")] = 1_000,
    rounds: Rounds = 3,
    uvloop: Uvloop = True,
    data: Data = None,
    json: Json = None,
) -> None:
    """How long a message and its confirmation take with a journal, at a paced rate, against a plain append."""
    from benchmarks._paced_transfer import Schedule  # noqa: PLC0415 - a command loads what it needs
    from benchmarks.durable_latency import run  # noqa: PLC0415 - likewise

    _finish(run(Schedule(rate, seconds, warm_up, size, max_in_flight, uvloop), rounds, data), json)


@app.command()
def redis(
    rate: Annotated[float, typer.Option(min=1, metavar="N", help="Messages a second.")] = 1_000,
    seconds: Annotated[float, typer.Option(min=0.01, metavar="S", help="Seconds that count, of a round.")] = 10.0,
    warm_up: Annotated[float, typer.Option(min=0, metavar="S", help="Seconds before them that do not.")] = 1.0,
    size: Annotated[int, typer.Option(min=8, metavar="BYTES", help="Bytes of a payload.")] = 100,
    max_in_flight: Annotated[int, typer.Option(min=1, metavar="N", help="The receivers'.")] = 1_000,
    one_at_a_time: Annotated[
        bool, typer.Option("--one-at-a-time", help="Redis's sender waits for each answer before it sends the next.")
    ] = False,
    rounds: Rounds = 5,
    uvloop: Uvloop = True,
    data: Data = None,
    json: Json = None,
) -> None:
    """What a paced durable message costs the broker and how long it takes, beside Redis with appendfsync always."""
    from benchmarks._redis_server import missing  # noqa: PLC0415 - a command loads what it needs

    lacking = missing()
    if lacking is not None:
        typer.echo(f"penstock: {lacking}", err=True)
        raise typer.Exit(2)
    from benchmarks.redis import run  # noqa: PLC0415 - redis-py is there only now

    _finish(run(rate, seconds, warm_up, size, max_in_flight, rounds, one_at_a_time, uvloop, data), json)


@app.command()
def backlog(
    messages: Annotated[
        int, typer.Option(min=0, metavar="N", help="Messages of the backlog; 0 leaves it out.")
    ] = 20_000_000,
    size: Size = 100,
    batch: Annotated[int, typer.Option(min=2, metavar="N", help="Messages of a batch.")] = 1_000,
    moved: Annotated[int, typer.Option(min=1, metavar="N", help="Messages sent and received beside it.")] = 4_000_000,
    singles: Annotated[int, typer.Option(min=0, metavar="N", help="Messages of another, sent one by one.")] = 1_000_000,
    singles_moved: Annotated[
        int, typer.Option(min=1, metavar="N", help="Sent and received beside that one.")
    ] = 300_000,
    leveled: Annotated[
        int, typer.Option(min=0, metavar="N", help="Messages of another, in batches of ten priorities.")
    ] = 10_000_000,
    rounds: Rounds = 3,
    uvloop: Uvloop = True,
    data: Data = None,
    json: Json = None,
) -> None:
    """Memory, restart, disk and speed of a broker with millions of messages on its disk."""
    from benchmarks.backlog import Case, run  # noqa: PLC0415 - a command loads what it needs

    cases = [Case("batches", messages, size, batch, moved), Case("one by one", singles, size, 1, singles_moved)]
    cases.append(Case("ten levels", leveled, size, batch, moved, leveled=True))
    _finish(run([case for case in cases if case.messages], rounds, uvloop, data), json)


@app.command()
def delays(
    messages: Annotated[int, typer.Option(min=1, metavar="N", help="Messages that wait.")] = 5_000_000,
    batch: Annotated[
        int, typer.Option(min=1, metavar="N", help="Of those that do not come, how many have one time.")
    ] = 10,
    rate: Annotated[
        float, typer.Option(min=1, metavar="N", help="Of those that come, how many are due a second.")
    ] = 1_000,
    seconds: Annotated[float, typer.Option(min=1, metavar="S", help="Between two kills.")] = 20.0,
    kills: Annotated[int, typer.Option(min=0, metavar="N", help="Of the broker, while they come.")] = 3,
    size: Size = 100,
    data: Data = None,
    json: Json = None,
) -> None:
    """Memory and restart of a broker with millions of messages that wait for their times, and how late they come."""
    from benchmarks.delays import run  # noqa: PLC0415 - a command loads what it needs

    _finish(run(messages, batch, rate, seconds, kills, size, data), json)


@app.command()
def backpressure(
    seconds: Annotated[float, typer.Option(min=0.1, metavar="S", help="Seconds of the whole run.")] = 300.0,
    warm_up: Annotated[float, typer.Option(min=0, metavar="S", help="Seconds of it until the figures begin.")] = 30.0,
    rate: Annotated[float, typer.Option(min=0.1, metavar="N", help="Messages a second that the receiver takes.")] = 100,
    size: Size = 100,
    max_in_flight: Annotated[int, typer.Option(min=1, metavar="N", help="The receiver's.")] = 100,
    max_queue_messages: Annotated[int, typer.Option(min=1, metavar="N", help="The broker's.")] = 1_000_000,
    interval: Annotated[float, typer.Option(min=0.01, metavar="S", help="Seconds between samples.")] = 1.0,
    uvloop: Uvloop = True,
    json: Json = None,
) -> None:
    """A slow receiver and a fast sender: the broker's memory and the sender's rate."""
    from benchmarks.backpressure import run  # noqa: PLC0415 - a command loads what it needs

    _finish(run(seconds, warm_up, rate, size, max_in_flight, max_queue_messages, interval, uvloop), json)


@app.command()
def fairness(
    connected: Annotated[int, typer.Option(min=2, metavar="N", help="Receivers that are connected.")] = 2_000,
    active: Annotated[int, typer.Option(min=1, metavar="N", help="Those of them that have demand.")] = 100,
    messages: Annotated[int, typer.Option(min=1, metavar="N", help="Messages for all of them.")] = 1_000_000,
    size: Size = 100,
    max_in_flight: Annotated[int, typer.Option(min=1, metavar="N", help="An active receiver's.")] = 100,
    rounds: Rounds = 3,
    uvloop: Uvloop = True,
    json: Json = None,
) -> None:
    """Who gets what among many receivers, and what coming and going costs."""
    if active > connected:
        raise typer.BadParameter(f"{active} active ones are more than the {connected} that are connected")
    from benchmarks.fairness import run  # noqa: PLC0415 - a command loads what it needs

    _finish(run(connected, active, messages, size, max_in_flight, rounds, uvloop), json)


@app.command()
def groups(
    backlog: Annotated[int, typer.Option(min=1, metavar="N", help="Messages of the long backlog.")] = 1_000_000,
    blocked: Annotated[int, typer.Option(min=1, metavar="N", help="Messages of the group in front.")] = 100_000,
    groups: Annotated[int, typer.Option(min=1, metavar="N", help="Groups of the others.")] = 1_000,
    receivers: Annotated[int, typer.Option(min=1, metavar="N", help="Receivers.")] = 4,
    max_in_flight: Annotated[int, typer.Option(min=1, metavar="N", help="Each one's.")] = 100,
    messages: Annotated[int, typer.Option(min=1, metavar="N", help="Messages of a round.")] = 200_000,
    size: Size = 100,
    rounds: Rounds = 3,
    uvloop: Uvloop = True,
    json: Json = None,
    data: Data = None,
) -> None:
    """A queue with groups: a long backlog, and messages of a group that somebody has in front."""
    from benchmarks.groups import run  # noqa: PLC0415 - a command loads what it needs

    _finish(run(backlog, blocked, groups, receivers, max_in_flight, messages, size, rounds, uvloop, data), json)


@app.command()
def idle(
    seconds: Annotated[float, typer.Option(min=0.1, metavar="S", help="Seconds to watch.")] = 30.0,
    senders: Annotated[int, typer.Option(min=0, metavar="N", help="Idle senders.")] = 50,
    receivers: Annotated[int, typer.Option(min=0, metavar="N", help="Idle receivers.")] = 50,
    rounds: Rounds = 1,
    uvloop: Uvloop = True,
    json: Json = None,
) -> None:
    """What idle connections cost the broker."""
    from benchmarks.idle import run  # noqa: PLC0415 - a command loads what it needs

    _finish(run(seconds, senders, receivers, rounds, uvloop), json)


@app.command()
def metrics(
    queues: Annotated[
        list[int] | None,
        typer.Option(min=1, metavar="N", help="Queues; may be given several times. [default: 1,000, 10,000]"),
    ] = None,
    rounds: Rounds = 3,
    uvloop: Uvloop = True,
    json: Json = None,
) -> None:
    """What the metrics cost a broker with many queues, and how long its loop stands still for them."""
    from benchmarks.metrics import run  # noqa: PLC0415 - a command loads what it needs

    _finish(run(queues or [1_000, 10_000], rounds, uvloop), json)


@app.command()
def observed(
    messages: Annotated[int, typer.Option(min=1, metavar="N", help="Messages of a round.")] = 4_000_000,
    size: Size = 100,
    batch: Annotated[int, typer.Option(min=1, metavar="N", help="Messages of a batch.")] = 1_000,
    max_in_flight: Annotated[int, typer.Option(min=1, metavar="N", help="The receiver's.")] = 64_000,
    queues: Annotated[
        list[int] | None,
        typer.Option(min=1, metavar="N", help="Queues beside; may be given several times. [default: 10, 10,000]"),
    ] = None,
    watched: Annotated[
        int, typer.Option(min=1, metavar="N", help="Queues of the broker whose loop is watched.")
    ] = 10_000,
    change: Annotated[int, typer.Option(min=0, metavar="N", help="Those of them that change each second.")] = 1_000,
    seconds: Annotated[
        float, typer.Option(min=0.1, metavar="S", help="Seconds to watch the loop, and to be idle.")
    ] = 10.0,
    rounds: Rounds = 5,
    idle_rounds: Annotated[int, typer.Option(min=1, metavar="N", help="Rounds of being idle.")] = 3,
    uvloop: Uvloop = True,
    json: Json = None,
    profile: Profile = None,
) -> None:
    """What it costs that somebody looks: throughput beside a console and Prometheus, the loop's turns, and being idle."""
    from benchmarks.observed import run  # noqa: PLC0415 - a command loads what it needs

    transfer = Transfer(messages, size, batch, True, max_in_flight, uvloop, profile)
    _finish(run(transfer, queues or [10, 10_000], watched, change, seconds, rounds, idle_rounds), json)


@app.command()
def spark(
    rows_per_batch: Annotated[
        list[int] | None,
        typer.Option(
            min=1, metavar="N", help="Rows of a micro-batch; may be given several times. [default: 10k, 100k, 1M]"
        ),
    ] = None,
    micro_batches: Annotated[int, typer.Option(min=1, metavar="N", help="Micro-batches of a round.")] = 30,
    most_rows: Annotated[int, typer.Option(min=1, metavar="N", help="Rows of a round at most.")] = 10_000_000,
    size: Size = 100,
    batch: Annotated[
        int, typer.Option(min=1, metavar="N", help="Messages of a batch, rows of an Arrow batch.")
    ] = 1_000,
    rounds: Rounds = 3,
    cores: Cores = 2,
    uvloop: Uvloop = True,
    data: Data = None,
    json: Json = None,
) -> None:
    """Rows a second from a durable queue into a Spark query, against ready-made Arrow batches."""
    from benchmarks.spark import run  # noqa: PLC0415 - a command loads what it needs

    sizes = rows_per_batch or [10_000, 100_000, 1_000_000]
    _finish(run(sizes, micro_batches, most_rows, size, batch, rounds, cores, uvloop, data), json)


@app.command("spark_latency")
def spark_latency(
    rate: Annotated[float, typer.Option(min=1, metavar="N", help="Messages a second.")] = 1_000,
    seconds: Annotated[float, typer.Option(min=0.01, metavar="S", help="Seconds that count, of a round.")] = 20.0,
    warm_up: Annotated[float, typer.Option(min=0, metavar="S", help="Seconds before them that do not.")] = 5.0,
    rounds: Rounds = 3,
    cores: Cores = 2,
    uvloop: Uvloop = True,
    data: Data = None,
    json: Json = None,
) -> None:
    """How old a message is when a Spark query has it, at a paced rate."""
    from benchmarks.spark_latency import run  # noqa: PLC0415 - a command loads what it needs

    _finish(run(rate, seconds, warm_up, rounds, cores, uvloop, data), json)


@app.command("spark_backpressure")
def spark_backpressure(
    seconds: Annotated[float, typer.Option(min=1, metavar="S", help="Seconds until the query is stopped.")] = 90.0,
    warm_up: Annotated[float, typer.Option(min=0, metavar="S", help="Seconds of them that do not count.")] = 30.0,
    pause: Annotated[float, typer.Option(min=0, metavar="S", help="Seconds without a query.")] = 60.0,
    rate: Annotated[int, typer.Option(min=1, metavar="N", help="Rows a second that the query takes.")] = 10_000,
    offered: Annotated[
        float, typer.Option(min=1, metavar="N", help="Messages a second that the sender has.")
    ] = 200_000,
    size: Size = 100,
    max_queue_messages: Annotated[int, typer.Option(min=1, metavar="N", help="The queue's limit.")] = 100_000,
    interval: Annotated[float, typer.Option(min=0.01, metavar="S", help="Seconds between two samples.")] = 1.0,
    cores: Cores = 2,
    uvloop: Uvloop = True,
    data: Data = None,
    json: Json = None,
) -> None:
    """A query that takes less than a sender offers, stops, and goes on."""
    from benchmarks.spark_backpressure import run  # noqa: PLC0415 - a command loads what it needs

    limits = (rate, offered, size, max_queue_messages)
    _finish(run(seconds, warm_up, pause, *limits, interval, cores, uvloop, data), json)


@app.command("spark_write")
def spark_write(
    rows: Annotated[int, typer.Option(min=1, metavar="N", help="Rows of a round.")] = 5_000_000,
    warm_up_rows: Annotated[int, typer.Option(min=0, metavar="N", help="Rows of a first round.")] = 500_000,
    size: Size = 100,
    batch: Annotated[int, typer.Option(min=1, metavar="N", help="Rows of an Arrow batch.")] = 10_000,
    rows_per_batch: Annotated[int, typer.Option(min=1, metavar="N", help="Rows of a micro-batch.")] = 500_000,
    rounds: Rounds = 3,
    cores: Cores = 2,
    uvloop: Uvloop = True,
    data: Data = None,
    json: Json = None,
) -> None:
    """Rows a second from a Spark query into a durable queue, beside Spark's file sink."""
    from benchmarks.spark_write import run  # noqa: PLC0415 - a command loads what it needs

    _finish(run(rows, warm_up_rows, size, batch, rows_per_batch, rounds, cores, uvloop, data), json)


@app.command()
def streams(
    elements: Annotated[int, typer.Option(min=1, metavar="N", help="Elements of a chain.")] = 300_000,
    coroutines: Annotated[int, typer.Option(min=1, metavar="N", help="Elements of a map_async.")] = 30_000,
    rounds: Rounds = 7,
    json: Json = None,
) -> None:
    """Time an element and stage, beside generators, async for, RxPY and aiostream."""
    from benchmarks.streams_stages import run  # noqa: PLC0415 - a command loads what it needs

    _finish(run(elements, coroutines, rounds), json)


@app.command()
def operators(
    elements: Annotated[int, typer.Option(min=1, metavar="N", help="Elements through each operator.")] = 100_000,
    rounds: Rounds = 5,
    json: Json = None,
) -> None:
    """What each operator adds to an element."""
    from benchmarks.streams_operators import run  # noqa: PLC0415 - a command loads what it needs

    _finish(run(elements, rounds), json)


@app.command()
def exchanges(
    messages: Annotated[int, typer.Option(min=1, metavar="N", help="Messages of a round.")] = 500_000,
    size: Size = 100,
    batch: Annotated[int, typer.Option(min=1, metavar="N", help="Messages of a batch.")] = 1_000,
    max_in_flight: Annotated[int, typer.Option(min=1, metavar="N", help="Each receiver's.")] = 64_000,
    rounds: Rounds = 5,
    uvloop: Uvloop = True,
    data: Data = None,
    json: Json = None,
) -> None:
    """What ten queues that get the same cost beside one, ten thousand bindings beside ten, and the default exchange."""
    from benchmarks.exchanges import run  # noqa: PLC0415 - a command loads what it needs

    _finish(run(messages, size, batch, max_in_flight, rounds, uvloop, data), json)


@app.command("exchange_backlog")
def exchange_backlog(
    messages: Annotated[int, typer.Option(min=10, metavar="N", help="Messages that wait in each queue.")] = 10_000_000,
    size: Size = 100,
    batch: Annotated[int, typer.Option(min=1, metavar="N", help="Messages of a batch.")] = 1_000,
    uvloop: Uvloop = True,
    data: Data = None,
    json: Json = None,
) -> None:
    """The broker's memory while ten million messages wait in each of ten queues."""
    from benchmarks.exchanges import backlog  # noqa: PLC0415 - a command loads what it needs

    _finish(backlog(messages, size, batch, uvloop, data), json)


@app.command()
def amqp(
    pika: Annotated[int, typer.Option(min=1, metavar="N", help="Messages of a round by pika.")] = 40_000,
    aio_pika: Annotated[int, typer.Option(min=1, metavar="N", help="By aio-pika.")] = 10_000,
    py_amqp: Annotated[int, typer.Option(min=1, metavar="N", help="By py-amqp, which waits for each confirm.")] = 3_000,
    raw: Annotated[int, typer.Option(min=1, metavar="N", help="By prepared frames on raw sockets.")] = 300_000,
    awaiting: Annotated[int, typer.Option(min=1, metavar="N", help="By 64 publishers that await each.")] = 40_000,
    rate: Annotated[float, typer.Option(min=1, metavar="N", help="Messages a second of the paced part.")] = 1_000,
    seconds: Annotated[float, typer.Option(min=0.01, metavar="S", help="Seconds of it that count.")] = 10.0,
    warm_up: Annotated[float, typer.Option(min=0, metavar="S", help="Seconds before them that do not.")] = 1.0,
    size: Annotated[int, typer.Option(min=8, metavar="BYTES", help="Bytes of a payload.")] = 100,
    rounds: Rounds = 5,
    uvloop: Uvloop = True,
    data: Data = None,
    json: Json = None,
) -> None:
    """Durable messages over AMQP beside RabbitMQ: pika, aio-pika, py-amqp, prepared frames, 64 publishers, paced ones."""
    from benchmarks.amqp import Load, run  # noqa: PLC0415 - a command loads what it needs

    load = Load(pika, aio_pika, py_amqp, raw, awaiting, rate, seconds, warm_up, size)
    _finish(run(load, rounds, uvloop, data), json)


@app.command()
def celery(
    tasks: Annotated[int, typer.Option(min=1, metavar="N", help="Tasks of a part, in a round.")] = 5_000,
    rounds: Rounds = 5,
    uvloop: Uvloop = True,
    data: Data = None,
    json: Json = None,
) -> None:
    """One application of Celery on RabbitMQ and on Penstock: tasks a second, and the broker's processor time a task."""
    from benchmarks.celery import run  # noqa: PLC0415 - a command loads what it needs

    _finish(run(tasks, rounds, uvloop, data), json)


@app.command("amqp_spark")
def amqp_spark(
    rows: Annotated[int, typer.Option(min=1, metavar="N", help="Rows of a round.")] = 1_000_000,
    micro_batches: Annotated[int, typer.Option(min=1, metavar="N", help="Micro-batches of a round.")] = 10,
    size: Size = 100,
    rounds: Rounds = 3,
    cores: Cores = 2,
    uvloop: Uvloop = True,
    data: Data = None,
    json: Json = None,
) -> None:
    """Rows a second into a Spark query of what came over AMQP, beside what a native sender has sent."""
    from benchmarks.amqp_spark import run  # noqa: PLC0415 - a command loads what it needs

    _finish(run(rows, micro_batches, size, rounds, cores, uvloop, data), json)


def _finish(report: Report, json: Path | None) -> None:
    report.show()
    if json is not None:
        report.save(json)


if __name__ == "__main__":
    app(prog_name="python -m benchmarks")
