"""Clients of a source's brokers, with what its options say of every connection."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

from spark_bridge.access_options import access_here
from spark_bridge.options import SourceOptions
from transport import Backoff
from transport.clients.subscription_client import DEFAULT_RETRY, Mode, SubscriptionClient

if TYPE_CHECKING:
    from transport.wire.receiver_bindings import Binding

MAX_CLIENT_ID = 200
"""Characters: a host's name has 64 at most, but nobody checks; the protocol's limit is 255 bytes."""


def this_program() -> str:
    """What the brokers call this program, in figures and where they refuse a subscription that it owns."""
    return f"spark@{socket.gethostname()}/{os.getpid()}"[:MAX_CLIENT_ID]


def connect(
    options: SourceOptions,
    broker: str,
    mode: Mode,
    *,
    epoch: int | None = None,
    retry: Backoff = DEFAULT_RETRY,
    client_id: str | None = None,
) -> SubscriptionClient:
    """A client of one of the queue's brokers; of no subscription in mode ``browse``."""
    client = SubscriptionClient(
        options.addresses(broker),
        queue=options.queue,
        subscription=options.subscription,
        mode=mode,
        epoch=epoch,
        starting=options.starting_offsets,
        owner_timeout_ms=options.owner_timeout_ms,
        take_over=options.take_over,
        owner_wait=options.owner_wait_ms / 1000,
        must_exist=options.missing_queue == "fail",
        skip_oversized=options.oversized == "skip",
        client_id=client_id or this_program(),
        bind=_bindings(options) if mode == "own" and options.exchange else (),
        access=access_here(options.access),
        retry=retry,
    )
    if options.broker_down == "continue":
        client.tell_nobody()
    return client


def _bindings(options: SourceOptions) -> list[Binding]:
    from transport.wire.receiver_bindings import Binding  # noqa: PLC0415 - of few queries

    return [Binding(options.exchange, key) for key in options.binding_keys]
