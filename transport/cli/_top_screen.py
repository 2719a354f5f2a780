"""The screen of `penstock top`: what was seen and chosen, as lines of a terminal of any size; pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from textwrap import wrap
from typing import Any, Final, NamedTuple

from rich.text import Text

from transport.cli import _written as written
from transport.cli._tables import cell, cell_len
from transport.cli._top_lines import AGAIN
from transport.cli._top_state import CONNECTIONS, FLOW, HELP, ORDER_KEYS, State

GAP: Final = "  "
CUT: Final = "…"
LEAST_NAME: Final = 20
"""Columns for a name, at least; figures at the right are left out for it."""
MOST_SENTENCE: Final = 3
"""Lines of the sentence beneath the list."""
STYLES: Final = {
    "limit reached": "bold red",
    "disk behind": "bold red",
    "paused": "bold red",
    "no receiver": "yellow",
    "receiver slow": "yellow",
    "sender slow": "cyan",
    "flowing": "green",
}
"""By the pressure; of others none."""
HINTS: Final = "p/r/b/n order  / filter  j/k select  Enter flow  c connections  h help  q quit"
KEYS: Final = (
    ("p r b n", "order by pressure, rate, backlog or name"),
    ("/", "filter by a part of the name; Enter keeps it, Esc takes it back"),
    ("j k, arrows", "select the next queue, or the one before; g and G the first and the last"),
    ("PgUp PgDn", "ten queues at once"),
    ("Enter", "the selected queue: who sends to it, and who receives from it"),
    ("c", "the connections"),
    ("Esc, Backspace", "back to the list, and there: no filter"),
    ("h ?", "this help"),
    ("q, Ctrl-C", "quit"),
)


class Column(NamedTuple):
    """A figure of a list."""

    key: str
    title: str
    width: int
    write: Callable[[Any], str]


FIGURES: Final = (
    Column("pressure", "pressure", 13, cell),
    Column("ready", "ready", 9, written.count),
    Column("held", "held", 7, written.count),
    Column("came", "in/s", 8, written.rate),
    Column("went", "out/s", 8, written.rate),
    Column("wanted", "wanted", 9, written.count),
    Column("granted", "granted", 9, written.count),
    Column("oldest_ms", "oldest", 11, written.milliseconds),
    Column("stored_bytes", "stored", 9, written.size),
)
"""As many of them, from the left, as there is room for."""
PARTIES: Final = (
    Column("role", "role", 12, cell),
    Column("rate", "msg/s", 8, written.rate),
    Column("held", "held", 7, written.count),
    Column("demand", "demand", 9, written.count),
    Column("waits", "waits", 5, written.truth),
    Column("priority", "priority", 8, written.count),
    Column("peer", "from", 21, cell),
)
CONNECTED: Final = (
    Column("role", "role", 12, cell),
    Column("queue", "queue", 20, cell),
    Column("demand", "demand", 9, written.count),
    Column("in_flight", "held", 7, written.count),
    Column("peer", "from", 21, cell),
    Column("user", "user", 12, cell),
)


def screen(state: State, where: str, width: int, height: int) -> list[Text]:
    """At most ``height`` lines of at most ``width`` columns."""
    head = _head(state, where, width)
    foot = [_foot(state, width)]
    room = max(0, height - len(head) - len(foot))
    pages = {HELP: _help, FLOW: _flow, CONNECTIONS: _connections}
    body = pages.get(state.view, _list)(state, width, room)[:room]
    body += [Text()] * (room - len(body))
    return [*head, *body, *foot][:height]


def _head(state: State, where: str, width: int) -> list[Text]:
    if state.picture is None:
        return [_fit(f"penstock top  {cell(where)}", width, "bold")]
    totals: Mapping[str, Any] = state.picture["totals"]
    queues, connections = totals.get("queues", 0), totals.get("connections", 0)
    there = f"{written.counted(queues, 'queue')}, {written.counted(connections, 'connection')}"
    moved = f"in {written.rate(totals.get('came', 0))}/s, out {written.rate(totals.get('went', 0))}/s"
    stored = f"stored {written.count(totals.get('stored_messages', 0))} ({written.size(totals.get('stored_bytes', 0))})"
    held = f"ready {written.count(totals.get('ready', 0))}, held {written.count(totals.get('held', 0))}, {stored}"
    lines = [_fit(f"penstock top  {cell(where)}  {there}", width, "bold"), _fit(f"{held}, {moved}", width)]
    if cluster := state.picture.get("cluster"):
        lines.append(_fit(_clustered(cluster), width, "" if _all_in_step(cluster) else "yellow"))
    if state.lost is not None:
        # Whoever answers there chose the words.
        lines.append(_fit(f"{AGAIN}: {cell(' '.join(state.lost.split()))}", width, "bold red"))
    else:
        lines.append(Text())
    return lines


def _clustered(cluster: Mapping[str, Any]) -> str:
    """What the broker is in its cluster, and who is furthest behind; short, for a terminal of 80 columns."""
    there, in_step = cluster.get("members", 0), cluster.get("in_step")
    about = f"node {cell(cluster.get('node'))}: {cell(cluster.get('role'))}, epoch {cell(str(cluster.get('epoch')))}, "
    if in_step is None:
        return about + written.counted(there, "member")
    about += f"{written.count(in_step)} of {written.count(there)} in step"
    if not cluster.get("worst"):
        return about
    size, time = written.size(cluster.get("lag_bytes") or 0), written.duration(cluster.get("lag_s") or 0)
    records = written.counted(cluster.get("lag_records") or 0, "record")
    return f"{about}, {cell(cluster['worst'])} behind {records}, {size}, {time}"


def _all_in_step(cluster: Mapping[str, Any]) -> bool:
    return cluster.get("in_step") in (None, cluster.get("members"))


def _foot(state: State, width: int) -> Text:
    if state.editing:
        return Text(_end_of(f"filter: {cell(state.contains)}_", width), "bold")
    return _fit(HINTS, width, "dim")


def _list(state: State, width: int, room: int) -> list[Text]:
    if state.picture is None:
        return [_fit("asking the broker", width)]
    about = _about(state, width)
    columns = fitting(FIGURES, width)
    name_width = width - sum(each.width + len(GAP) for each in columns)
    narrowed = f" with {cell(state.contains)!r}" if state.contains else ""
    title = f"{written.counted(state.picture['matching'], 'queue')}{narrowed}, by {state.order}"
    lines = [_fit(title, width), _headings("queue", columns, name_width)]
    rows = state.picture["queues"]
    here = max(1, room - len(lines) - len(about))
    # The selected one in view, and no row more passed over than that takes.
    start = max(0, min(state.place - here + 1, len(rows) - here)) if state.place >= here else 0
    for row in rows[start : start + here]:
        style = STYLES.get(row.get("pressure", ""), "")
        line = _row(row, cell(row["name"]), columns, name_width, style)
        if row["name"] == state.selected:
            line.stylize("reverse")
        lines.append(line)
    lines += [Text()] * (room - len(lines) - len(about))
    return [*lines, *about]


def _about(state: State, width: int) -> list[Text]:
    """The sentence of the selected queue, and who sends and receives there."""
    flow = _flow_of(state)
    found = flow or next(
        (row for row in (state.picture or {"queues": []})["queues"] if row["name"] == state.selected), None
    )
    if found is None:
        return []
    sentence = _wrapped(str(found.get("sentence", "")), width, MOST_SENTENCE)
    lines = [Text("─" * width, "dim"), *(Text(line, "bold") for line in sentence)]
    if flow is not None:
        lines += [_fit(_names(flow, side), width) for side in ("senders", "receivers")]
    return lines


def _names(flow: Mapping[str, Any], side: str) -> str:
    parties, count = flow[side], flow.get(f"all_{side}", 0)
    if not parties:
        return f"no {side}"
    named = [f"{_who(each)} {written.rate(each.get('rate', 0))}/s" for each in parties]
    return f"{written.counted(count, side[:-1])}: {', '.join(named)}"


def _who(party: Mapping[str, Any]) -> str:
    number = party.get("id")
    name = party.get("subscription") or party.get("client")
    return cell(name) if name else f"#{number}" if number is not None else "over HTTP"


def _flow_of(state: State) -> Mapping[str, Any] | None:
    flow: Mapping[str, Any] | None = None if state.picture is None else state.picture["flow"]
    return flow if flow is not None and flow.get("name") == state.selected else None


def _flow(state: State, width: int, room: int) -> list[Text]:
    flow = _flow_of(state)
    if flow is None:
        return [_fit(f"queue {cell(state.selected or '')}: there is none, or it is being asked for", width)]
    lines = [Text(line, "bold") for line in _wrapped(str(flow.get("sentence", "")), width, MOST_SENTENCE)]
    most, most_bytes = flow.get("max_messages"), flow.get("max_bytes")
    limits = (
        written.count(flow.get("stored_messages", 0)) + (f" of {written.count(most)}" if most else "") + " messages"
    )
    sizes = written.size(flow.get("stored_bytes", 0)) + (f" of {written.size(most_bytes)}" if most_bytes else "")
    facts = (
        f"stored {limits}, {sizes}",
        (
            f"ready {written.count(flow.get('ready', 0))}, held {written.count(flow.get('held', 0))}, "
            f"delayed {written.count(flow.get('delayed', 0))}; wanted {written.count(flow.get('wanted', 0))}, "
            f"granted {written.count(flow.get('granted', 0))}"
        ),
        (
            f"in {written.rate(flow.get('came', 0))}/s, out {written.rate(flow.get('went', 0))}/s, "
            f"acknowledged {written.rate(flow.get('acknowledged', 0))}/s"
        ),
    )
    lines += [_fit(fact, width) for fact in facts]
    columns = fitting(PARTIES, width)
    name_width = width - sum(each.width + len(GAP) for each in columns)
    sides = ("senders", "receivers")
    # Each has half of the room at least, and what the other leaves.
    left = max(0, room - len(lines) - 3 * len(sides))
    for side, other in zip(sides, reversed(sides), strict=True):
        parties = flow[side]
        here = max(left // 2, left - len(flow[other]))
        count = flow.get(f"all_{side}", len(parties))
        lines += [Text(), _fit(written.counted(count, side[:-1]), width), _headings("client", columns, name_width)]
        lines += [_row(each, _who(each), columns, name_width, "") for each in parties[:here]]
    return lines


def _connections(state: State, width: int, room: int) -> list[Text]:
    found = state.connections
    if found is None:
        return [_fit("asking the broker", width)]
    columns = fitting(CONNECTED, width)
    name_width = width - sum(each.width + len(GAP) for each in columns)
    # Over HTTP some are asked for, and there may be more.
    there = max(len(found), 0 if state.picture is None else state.picture["totals"].get("connections", 0))
    lines = [_fit(written.counted(there, "connection"), width), _headings("client", columns, name_width)]
    # There may be thousands, of which a screen shows some.
    for each in found[: max(0, room - len(lines))]:
        name = cell(each["client_id"]) if each.get("client_id") else f"#{each.get('id')}"
        lines.append(_row(each, name, columns, name_width, ""))
    return lines


def _help(_state: State, width: int, _room: int) -> list[Text]:
    most = max(len(key) for key, _ in KEYS)
    lines = [_fit("Keys", width, "bold")]
    lines += [_fit(f"{key:<{most}}{GAP}{text}", width) for key, text in KEYS]
    lines += [Text(), *(_fit(line, width) for line in _wrapped(ABOUT, width, len(ABOUT)))]
    return lines


ABOUT: Final = (
    "Pressure says who holds back whom. Where a receiver is slow, messages are ready and nobody wants them. Where a sender is slow, "
    "receivers want messages and none is ready. Where the limit is reached, senders wait for room. "
    f"Keys of the order: {', '.join(f'{key} {order}' for key, order in ORDER_KEYS.items())}."
)


def fitting(columns: Sequence[Column], width: int) -> list[Column]:
    """As many of the columns as leave room for a name."""
    found: list[Column] = []
    left = width - LEAST_NAME
    for each in columns:
        left -= each.width + len(GAP)
        if left < 0:
            break
        found.append(each)
    return found


def _headings(first: str, columns: Sequence[Column], name_width: int) -> Text:
    texts = [_padded(first, name_width), *(_aligned(each.title, each) for each in columns)]
    return Text(GAP.join(texts), "dim")


def _row(row: Mapping[str, Any], name: str, columns: Sequence[Column], name_width: int, style: str) -> Text:
    line = Text(_padded(name, name_width))
    for place, each in enumerate(columns):
        line.append(GAP)
        line.append(_aligned(_value(row.get(each.key), each), each), style if place == 0 else "")
    return line


def _value(value: Any, column: Column) -> str:
    return written.UNKNOWN if value is None else column.write(value)


def _aligned(text: str, column: Column) -> str:
    return _padded(text, column.width) if column.write is cell else _padded(text, column.width, left=False)


def _padded(text: str, width: int, *, left: bool = True) -> str:
    text = _cut(text, width)
    blanks = " " * (width - cell_len(text))
    return text + blanks if left else blanks + text


def _cut(text: str, width: int) -> str:
    if cell_len(text) <= width:
        return text
    if width < 1:
        return ""
    left = width - len(CUT)
    for place, each in enumerate(text):
        left -= cell_len(each)
        if left < 0:
            # A hundred clients may have chosen long names: to take them off from the end, one by one, is minutes' work.
            text = text[:place]
            break
    # Together characters may take another room than each for itself.
    while cell_len(text) > width - len(CUT):
        text = text[:-1]
    return text + CUT


def _end_of(text: str, width: int) -> str:
    """As much of its end as there is room for: there the cursor is."""
    if cell_len(text) <= width:
        return text
    # A filter is short: it is taken off one by one.
    while cell_len(text) > max(0, width - len(CUT)):
        text = text[1:]
    return _cut(CUT + text, width)


def _fit(text: str, width: int, style: str = "") -> Text:
    return Text(_cut(text, width), style)


def _wrapped(text: str, width: int, most: int) -> list[str]:
    """Lines of a text, at most so many; a name that is longer than one is cut there."""
    lines = wrap(cell(text), max(width, 1), break_on_hyphens=False)
    if len(lines) > most:
        lines = [*lines[: most - 1], _cut(" ".join(lines[most - 1 :]), width)]
    return [_cut(line, width) for line in lines]
