"""SASLprep: one form for names and passwords that look the same (RFC 4013, a profile of stringprep, RFC 3454)."""

from __future__ import annotations

import stringprep
import unicodedata
from collections.abc import Callable
from typing import Final

from transport.security.access import MAX_SECRET_BYTES

_PROHIBITED: Final[tuple[tuple[Callable[[str], bool], str], ...]] = (
    (stringprep.in_table_c12, "a blank that is none of ASCII's"),
    (stringprep.in_table_c21_c22, "a control character"),
    (stringprep.in_table_c3, "a character of private use"),
    (stringprep.in_table_c4, "a code point that is no character"),
    (stringprep.in_table_c5, "half of a surrogate pair"),
    (stringprep.in_table_c6, "a character that plain text has not"),
    (stringprep.in_table_c7, "a character that has no canonical form"),
    (stringprep.in_table_c8, "a character that changes how others are shown"),
    (stringprep.in_table_c9, "a tagging character"),
)


class PreparationError(ValueError):
    """A text that cannot be a name or a password. It is not shown: it may be a secret."""


def saslprep(text: str, what: str = "password") -> str:
    """``text`` in the form that is compared.

    Code points that Unicode 3.2 did not have are let through, as RFC 4013 says of queries: what a person types must not be refused
    by an older table. Both sides prepare, so both come to the same form.

    Args:
        text: as it was given.
        what: it is, for the error.

    Raises:
        PreparationError: empty, too long, or with a character that cannot be in it.
    """
    if len(text.encode("utf-8", "surrogatepass")) > MAX_SECRET_BYTES:
        raise PreparationError(f"the {what} is longer than {MAX_SECRET_BYTES} bytes")
    if text.isascii() and text.isprintable():
        prepared = text
    else:
        mapped = "".join(
            " " if stringprep.in_table_c12(each) else each for each in text if not stringprep.in_table_b1(each)
        )
        prepared = unicodedata.ucd_3_2_0.normalize("NFKC", mapped)
        _check(prepared, what)
    if not prepared:
        raise PreparationError(f"the {what} is empty")
    return prepared


def _check(prepared: str, what: str) -> None:
    for each in prepared:
        for prohibited, name in _PROHIBITED:
            if prohibited(each):
                raise PreparationError(f"the {what} has {name}")
    # RFC 3454, section 6: text that is written from right to left holds none of the other kind, and begins and ends so.
    if any(map(stringprep.in_table_d1, prepared)):
        if any(map(stringprep.in_table_d2, prepared)):
            raise PreparationError(f"the {what} mixes text from right to left with text from left to right")
        if not (stringprep.in_table_d1(prepared[0]) and stringprep.in_table_d1(prepared[-1])):
            raise PreparationError(f"the {what} has text from right to left that does not begin and end it")
