"""Text of a peer's as it may stand in a log or on a terminal: on one line, with nothing in it that acts, and not for ever."""

from __future__ import annotations

from typing import Final

from transport.wire.names import MAX_NAME_BYTES

MAX_SHOWN_BYTES: Final = MAX_NAME_BYTES
"""A name is shown whole."""
MAX_LINE_BYTES: Final = 8 * 1024
"""Of a whole message; ours have some hundreds."""
CUT: Final = "..."


def shown(text: str, most: int = MAX_SHOWN_BYTES) -> str:
    """``text`` with everything escaped that is not printed as itself, as Python writes it, and cut to ``most`` bytes of UTF-8.

    Escaped are newlines and other control characters, terminal escapes, marks that turn the direction of writing, white space but the
    blank, halves of characters. What is left can neither begin a line of its own nor change how the rest of one looks.
    """
    # A character is a byte at least, so what is behind is cut off in any case, and need not be looked at.
    whole, text = text, text[: most + 1]
    if not text.isprintable():
        text = "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
    size = len(text) if text.isascii() else len(text.encode())
    if size <= most and len(whole) <= most:
        return text
    return text.encode()[:most].decode(errors="ignore") + CUT
