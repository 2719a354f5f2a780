"""What tables of queues show: a few figures that fit a terminal, or all there are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from actors.queue.vocabulary.settings import QUEUE_SETTINGS, Setting, Unit
from transport.cli import _written as written
from transport.cli._tables import Column, cell, table

if TYPE_CHECKING:
    from transport.clients.administration import Facts

SHORT: tuple[Column, ...] = (
    ("name", "queue"),
    ("ready", "ready", written.count),
    ("held", "in flight", written.count),
    ("in_per_s", "in/s", written.rate),
    ("out_per_s", "out/s", written.rate),
    ("oldest_ms", "oldest", written.milliseconds),
)
"""What one looks for first, in 80 columns."""
QUEUE_HOLDS: tuple[Column, ...] = (
    ("name", "queue"),
    ("failed", "failed"),
    ("ready", "ready", written.count),
    ("in_flight", "in flight", written.count),
    ("reserved", "reserved", written.count),
    ("delayed", "delayed", written.count),
    ("next_due_us", "next due", written.instant),
    ("staged_messages", "staged", written.count),
    ("demand_waiting", "demand", written.count),
)
"""What every wide table of queues begins with."""
RATES: tuple[Column, ...] = (("in_per_s", "in/s", written.rate), ("out_per_s", "out/s", written.rate))

WRITTEN: dict[Unit, Callable[[Any], str]] = {
    Unit.COUNT: written.count,
    Unit.BYTES: written.size,
    Unit.SECONDS: written.duration,
}
ITS_OWN = "its own"
"""What None means in a setting for which nothing is said then."""


def setting_columns() -> list[Column]:
    """A column for each setting of a queue."""
    return [_setting_column(setting) for setting in QUEUE_SETTINGS]


def setting_text(setting: Setting, value: Any) -> str:
    """The value of a setting of a queue, for people."""
    if value is None and setting.unit is Unit.EXCHANGE:
        return "none"
    if value is None:
        return (
            {0: setting.word, "": ITS_OWN}.get(setting.none, written.UNKNOWN)
            if isinstance(setting.none, int | str)
            else written.UNKNOWN
        )
    if setting.unit in WRITTEN and isinstance(value, int | float) and not isinstance(value, bool):
        return WRITTEN[setting.unit](value)
    return cell(value)


def _setting_column(setting: Setting) -> Column:
    heading = setting.heading.removesuffix(" s") if setting.unit is Unit.SECONDS else setting.heading
    if setting.unit in WRITTEN:
        return (setting.name, heading, WRITTEN[setting.unit])
    return (setting.name, heading)


def queue_lines(queues: Sequence[Facts], columns: Sequence[Column], width: int | None) -> list[str]:
    """The title, the table of ``queues``, and a line for each that failed."""
    rows = [_row(queue) for queue in sorted(queues, key=lambda queue: str(queue.get("name")))]
    lines = [written.counted(len(rows), "queue"), *table(rows, columns, width), ""]
    failed = [f"{row['name']} failed: {cell(row['failed'])}" for row in rows if row.get("failed")]
    return [*lines, *failed, ""] if failed else lines


def _row(queue: Facts) -> Facts:
    """What is shown of a queue: without a message that waits, none is the oldest.

    In flight in short is what anybody has and has not acknowledged: receivers, and subscriptions, which have reserved it.
    """
    shown = queue | {"oldest_ms": None} if not queue.get("ready") else queue
    held = [shown[name] for name in ("in_flight", "reserved") if shown.get(name) is not None]
    return shown | {"held": sum(held)} if held else shown
