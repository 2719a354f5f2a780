"""Which operator of reactivex a callable is: what `Flow.rx` accepts or refuses before anything runs.

``ops.take(3)`` is a plain function; what tells it from another is its code. So each operator of the installed reactivex is called once
as `OPERATORS` says, and the code of what it returns is remembered: whatever version is installed, what it returns is recognised.
A composition is recognised as a whole, where an operator is one, and else in its parts. Arguments are not looked at, so a function
of the user's is never called here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from types import CodeType, FunctionType
from typing import Any, Final

import reactivex
from reactivex import Observable, operators

from streams.errors import OperatorRefusedError
from streams.rx.table import OPERATORS, REASONS, Kind, Operator

RxOperator = Callable[[Any], Any]
"""What ``ops.take(3)`` returns: gives the observable behind it for the one before it."""

Shape = tuple[Any, ...]
"""The code of an operator, or of the parts of a composition."""

CUSTOM: Final = "an operator of your own"
"""What an unknown callable is called, if it has no name."""


@dataclass(frozen=True, slots=True)
class Step:
    """An operator that was accepted.

    Attributes:
        name: in ``reactivex.operators``.
        expands: whether it may give more than one element for one.
        operator: the callable.
    """

    name: str
    expands: bool
    operator: RxOperator


def recognise(given: RxOperator, trust: bool) -> Iterator[Step]:
    """The steps that ``given`` is.

    Args:
        given: an operator of reactivex, a composition, or something else.
        trust: accept something else.

    Raises:
        TypeError: it is not callable.
        OperatorRefusedError: it is, or has in it, an operator that cannot be held to demand, or one that is not known.
    """
    if not callable(given):
        raise TypeError(f"Flow.rx takes operators of reactivex, ops.map(f) say, not {type(given).__name__}")
    names = _known().get(_shape(given), ())
    parts = parts_of(given)
    accepted = all(OPERATORS[name].kind.accepted for name in names)
    if parts is not None and accepted and (not names or any(map(_holds_sequence, parts))):
        for part in parts:
            yield from recognise(part, trust)
    elif names:
        yield _accept(names, given)
    elif trust:
        yield Step(getattr(given, "__name__", CUSTOM), True, given)
    else:
        raise _unknown(given)


def parts_of(given: RxOperator) -> tuple[RxOperator, ...] | None:
    """The operators that a composition was made of; None if it is none."""
    if _module(given) == "reactivex.pipe":
        parts = _closure(given).get("operators")
        if isinstance(parts, tuple):
            return parts
    return None


def is_curried(given: RxOperator) -> bool:
    """Whether each use of the operator calls its function anew; of older versions' closures some are changed by being used."""
    return _module(given) == "reactivex.internal.curry"


def code_of(given: RxOperator) -> CodeType | None:
    """The code that tells one operator from another; None if it is none of reactivex's."""
    if is_curried(given):
        # A curried operator: the same wrapper around each; the operator is the function that it holds.
        inner = _closure(given).get("fun")
        return inner.__code__ if isinstance(inner, FunctionType) else None
    if _module(given).startswith("reactivex.") and isinstance(given, FunctionType):
        return given.__code__
    return None


def _accept(names: tuple[str, ...], given: RxOperator) -> Step:
    rows = [OPERATORS[name] for name in names]
    refused = [row for row in rows if not row.kind.accepted]
    if refused:
        raise refusal(" / ".join(names), *refused)
    return Step(names[0], any(row.kind is Kind.EXPANDING for row in rows), given)


def refusal(name: str, *rows: Operator) -> OperatorRefusedError:
    """The error for an operator that is refused: why, and what to use. More than one row, if the operator cannot be told from another."""
    instead = tuple(dict.fromkeys(name for row in rows for name in row.instead))
    hints = "; ".join(dict.fromkeys(row.hint for row in rows if row.hint))
    ours = (name if name[0].isupper() else f"Flow.{name}" for name in instead)
    advice = f"use {' or '.join(ours)}" + (f" ({hints})" if hints else "")
    return OperatorRefusedError(name, REASONS[rows[0].kind], instead, advice)


def _unknown(given: RxOperator) -> OperatorRefusedError:
    name = getattr(given, "__qualname__", None) or type(given).__name__
    return OperatorRefusedError(
        f"{name} ({CUSTOM})",
        "is none of reactivex's",
        (),
        "if all that it gives for an element is there when it returns, say trust=True; "
        "Flow.from_stage takes a stage that knows of demand",
    )


@cache
def _known() -> dict[Shape | CodeType | None, tuple[str, ...]]:
    """The names of the installed reactivex's operators, by the shape of what they return."""
    arguments = {
        "f": lambda *_: None,
        "n": 1,
        "s": reactivex.never(),
        "o": reactivex.subject.Subject[Any](),
        "k": "key",
        "l": [],
    }
    known: dict[Shape | CodeType | None, list[str]] = {}
    for name, row in OPERATORS.items():
        make: Callable[..., Any] | None = getattr(operators, name, None)  # an older version does not have them all
        if make is None:
            continue
        for call in row.calls:
            names = known.setdefault(_shape(make(*(arguments[letter] for letter in call))), [])
            if name not in names:
                names.append(name)
    known.pop(None, None)
    return {shape: tuple(names) for shape, names in known.items()}


def _shape(given: RxOperator) -> Shape | CodeType | None:
    parts = parts_of(given)
    if parts is None:
        return code_of(given)
    shapes = tuple(_shape(part) for part in parts)
    # A composition of one is what its part is; and nothing is known by a part that is not.
    if len(shapes) == 1:
        return shapes[0] if isinstance(shapes[0], CodeType) else None
    return None if None in shapes else shapes


def _holds_sequence(part: RxOperator) -> bool:
    """Whether an operator was given an observable: ``merge(other)`` has the shape of the ``merge`` that ``concat_map`` is made of."""
    held = _closure(part)
    values = [*held.values(), *(held.get("kwargs") or {}).values()]
    for value in tuple(values):
        if isinstance(value, tuple):
            values.extend(value)
    return any(isinstance(value, Observable) for value in values)


def _module(given: RxOperator) -> str:
    # Not __module__, which functools.wraps copies.
    return str(given.__globals__.get("__name__", "")) if isinstance(given, FunctionType) else ""


def _closure(given: RxOperator) -> dict[str, Any]:
    if not isinstance(given, FunctionType) or given.__closure__ is None:
        return {}
    return {
        name: cell.cell_contents
        for name, cell in zip(given.__code__.co_freevars, given.__closure__, strict=True)
        if _is_bound(cell)
    }


def _is_bound(cell: Any) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:  # the variable has not got its value
        return False
