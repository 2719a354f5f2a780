"""How the options of ``format("penstock")`` are told apart and read: a table of names, and what each value may be.

Spark hands options over as strings with lower-cased names. An unknown one is an error, because a misspelt option that is ignored
shows only when something is lost.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spark_bridge.errors import OptionError
from transport import LocalProtocolError
from transport.wire.contact_points import parse_contact_points
from transport.wire.names import MAX_NAME_BYTES

UNITS_MS = {"": 1000, "ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
MAX_NUMBER = 2**53
"""Rows and bytes: more than anybody has, exact in JSON, and what frames and Spark's limits can hold."""
MAX_DURATION_MS = 36_500 * UNITS_MS["d"]
"""A hundred years: what threads wait for has to fit their clock."""
SHOWN = 80
"""Characters of a wrong value that an error shows."""
_QUANTITY = re.compile(r"([0-9]+)\s*([a-z]*)")


@dataclass(frozen=True, slots=True)
class Option:
    """One option.

    Attributes:
        attribute: what its value is called in the program.
        names: the name documented, then its aliases.
        parse: the value of a text; raises ValueError that says what was expected.
        secret: whether an error may not show the value.
    """

    attribute: str
    names: tuple[str, ...]
    parse: Callable[[str], Any]
    secret: bool = False


def parse_options(
    table: Sequence[Option],
    given: Mapping[str, str],
    sparks_own: Collection[str] = (),
    *,
    explain: Callable[[Sequence[str]], Sequence[str]],
) -> dict[str, Any]:
    """Attribute -> value of the options given.

    Args:
        table: the options there are.
        given: as Spark has them; case of names does not matter.
        sparks_own: lower-cased names of options that are Spark's and mean nothing here.
        explain: what to tell of names that are not in the table.

    Raises:
        OptionError: some are unknown, given twice under two names, or have a value that they cannot have. All of them are told.
    """
    by_name = {name.lower(): option for option in table for name in option.names}
    values: dict[str, Any] = {}
    said: dict[str, str] = {}
    unknown: list[str] = []
    wrong: list[str] = []
    for name, text in given.items():
        if name.lower() in sparks_own:
            continue
        option = by_name.get(name.lower())
        if option is None:
            unknown.append(name)
        elif option.attribute in said:
            wrong.append(f"options {said[option.attribute]!r} and {name!r} are the same; give one")
        else:
            said[option.attribute] = name
            try:
                values[option.attribute] = option.parse(str(text).strip())
            except ValueError as error:
                shown = "a value" if option.secret else _shown(str(text))
                wrong.append(f"option {option.names[0]} has {shown}: {error}")
    if unknown:
        wrong += explain(unknown)
    if len(wrong) > 1:
        told = (f"({n}) {each}" + ("" if each.endswith("?") else ".") for n, each in enumerate(wrong, 1))
        raise OptionError(f"{len(wrong)} options are wrong: {' '.join(told)}")
    if wrong:
        raise OptionError(wrong[0])
    return values


def _shown(text: str) -> str:
    return repr(text) if len(text) <= SHOWN else f"{text[:SHOWN]!r} and {len(text) - SHOWN} characters more"


def name(text: str) -> str:
    """The name of a queue, subscription or writer."""
    nonempty(text)
    if not text.isprintable() or any(character.isspace() for character in text):
        raise ValueError("a name is printable and without white space")
    if len(text.encode()) > MAX_NAME_BYTES:
        raise ValueError(f"a name has at most {MAX_NAME_BYTES} bytes")
    return text


def listed(text: str) -> tuple[str, ...]:
    """What stands between commas, one at least."""
    parts = tuple(part.strip() for part in text.split(",") if part.strip())
    if not parts:
        raise ValueError("expected host:port, several separated by commas")
    return parts


def contact_points(text: str) -> tuple[str, ...]:
    """Several ``host:port`` of one broker, separated by commas."""
    parts = listed(text)
    try:
        parse_contact_points(parts, "one broker")
    except LocalProtocolError as error:
        raise ValueError(str(error)) from None
    return parts


def whole_number(text: str, least: int = 0, most: int = MAX_NUMBER) -> int:
    """An integer from ``least`` to ``most``."""
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"expected a whole number of at least {least}")
    number = _bounded(text, most=most)
    if number < least:
        raise ValueError(f"expected a whole number of at least {least}")
    return number


def _bounded(digits: str, unit: int = 1, most: int = MAX_NUMBER) -> int:
    """The number that ``digits`` are of ``unit``; not one that no frame and no limit of Spark's can hold."""
    # Python refuses to read thousands of digits, in words of its own.
    digits = digits.lstrip("0") or "0"
    if len(digits) > len(str(most)) or int(digits) * unit > most:
        raise ValueError(f"it is too large: at most {most // unit}, or leave the option out")
    return int(digits) * unit


def quantity(text: str, units: Mapping[str, int], what: str, most: int = MAX_NUMBER) -> int:
    """A number of at least 1 with one of ``units``, in the smallest of them; ``what`` was expected otherwise."""
    match = _QUANTITY.fullmatch(text.lower())
    if match is None or match[2] not in units or not match[1].strip("0"):
        raise ValueError(f"expected {what}")
    return _bounded(match[1], units[match[2]], most)


def duration_ms(text: str) -> int:
    """A duration, in milliseconds; a number without a unit is seconds."""
    return quantity(text, UNITS_MS, "a duration: 90s, 30m, 12h or 2d", MAX_DURATION_MS)


def nonempty(text: str) -> str:
    """Any text but none."""
    if not text:
        raise ValueError("it is empty")
    return text


def flag(text: str) -> bool:
    """True or false, in the words that the environment has for them."""
    from transport.wire.truths import parse_flag  # noqa: PLC0415 - a worker is given most options as they were read

    return parse_flag(text)
