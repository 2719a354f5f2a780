"""``penstock send``: what files or the standard input hold becomes messages, no faster than the broker takes them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from signal import Signals
from typing import TYPE_CHECKING, Annotated

import typer

from actors.limits import DEDUPLICATION_HEADER, GROUP_HEADER, MAX_DEDUPLICATION_ID_BYTES, MAX_PRIORITY
from transport.cli._access import STDIN
from transport.cli._options import (
    ConnectTimeout,
    Jsonl,
    LengthPrefixed,
    NoCreate,
    Null,
    QueueOrNone,
    Quiet,
    SendAddress,
    WholeFile,
    format_of,
    verb_command,
)
from transport.cli._publishing import Exchange, Mandatory, RoutingKey, target_of
from transport.cli._run import on_signal, tell, untold, wait_teller
from transport.cli.exit_codes import EXIT_DONE, EXIT_FAILED, SIGNAL_EXIT_BASE
from transport.clients.backoff import DEFAULT_CONNECT_TIMEOUT
from transport.errors import ImpossibleTimeError, LocalProtocolError, QueueFullError, TransportError
from transport.wire.address import DEFAULT_SEND_ADDRESS

if TYPE_CHECKING:
    from actors.batch import HeaderValue
    from transport.cli._input import Window
    from transport.cli._input_formats import Decoder
    from transport.cli._publishing import Target
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


def _headers(pairs: list[str] | None) -> list[str] | None:
    """Typer callback: each is ``NAME=VALUE``."""
    for pair in pairs or []:
        name, equals, _ = pair.partition("=")
        if not (name and equals):
            raise typer.BadParameter(f"{pair!r:.60} is no header: write NAME=VALUE")
        _text(pair)
    return pairs


def _text(text: str | None) -> str | None:
    """Typer callback: a text that can be sent."""
    try:
        (text or "").encode()
    except UnicodeEncodeError:
        raise typer.BadParameter(f"{text!r:.60} is not UTF-8") from None
    return text


def _id(text: str | None) -> str | None:
    """Typer callback: a text that can be a deduplication id."""
    if text is not None and not 1 <= len((_text(text) or "").encode()) <= MAX_DEDUPLICATION_ID_BYTES:
        raise typer.BadParameter(f"an id has 1 to {MAX_DEDUPLICATION_ID_BYTES} bytes: give a digest of a longer one")
    return text


def _in_group(text: str | None) -> str | None:
    """Typer callback: a text that can be a group."""
    if text is not None:
        from transport.clients.sender_batches import check_group  # noqa: PLC0415 - where one is given

        try:
            check_group(text)
        except LocalProtocolError as error:
            raise typer.BadParameter(str(error)) from None
    return text


def _time(text: str | None) -> str | None:
    """Typer callback: a text that is a duration."""
    from transport.config.units import parse_duration  # noqa: PLC0415 - where one is given

    if text is not None:
        try:
            parse_duration(text)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None
    return text


def _at(text: str | None) -> str | None:
    """Typer callback: a text that is a time."""
    from transport.wire.timing import parse_time  # noqa: PLC0415 - where one is given

    if text is not None:
        try:
            parse_time(text)
        except ImpossibleTimeError as error:
            raise typer.BadParameter(str(error)) from None
    return text


@verb_command(VERB, inputs="files")
async def send(
    queue: QueueOrNone = None,
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FILE ...|-]", help="What to send; the standard input by default.", callback=_readable),
    ] = None,
    exchange: Exchange = None,
    routing_key: RoutingKey = None,
    mandatory: Mandatory = False,
    address: SendAddress = DEFAULT_SEND_ADDRESS,
    null: Null = False,
    length_prefixed: LengthPrefixed = False,
    whole_file: WholeFile = False,
    jsonl: Jsonl = False,
    key: Annotated[str | None, typer.Option(metavar="K", help="The key of every message.", callback=_text)] = None,
    header: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="A header of every message; may be repeated.", callback=_headers),
    ] = None,
    delay: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="How long until they can be received, such as 90s.", callback=_time),
    ] = None,
    deliver_at: Annotated[
        str | None,
        typer.Option(
            metavar="WHEN", help="From when they can be received, such as 2027-03-01T09:00:00Z.", callback=_at
        ),
    ] = None,
    ttl: Annotated[
        str | None, typer.Option(metavar="TIME", help="After how long they are of no use.", callback=_time)
    ] = None,
    priority: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=0, max=MAX_PRIORITY, help="What has a higher one is received first, where it has levels."
        ),
    ] = None,
    deduplication_id: Annotated[
        str | None,
        typer.Option(
            metavar="ID", help="The id of the message: one with it is stored within the queue's window.", callback=_id
        ),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(metavar="G", help="The group of every message, for queues with groups.", callback=_in_group),
    ] = None,
    no_create: NoCreate = False,
    quiet: Quiet = False,
    connect_timeout: ConnectTimeout = DEFAULT_CONNECT_TIMEOUT,
    *,
    access: Access,
) -> int:
    """Send lines, one message a line, or messages of another format. Exits with 0 only when every one is confirmed by the broker."""
    from asyncio import CancelledError  # noqa: PLC0415 - not needed for --help

    from streams import Sink  # noqa: PLC0415
    from transport.cli._bar import bar  # noqa: PLC0415
    from transport.cli._input import Input, Window  # noqa: PLC0415
    from transport.clients.backoff import Backoff  # noqa: PLC0415
    from transport.clients.sender import Sender  # noqa: PLC0415

    target = target_of(VERB, queue, exchange, routing_key, key, mandatory=mandatory, no_create=no_create)
    form = format_of(null=null, length_prefixed=length_prefixed, whole_file=whole_file, jsonl=jsonl)
    messages = Input(
        files or [],
        window := Window(),
        _decoder(form, key, header, deduplication_id, group, published=exchange is not None),
    )
    try:
        sender = Sender(
            address,
            queue=queue,
            reconnect=Backoff(give_up_after=connect_timeout),
            access=access,
            delay=_seconds(delay),
            deliver_at=_moment(deliver_at),
            ttl=_seconds(ttl),
            priority=priority,
            create=not no_create,
            on_wait=untold if quiet else wait_teller(VERB),
            **target.options(),
        )
    except ImpossibleTimeError as error:
        wrong = next(
            (f"--{name}" for name in ("ttl", "deliver-at") if str(error).startswith(name.replace("-", "_"))), "--delay"
        )
        raise typer.BadParameter(str(error), param_hint=wrong) from None
    stopped_by: list[Signals] = []

    total = messages.total_bytes()
    with bar(total, _count(0)) as show:

        def confirmed(confirmation: Confirmation) -> None:
            window.confirmed(confirmation.count)
            show(window.confirmed_bytes, total, _count(window.confirmed_messages))

        began = time.monotonic()
        running = messages.source().via(sender).to(Sink.foreach(confirmed)).run()

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
            finally:
                await messages.close()
    target.came_back.tell_the_rest()
    failed = failure or messages.error
    if not quiet and (failed is None or window.confirmed_messages or (failure is not None and window.read_messages)):
        left = "not stored" if isinstance(failure, QueueFullError) else "not confirmed, which may or may not be stored"
        tell(VERB, _summary(window, target, address, time.monotonic() - began, left))
    if failure is not None:
        raise failure
    if stopped_by:
        tell(VERB, f"stopped by {stopped_by[0].name} before the end of the input")
        return SIGNAL_EXIT_BASE + stopped_by[0]
    if messages.error is not None:
        raise messages.error
    return EXIT_FAILED if target.came_back.count else EXIT_DONE


def _decoder(
    form: str | None,
    key: str | None,
    header: list[str] | None,
    deduplication_id: str | None,
    group: str | None,
    *,
    published: bool,
) -> Callable[[], Decoder]:
    from actors.errors import BatchError  # noqa: PLC0415 - not needed for --help
    from transport.cli._input_formats import decoder_of  # noqa: PLC0415

    headers: dict[str, HeaderValue] = {}
    for pair in header or []:
        name, _, value = pair.partition("=")
        headers[name] = value
    if deduplication_id is not None:
        headers[DEDUPLICATION_HEADER] = deduplication_id
    if group is not None:
        headers[GROUP_HEADER] = group
    try:
        return decoder_of(form, None if key is None else key.encode(), headers, published=published)
    except (BatchError, UnicodeEncodeError) as error:
        raise typer.BadParameter(str(error)) from None


def _seconds(text: str | None) -> float | None:
    from transport.config.units import parse_duration  # noqa: PLC0415 - as above

    return None if text is None else parse_duration(text)


def _moment(text: str | None) -> float | None:
    from transport.wire.timing import parse_time  # noqa: PLC0415 - as above

    return None if text is None else parse_time(text)


def _summary(window: Window, target: Target, address: str, seconds: float, left: str) -> str:
    from transport.cli import _written as written  # noqa: PLC0415 - not needed for --help

    messages, rate = window.confirmed_messages, round(window.confirmed_messages / max(seconds, 1e-6))
    # How many bytes they have is known of whole batches only.
    size = "" if window.batch_open else f"{written.size(window.confirmed_payload)} "
    text = (
        f"{written.counted(messages, 'message')} confirmed {target} at {address}, "
        f"{size}in {written.duration(seconds)} ({written.counted(rate, 'message')}/s)"
    )
    if returned := target.came_back.count:
        text += f"; {written.count(returned)} of them came back, for no queue took {'it' if returned == 1 else 'them'}"
    open_ones = window.read_messages - messages
    return text if not open_ones else f"{text}; {open_ones:,} read and {left}"


def _count(messages: int) -> str:
    from transport.cli import _written as written  # noqa: PLC0415 - not needed for --help

    return written.counted(messages, "message")
