"""One queue, down the page: what blocks it, what it holds, how it moves, its settings, and who uses it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actors.queue.vocabulary.settings import BLOCK, DROP_HEAD, MAX_LOOKED_PAST, QUEUE_SETTINGS, Unit
from transport.cli import _written as written
from transport.cli._queue_figures import setting_text
from transport.cli._tables import Column, cell, facts_table, table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from transport.clients.administration import Facts

HOLDS = ("ready", "in_flight", "reserved", "delayed", "leaving")
"""What is stored is in one of these."""
MOVES = (
    ("received", "total_in", "in_per_s"),
    ("delivered", "total_out", "out_per_s"),
    ("acknowledged", "total_acknowledged", ""),
    ("redelivered", "total_redelivered", ""),
    ("expired", "total_expired", ""),
    ("dropped", "total_dropped", ""),
    ("dead letters", "total_dead_lettered", ""),
    ("rejected", "total_rejected", ""),
    ("deduplicated", "total_deduplicated", ""),
    ("purged", "total_purged", ""),
)
"""Each total, and its rate where that is measured."""
CLIENTS: tuple[Column, ...] = (
    ("id", "id", str),
    ("client_id", "client"),
    ("peer", "from"),
    ("demand", "demand", written.count),
    ("in_flight", "in flight", written.count),
    ("connected_s", "connected", written.duration),
)
"""Of senders and of receivers."""
RANKED: tuple[Column, ...] = (*CLIENTS, ("in_line", "in line", written.truth), ("priority", "priority", written.count))
"""Of receivers, where one has the queue at a time, or one goes before others."""


def page(
    queue: Facts, connections: Sequence[Facts], subscriptions: Sequence[str], width: int | None, blocked: Sequence[str]
) -> list[str]:
    """The lines of the page.

    Args:
        queue: its facts.
        connections: those to it.
        subscriptions: lines about them.
        width: of the terminal; None for lines of any length.
        blocked: what `blocking` found.
    """
    lines = [f"queue {cell(queue.get('name'))}", ""]
    if blocked:
        lines += ["blocked", *(f"  {reason}" for reason in blocked), ""]
    if not queue.get("failed"):
        lines += ["holds", *facts_table(_holds(queue)), "", "moves", *_moves(queue), ""]
    whose = {True: "of its own", False: "the broker's"}.get(queue.get("declared", 0))
    lines += [f"settings ({whose})" if whose else "settings", *facts_table(_settings(queue)), ""]
    for role in ("sender", "receiver"):
        some = [each for each in connections if each.get("role") == role]
        told = queue.get(f"{role}s")
        more = max(0, told - len(some)) if isinstance(told, int) else 0
        columns = RANKED if any(each.get("in_line") or each.get("priority") for each in some) else CLIENTS
        lines += [written.counted(len(some) + more, role), *(table(some, columns, width) if some else ())]
        # Of connections that use several queues, as those of AMQP.
        lines += [*([f"  {written.count(more)} on connections that use several queues"] if more else ()), ""]
    return [*lines, *subscriptions]


def blocking(queue: Facts) -> list[str]:
    """Why nothing moves, as far as its figures tell: a reason each, with what would help."""
    if failed := queue.get("failed"):
        return [f"failed: {cell(failed)}"]
    figure = {key: value if isinstance(value, int) else 0 for key, value in queue.items()}.get
    found = []
    if paused := queue.get("paused"):
        found.append(f"paused: {cell(paused)}; its senders wait")
    effect = "its senders wait for receivers" if queue.get("overflow") == BLOCK else "what is sent is refused"
    for stored, most, write in (
        ("stored_messages", "max_messages", written.count),
        ("stored_bytes", "max_bytes", written.size),
    ):
        if queue.get("overflow") != DROP_HEAD and 0 < (limit := figure(most) or 0) <= (figure(stored) or 0):
            what = " messages" if write is written.count else ""
            found.append(f"full: {write(figure(stored) or 0)} of {write(limit)}{what}; {effect}")
    waiting = figure("ready") or 0
    users = (figure("receivers") or 0) + (figure("subscriptions") or 0)
    if waiting and not users:
        found.append(f"no receiver: {written.counted(waiting, 'message waits', 'messages wait')}")
    elif waiting and figure("receivers") and not figure("demand_waiting"):
        found.append(
            f"no demand: its receivers ask for nothing now, and hold {written.count(figure('in_flight') or 0)}"
        )
    if passed := figure("passed_over"):
        most = ", and nobody looks on past so many" if passed >= MAX_LOOKED_PAST else ""
        found.append(
            f"groups: {written.counted(passed, 'message waits', 'messages wait')} behind others of theirs{most}"
        )
    if line := figure("waiting_receivers"):
        found.append(_in_line(queue, line))
    return found


def _in_line(queue: Facts, line: int) -> str:
    """Who has a queue that is for one at a time, and how many wait for it."""
    kind = "single active consumer" if queue.get("single_active_consumer") else "exclusive"
    who = f"connection {active}" if isinstance(active := queue.get("active"), int) else "the first"
    return f"{kind}: {written.counted(line, 'receiver waits', 'receivers wait')} in line behind {who}"


def _holds(queue: Facts) -> list[tuple[str, str]]:
    facts = [(key.replace("_", " "), cell(queue.get(key))) for key in HOLDS if queue.get(key) or key in HOLDS[:2]]
    facts.append(("stored", _of(queue, "stored_messages", "max_messages", written.count)))
    facts.append(("bytes", _of(queue, "stored_bytes", "max_bytes", written.size)))
    if queue.get("staged_messages"):
        facts.append(("staged", _of(queue, "staged_messages", "max_staged_messages", written.count)))
    oldest = queue.get("oldest_ms")
    if queue.get("ready") and isinstance(oldest, int | float):
        facts.append(("oldest", written.milliseconds(oldest)))
    if isinstance(due := queue.get("next_due_us"), int):
        facts.append(("next due", written.instant(due)))
    facts.append(("demand", f"{cell(queue.get('demand_waiting'))} asked for by receivers"))
    facts.append(("granted", f"{cell(queue.get('capacity_granted'))} to senders"))
    return facts


def _of(queue: Facts, held: str, most: str, write: Any) -> str:
    if queue.get(most, 0) is None and isinstance(there := queue.get(held), int | float):
        return f"{write(there)}, without a limit"
    return " of ".join(
        write(value) if isinstance(value := queue.get(key), int | float) else written.UNKNOWN for key in (held, most)
    )


def _moves(queue: Facts) -> list[str]:
    rows = []
    for name, total, rate in MOVES:
        # The rare ones are shown where they happened.
        if queue.get(total) or rate or total == "total_acknowledged":
            rows.append({"what": name, "total": queue.get(total), "rate": queue.get(rate)})
    lines = table(rows, [("what", ""), ("total", "in all", written.count), ("rate", "a second", written.rate)], None)
    return ["  " + line for line in (lines[0], *lines[2:])]


def _settings(queue: Facts) -> list[tuple[str, str]]:
    return [
        (setting.name.replace("_", " "), setting_text(setting, queue[setting.name]))
        for setting in QUEUE_SETTINGS
        if setting.name in queue and not (setting.unit in _HIDDEN_WHERE and _HIDDEN_WHERE[setting.unit](queue))
    ]


def _has_no_dead_letters(queue: Facts) -> bool:
    return (queue.get("max_receives") is None and queue.get("dead_letter_queue") is None) or not _has_no_exchange(queue)


def _has_no_exchange(queue: Facts) -> bool:
    return queue.get("dead_letter_exchange") is None


_HIDDEN_WHERE: dict[Unit, Callable[[Facts], bool]] = {
    Unit.QUEUE: _has_no_dead_letters,
    Unit.EXCHANGE: _has_no_exchange,
    Unit.KEY: _has_no_exchange,
}
"""Settings that say nothing where this holds."""
