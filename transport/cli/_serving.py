"""The process of ``penstock broker``: its log, its signals, its supervisor, and the broker between its start and its end."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING

from transport.broker.broker import Broker
from transport.broker.check import SameAddressError, check_addresses
from transport.broker.descriptors import raise_soft_limit
from transport.broker.memory import collect_rarely
from transport.cli._default_http import with_http_if_possible
from transport.cli._logs import start_logging
from transport.cli._reloading import Reloading
from transport.cli._run import tell
from transport.cli._signals import broker_signals
from transport.cli._supervisor import Supervisor
from transport.cli.exit_codes import EXIT_USAGE
from transport.config.listener_names import AMQP, AMQPS, HTTP, SMQ_SINK, SMQ_SOURCE
from transport.errors import LocalProtocolError, TransportError
from transport.gateways.listeners import configured_listeners
from transport.wire.address import parse_address

if TYPE_CHECKING:
    from transport.broker.reload import Reloads
    from transport.config.config import BrokerConfig
    from transport.config.settings_sources import Resolved

VERB = "broker"
GATEWAYS = {AMQP: "AMQP", AMQPS: "AMQP under TLS", SMQ_SOURCE: "SMQ sources", SMQ_SINK: "SMQ sinks"}
"""Listeners that options ask for, and what is said of them."""

logger = logging.getLogger("penstock.broker")


class ListenError(TransportError):
    """An address cannot be bound."""


class Serving:
    """A broker's process.

    Args:
        settings: of its start.
        again: the same, as their sources say by now.
    """

    def __init__(self, settings: Resolved, again: Callable[[], Resolved]) -> None:
        self._settings = settings
        self._supervisor = Supervisor()
        self._reloading = Reloading(settings, again, self._supervisor)

    async def serve(self) -> int:
        """All of it; returns the exit code."""
        config, without = await asyncio.to_thread(with_http_if_possible, self._settings)
        start_logging(config.log_format, config.log_level)
        if config.cluster is not None:
            from transport.cli._cluster_serving import serve_node  # noqa: PLC0415 - for brokers of clusters only

            return await serve_node(config, self._supervisor, self._reloading, without)
        # This process is a broker and nothing else, so its limits are the broker's business; a program with a broker in it sets its own.
        raise_soft_limit(config.max_connections)
        stopped = asyncio.Event()
        with broker_signals(VERB, stopped.set, self._reloading.ask):
            async with AsyncExitStack() as stack:
                try:
                    broker = await _started(config, stack)
                except LocalProtocolError as error:
                    # What the settings name cannot be used: nothing was started.
                    tell(VERB, str(error))
                    return EXIT_USAGE
                collect_rarely()
                tell(VERB, _where(broker, config))
                if without is not None:
                    tell(VERB, without)
                self._supervisor.ready()
                self._supervisor.watch(asyncio.get_running_loop())
                stack.callback(self._supervisor.leave)
                reloading = asyncio.create_task(self._reloading.whenever_asked(partial(_reloads_of, broker)))
                stack.callback(reloading.cancel)
                await _until_stopped(broker, stopped, self._supervisor, config.drain)
        return 0


async def _reloads_of(broker: Broker) -> Reloads:
    return broker.reloads


async def _started(config: BrokerConfig, stack: AsyncExitStack) -> Broker:
    """The broker, which ends with ``stack``; ListenError where it cannot bind an address."""
    try:
        # In a thread: a resolver may take its time.
        await asyncio.to_thread(_see_that_it_can_listen, config)
        return await stack.enter_async_context(Broker(config, listeners=configured_listeners(config)))
    except SameAddressError as error:
        raise ListenError(f"{error.strerror}; choose others with {_and(_options(config.addresses()))}") from error
    except OSError as error:
        # What the broker says of it is for programs; the command has options.
        reason = error.__cause__ if isinstance(error.__cause__, OSError) else error
        refused = reason.strerror or str(reason)
        options = _and(_options(_named(refused, config) or config.addresses()))
        raise ListenError(f"cannot listen on {refused}; choose another with {options}") from error


def _see_that_it_can_listen(config: BrokerConfig) -> None:
    """Raise OSError before a journal is made for a broker that could not listen. One that is there is not left behind by it."""
    is_new = config.directory is None or not _is_anything_in(config.directory)
    for problem in check_addresses(config):
        if problem.error is not None and (is_new or isinstance(problem.error, SameAddressError)):
            raise problem.error


def _is_anything_in(directory: str | os.PathLike[str]) -> bool:
    """Whether there is anything at the path: who opens it says what is wrong with it."""
    try:
        return bool(os.listdir(directory))
    except FileNotFoundError:
        return False
    except OSError:
        return True


def _named(refused: str, config: BrokerConfig) -> list[str]:
    """Whose address it is that an error begins with."""
    addresses = ((name, parse_address(text)) for name, text in config.addresses().items())
    return [name for name, address in addresses if refused.startswith(f"{address.host}:{address.port}: ")]


def _options(names: Iterable[str]) -> list[str]:
    return [f"--{name.replace('_', '-')}" for name in names]


def _and(words: Iterable[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def _where(broker: Broker, config: BrokerConfig) -> str:
    """Where it listens and keeps what it has, for the line that says that it stands."""
    gateways = {name: broker.addresses(name)[0] for name in GATEWAYS if getattr(config, name.replace("-", "_"))}
    also = "".join(f", {GATEWAYS[name]} {address}" for name, address in gateways.items())
    if config.http is not None:
        scheme = "http" if config.tls_certificate is None else "https"
        also = f", console {scheme}://{broker.addresses(HTTP)[0]}/{also}"
    kept = "in memory only" if config.directory is None else f"journal in {config.directory}"
    return f"sending {broker.send_address}, receiving {broker.receive_address}{also}, {kept}"


async def _until_stopped(broker: Broker, stopped: asyncio.Event, supervisor: Supervisor, drain: float) -> None:
    """Serve until told to stop, and come to an end in good order; raises what the broker itself fails with."""
    serving = asyncio.create_task(broker.serve_forever())
    ending: asyncio.Task[object] = asyncio.create_task(stopped.wait())
    try:
        await asyncio.wait([serving, ending], return_when=asyncio.FIRST_COMPLETED)
        if not serving.done():
            supervisor.stopping()
        if not serving.done() and drain > 0:
            ending = asyncio.create_task(broker.drain(drain))
            await asyncio.wait([serving, ending], return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (serving, ending):
            task.cancel()
        await asyncio.wait([serving, ending])
    for task in (ending, serving):
        if not task.cancelled():
            task.result()
