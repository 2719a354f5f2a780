"""Positions that are gone, as a query's error tells of them: which, what is there instead, and what most likely became of them."""

from __future__ import annotations

import re

from spark_bridge.errors import NO_SUBSCRIPTION, DataLossError
from spark_bridge.options import SourceOptions

_HELD = re.compile(r"positions ([0-9]+) to ([0-9]+) of subscription .* are asked for, it holds ([0-9]+) to ([0-9]+)")
"""In the text of ``data-loss``. Where a broker says it otherwise its own words are told."""

FORGOTTEN = "Most likely the subscription was deleted (penstock subscription delete), or forgotten by the queue's subscription_expiry"
MADE_ANEW = f"{FORGOTTEN}, and made anew since"
LOST = "Most likely the broker was started without its data directory, or with an older copy of it (with --memory it keeps nothing)"
TAKEN = (
    "Most likely they were released (penstock subscription release, ownerTimeout), or acknowledged by another query of this subscription, "
    "or the checkpoint was put back to an older state"
)
ASYNCHRONOUS = {
    "poll": ". With asynchronous progress tracking use ackOn=commit",
    "commit": ". With asynchronous progress tracking the queue needs more room: a full one is acknowledged before Spark's log is durable",
}
"""By ``ackOn``: what acknowledges more than Spark's log has."""


def lost(options: SourceOptions, broker: str, text: str, position: int | None) -> DataLossError:
    """The error for what a broker says.

    Args:
        options: the query's.
        broker: its address.
        text: the refusal.
        position: the first that is needed; None where it is the whole ledger.
    """
    held = _HELD.search(text)
    if NO_SUBSCRIPTION in text:
        what, cause = f"does not exist any more at broker {broker}: {text}", FORGOTTEN
    elif position is None or held is None:
        what, cause = f"is no longer what the query's checkpoint refers to, at broker {broker}: {text}", ""
    else:
        stop, base, high = (int(held[group]) for group in (2, 3, 4))
        there = f"holds {base} to {high}" if high > base else f"stands at {high} and holds none"
        what = f"no longer holds ledger position {position}, which the query's checkpoint refers to: at broker {broker} it {there}"
        cause = _cause(options, position, stop, base)
    return DataLossError(
        options.subscription, options.queue, what, cause and f"{cause}.", allowed=not options.fail_on_data_loss
    )


def _cause(options: SourceOptions, position: int, stop: int, base: int) -> str:
    if position >= base:
        return LOST
    # One that is made after a deletion begins a position behind the end of the one before.
    if base in (position + 1, stop + 1):
        return MADE_ANEW
    return TAKEN + ASYNCHRONOUS[options.ack_on]
