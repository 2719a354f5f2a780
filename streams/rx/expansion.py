"""Operators whose functions give sequences: each of these must be through when it has been subscribed to.

``flat_map`` and its kin listen to every sequence they are given, and nothing holds a sequence back that goes on later. So each is
counted from its arrival to its end, and the stage looks at the count when the element that it was made of is through.
"""

from __future__ import annotations

from typing import Any, Final

from reactivex import Observable, compose, operators

from streams.rx.recognise import RxOperator, Step, code_of, parts_of

_JOINS: Final = [operators.merge(max_concurrent=1), operators.merge_all()]
if hasattr(operators, "concat_all"):  # since reactivex 6
    _JOINS.append(operators.concat_all())
_JOIN: Final = frozenset(map(code_of, _JOINS))
"""The operators that listen to the sequences they get."""
_FLAT: Final = frozenset(map(code_of, (operators.flat_map(), operators.flat_map_indexed())))
"""The operators that pipe their source through a mapping to sequences and one of those above."""


class Unfinished:
    """How many sequences have come that have not ended.

    Attributes:
        count: that.
    """

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0

    def watch(self, sequence: Any) -> Any:
        """``sequence``, counted until it ends; a future counts for ever, as it is no sequence that could be through."""
        self.count += 1
        if not isinstance(sequence, Observable):
            return sequence
        return sequence.pipe(operators.do_action(None, self._ended, self._ended))

    def _ended(self, _error: object = None) -> None:
        self.count -= 1


class _Watched(Observable[Any]):
    """A source whose pipes count the sequences that are joined in them."""

    def __init__(self, source: Observable[Any], unfinished: Unfinished) -> None:
        super().__init__()
        self._source = source
        self._unfinished = unfinished

    def pipe(self, *steps: Any) -> Any:
        """Puts ``steps`` behind the source."""
        return compose(*(watched(step, self._unfinished) for step in steps))(self._source)


def watched(operator: RxOperator, unfinished: Unfinished) -> RxOperator:
    """``operator``, with the sequences that it joins counted."""
    parts = parts_of(operator)
    if parts is not None:
        return compose(*(watched(part, unfinished) for part in parts))
    code = code_of(operator)
    if code in _JOIN:
        return compose(operators.map(unfinished.watch), operator)
    if code in _FLAT:
        return lambda source: operator(_Watched(source, unfinished))
    return operator


def assemble(source: Observable[Any], steps: tuple[Step, ...], unfinished: Unfinished) -> Observable[Any]:
    """The observable at the end of ``steps`` behind ``source``.

    Raises:
        TypeError: a step gives something else.
    """
    for step in steps:
        source = (watched(step.operator, unfinished) if step.expands else step.operator)(source)
        if not isinstance(source, Observable):
            raise TypeError(f"{step.name} gives no observable but {type(source).__name__}, so it cannot be in Flow.rx")
    return source
