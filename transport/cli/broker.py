"""``penstock broker``: a broker process, until it is told to stop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from typing import Annotated, Any

import typer

from transport.cli._options import address as check_address
from transport.cli._run import on_signal, run, tell
from transport.config import BrokerConfig
from transport.errors import TransportError

VERB = "broker"
DEFAULTS = BrokerConfig()


class ListenError(TransportError):
    """An address cannot be bound."""


def broker(
    send_address: Annotated[
        str, typer.Option(metavar="H:P", help="Where senders connect; port 0 takes any.", callback=check_address)
    ] = DEFAULTS.send_address,
    receive_address: Annotated[
        str, typer.Option(metavar="H:P", help="Where receivers connect; port 0 takes any.", callback=check_address)
    ] = DEFAULTS.receive_address,
    max_queue_messages: Annotated[
        int, typer.Option(metavar="N", min=1, help="Messages that one queue stores; then its senders wait.")
    ] = DEFAULTS.max_queue_messages,
    max_queue_bytes: Annotated[
        int, typer.Option(metavar="N", min=1, help="Bytes that one queue stores; then its senders wait.")
    ] = DEFAULTS.max_queue_bytes,
    visibility_timeout: Annotated[
        float,
        typer.Option(metavar="S", min=0.001, help="Seconds after which an unacknowledged message is delivered again."),
    ] = DEFAULTS.visibility_timeout,
) -> None:
    """Run a broker until SIGINT or SIGTERM."""
    try:
        config = BrokerConfig(
            send_address=send_address,
            receive_address=receive_address,
            max_queue_messages=max_queue_messages,
            max_queue_bytes=max_queue_bytes,
            visibility_timeout=visibility_timeout,
        )
    except (TransportError, ValueError) as error:
        raise typer.BadParameter(str(error)) from None
    run(VERB, lambda: _serve(config), uvloop=True)


async def _serve(config: BrokerConfig) -> int:
    from transport.broker import Broker  # noqa: PLC0415 - not needed for --help

    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    stopped = asyncio.Event()
    with on_signal(lambda _: stopped.set()):
        async with AsyncExitStack() as stack:
            try:
                serving = await stack.enter_async_context(Broker(config))
            except OSError as error:
                raise ListenError(
                    f"cannot listen on {config.send_address} and {config.receive_address}: {error.strerror or error}; "
                    "choose others with --send-address and --receive-address"
                ) from error
            tell(VERB, f"sending {serving.send_address}, receiving {serving.receive_address}")
            await _until_first(serving.serve_forever(), stopped)
    return 0


async def _until_first(serving: Coroutine[Any, Any, None], stopped: asyncio.Event) -> None:
    """Serve until told to stop; a failure of the broker's own is raised."""
    tasks = [asyncio.create_task(serving), asyncio.create_task(stopped.wait())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    if not tasks[0].cancelled():
        tasks[0].result()
