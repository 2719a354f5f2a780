"""``penstock broker``: a broker process, until it is told to stop."""

from __future__ import annotations

import logging
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from transport.cli._options import settings_command
from transport.cli._run import EXIT_USAGE, on_signal, run, tell
from transport.errors import LocalProtocolError, TransportError

if TYPE_CHECKING:
    from transport.config.config import BrokerConfig
    from transport.config.settings_sources import Resolved

VERB = "broker"


class ListenError(TransportError):
    """An address cannot be bound."""


def _broker(settings: Resolved) -> None:
    """Run a broker until SIGINT or SIGTERM."""
    run(VERB, lambda: _serve(settings.config), uvloop=True)


broker = settings_command(VERB, _broker)


async def _serve(config: BrokerConfig) -> int:
    import asyncio  # noqa: PLC0415 - not needed for --help

    from transport.broker.broker import Broker  # noqa: PLC0415
    from transport.broker.descriptors import raise_soft_limit  # noqa: PLC0415
    from transport.broker.memory import collect_rarely  # noqa: PLC0415

    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    # This process is a broker and nothing else, so its limits are the broker's business; a program with a broker in it sets its own.
    raise_soft_limit(config.max_connections)
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
            except LocalProtocolError as error:
                # What the settings name cannot be used: nothing was started.
                tell(VERB, str(error))
                return EXIT_USAGE
            collect_rarely()
            where = "in memory only" if config.directory is None else f"journal in {config.directory}"
            tell(VERB, f"sending {serving.send_address}, receiving {serving.receive_address}, {where}")
            # Until it is told to stop; a failure of the broker's own is raised.
            tasks = [asyncio.create_task(serving.serve_forever()), asyncio.create_task(stopped.wait())]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)
            if not tasks[0].cancelled():
                tasks[0].result()
    return 0
