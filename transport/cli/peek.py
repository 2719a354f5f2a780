"""``penstock queue peek``: a look at stored messages, which changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from transport.cli import _written as written
from transport.cli._administering import admin_command
from transport.cli._exchange_options import shown_exchange
from transport.cli._options import QueueArgument
from transport.cli._tables import cell_len, terminal_width

if TYPE_CHECKING:
    from transport.clients.administration import Administration
    from transport.clients.peeked import PeekedMessage

OLDEST, NEWEST = "oldest", "newest"
LINE_BYTES = 4096
"""Bytes of a payload that are asked for to be shown in a line: more than any terminal is wide."""
MOST_DIGITS = 20
"""Of a message's number: no number of 64 bits has more."""
PIPED_WIDTH = 250
"""Characters of a line where no terminal sets any."""


def _where(text: str) -> str:
    """Typer callback: where to begin."""
    if text not in (OLDEST, NEWEST) and not (text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS):
        raise typer.BadParameter(f"{text!r:.60} is neither {OLDEST} nor {NEWEST}, nor a message's number")
    return text


Count = Annotated[int, typer.Option("--count", metavar="N", min=1, help="Messages at most.")]
From = Annotated[
    str,
    typer.Option("--from", metavar="N|oldest|newest", help="Where to begin; newest: the last ones.", callback=_where),
]
Headers = Annotated[bool, typer.Option("--headers", help="Show headers too.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object a line, with the payload whole.")]


@admin_command("queue peek")
async def peek(
    administration: Administration,
    queue: QueueArgument,
    count: Count = 10,
    start: From = OLDEST,
    headers: Headers = False,
    as_json: AsJson = False,
) -> None:
    """Show messages that are stored: number, age, size, key and payload. Nothing changes by it.

    Those that receivers hold are shown too. What is no text is shown in hex.
    """
    number = int(start) if start not in (OLDEST, NEWEST) else None
    found = await administration.peek(
        queue, count, start=number, newest=start == NEWEST, most_bytes=None if as_json else LINE_BYTES
    )
    if as_json:
        import json  # noqa: PLC0415 - not needed for --help

        for message in found:
            # In ASCII: no control character reaches a terminal.
            typer.echo(json.dumps(_facts(message)))
        return
    width = terminal_width() or PIPED_WIDTH
    for message in found:
        for line in _lines(message, headers):
            typer.echo(_cut(line, width))
    if not found:
        typer.echo(f"queue {queue} has no message there")


def _facts(message: PeekedMessage) -> dict[str, Any]:
    """A message as JSON: bytes as a text where they are UTF-8, and else under a name with ``_base64`` behind it."""
    facts: dict[str, Any] = {
        "number": message.number,
        "id": message.id.hex(),
        "enqueued_us": message.enqueued_us,
        "age_ms": message.age_ms,
        "deliveries": message.deliveries,
        "replayed": message.replayed,
        "size": message.size,
        **_value("payload", message.payload),
    }
    if len(message.payload) < message.size:
        facts["cut"] = True
    if message.key is not None:
        facts |= _value("key", message.key)
    if message.exchange is not None:
        facts |= {"exchange": message.exchange, "routing_key": message.routing_key}
    if message.priority:
        facts["priority"] = message.priority
    if message.headers_size:
        facts["headers"] = (
            None
            if message.headers is None
            else {
                name: value if isinstance(value, str) else _value("value", value)
                for name, value in message.headers.items()
            }
        )
    return facts


def _value(name: str, value: bytes) -> dict[str, str]:
    from base64 import b64encode  # noqa: PLC0415 - not needed for --help

    try:
        return {name: value.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": b64encode(value).decode()}


def _lines(message: PeekedMessage, headers: bool) -> list[str]:
    """A message for people: its facts, its headers if wanted, and the beginning of its payload."""
    facts = [f"#{message.number}", f"{written.milliseconds(message.age_ms)} old", written.size(message.size)]
    if message.deliveries or message.replayed:
        facts.append(f"delivered {message.deliveries}x" if message.deliveries else "perhaps delivered")
    if message.key is not None:
        facts.append(f"key {_text(message.key)}")
    if message.exchange is not None:
        facts.append(f"exchange {shown_exchange(_text(_bytes(message.exchange)))}")
        if message.key is None and message.routing_key:
            facts.append(f"routing key {_text(_bytes(message.routing_key))}")
    if message.priority:
        facts.append(f"priority {message.priority}")
    facts.append(f"id {message.id.hex()}")
    lines = ["  ".join(facts)]
    if headers and message.headers is None:
        lines.append(f"    headers of {message.headers_size} bytes, which cannot be shown")
    elif headers and message.headers:
        lines += [f"    {_text(_bytes(name))}: {_text(_bytes(value))}" for name, value in message.headers.items()]
    lines.append("    " + (_text(message.payload, cut=len(message.payload) < message.size) or "(no bytes)"))
    return lines


def _bytes(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode(errors="surrogatepass")


def _text(value: bytes, *, cut: bool = False) -> str:
    """Bytes in one line: as text where they are UTF-8, what would command a terminal escaped; else in hex."""
    from transport.wire.shown import shown  # noqa: PLC0415 - not needed for --help

    try:
        # The last character of a beginning may be cut in its midst.
        text = value.decode() if not cut else value[: _whole(value)].decode()
    except UnicodeDecodeError:
        return "0x" + value.hex() + ("..." if cut else "")
    return shown(text, 2 * LINE_BYTES) + ("..." if cut else "")


def _whole(value: bytes) -> int:
    """How many of the first bytes do not end in the midst of a character of UTF-8."""
    for back in range(1, min(4, len(value)) + 1):
        byte = value[-back]
        if byte >= 0xC0:
            needs = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return len(value) if needs <= back else len(value) - back
        if byte < 0x80:
            break
    return len(value)


def _cut(line: str, width: int) -> str:
    """A line that fits; wide characters count for two."""
    if cell_len(line) <= width:
        return line
    from rich.cells import set_cell_size  # noqa: PLC0415 - not needed for --help

    return set_cell_size(line, max(1, width - 3)) + "..."
