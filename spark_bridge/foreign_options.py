"""Options that people bring from elsewhere: Kafka's, a path, or those of the other side. Each is refused in a sentence that names ours.

Kafka's names that mean the same here are aliases in the tables of options, and are none of these.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from difflib import get_close_matches

from spark_bridge.option_values import Option

KAFKAS = "is an option of Kafka's"
SAY_BROKERS = f'{KAFKAS}: say brokers, host:port of each, as in .option("brokers", "10.0.0.5:9183")'
SAY_QUEUE = f'{KAFKAS}: say queue, as in .option("queue", "orders")'
SAY_SUBSCRIPTION = (
    f"{KAFKAS}: say subscription, the name under which the broker keeps this query's progress, one name a query"
)
SAY_ACCESS = (
    f"{KAFKAS}: say user and passwordFile, or tokenFile, and tls, tlsCa and tlsCertificate (docs/spark.md, Access)"
)
NO_TIMES = f"{KAFKAS}: a subscription begins at startingOffsets earliest or latest, and no time can be named; filter by column enqueued_at"
NO_REPLAY = f"{KAFKAS}: say endingPosition, a position, in a batch read without a subscription"
NO_NEED = f"{KAFKAS}, and there is nothing to set here: leave it out"

FOREIGN: Mapping[str, str] = {
    "kafka.bootstrap.servers": SAY_BROKERS,
    "bootstrap.servers": SAY_BROKERS,
    "topic": SAY_QUEUE,
    "topics": SAY_QUEUE,
    "subscribe": SAY_QUEUE,
    "kafka.group.id": SAY_SUBSCRIPTION,
    "group.id": SAY_SUBSCRIPTION,
    "groupidprefix": SAY_SUBSCRIPTION,
    "kafka.client.id": SAY_SUBSCRIPTION,
    "auto.offset.reset": f"{KAFKAS}: say startingOffsets, earliest or latest",
    "kafka.auto.offset.reset": f"{KAFKAS}: say startingOffsets, earliest or latest",
    "enable.auto.commit": f"{KAFKAS}: say ackOn, commit or poll",
    "kafka.enable.auto.commit": f"{KAFKAS}: say ackOn, commit or poll",
    "startingtimestamp": NO_TIMES,
    "startingoffsetsbytimestamp": NO_TIMES,
    "startingoffsetsbytimestampstrategy": NO_TIMES,
    "endingtimestamp": NO_TIMES,
    "endingoffsetsbytimestamp": NO_TIMES,
    "endingoffsets": NO_REPLAY,
    "kafkaconsumer.polltimeoutms": NO_NEED,
    "fetchoffset.numretries": NO_NEED,
    "fetchoffset.retryintervalms": NO_NEED,
    "maxbytespertrigger": "is a limit of other sources: say maxBytesPerBatch",
    "path": "is no option of a queue: load() and save() take no path; say queue",
}
"""Lower-cased name -> what an error says behind it."""
SINKS = ("routingKey", "demandTimeout", "writer", "version")
"""Options of a sink that no source has."""
KAFKA_ACCESS = re.compile(r"kafka\.(security|sasl|ssl)\..*")
KAFKA_PREFIX = "kafka."
LIKENESS = 0.75
"""How alike a misspelt name and a known one are at least, from 0 to 1; ``maxRowPerBatch`` and ``queu`` are, ``ttl`` and ``tls`` are not."""


def refused(
    names: Sequence[str], table: Collection[Option], other_side: Collection[str] = (), side: str = ""
) -> list[str]:
    """Why each of ``names``, which are in no row of ``table``, is refused, and what to say for it. What there is stands behind the last.

    Args:
        names: as given.
        table: the options there are.
        other_side: names of the source's, where this is a sink, or of the sink's.
        side: what they are options of.
    """
    theirs = {each.lower(): each for each in other_side}
    ours = {each.lower(): each for option in table for each in option.names}
    told: list[str] = []
    strange: list[str] = []
    for name in names:
        lower = name.lower()
        said = _foreign(lower)
        if said is not None:
            told.append(f"option {name} {said}")
        elif lower in theirs:
            told.append(f"option {theirs[lower]} is one of a {side}, and means nothing here: leave it out")
        else:
            near = get_close_matches(lower, ours, 1, LIKENESS)
            strange.append(f"unknown option {name!r}" + (f": did you mean {ours[near[0]]}?" if near else ""))
    if strange:
        known = ", ".join(" or ".join(option.names) for option in table)
        strange[-1] += f" Known are {known}" if strange[-1].endswith("?") else f"; known are {known}"
    return [*told, *strange]


def _foreign(lower: str) -> str | None:
    """What is said of a name that people bring from elsewhere."""
    if lower in FOREIGN:
        return FOREIGN[lower]
    if KAFKA_ACCESS.fullmatch(lower):
        return SAY_ACCESS
    if lower.startswith(KAFKA_PREFIX):
        return f"{KAFKAS} client, which is not in use here: leave it out"
    return None
