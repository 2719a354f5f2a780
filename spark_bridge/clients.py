"""Clients of a source's brokers, with what its options say of every connection."""

from __future__ import annotations

from spark_bridge.options import SourceOptions
from transport import Backoff
from transport.subscription_client import DEFAULT_RETRY, Mode, SubscriptionClient


def connect(
    options: SourceOptions, broker: str, mode: Mode, *, epoch: int | None = None, retry: Backoff = DEFAULT_RETRY
) -> SubscriptionClient:
    """A client of one of the queue's brokers; of no subscription in mode ``browse``."""
    return SubscriptionClient(
        broker,
        queue=options.queue,
        subscription=options.subscription,
        mode=mode,
        epoch=epoch,
        starting=options.starting_offsets,
        owner_timeout_ms=options.owner_timeout_ms,
        token=options.token,
        retry=retry,
    )
