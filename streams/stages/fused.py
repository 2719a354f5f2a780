"""map and filter next to one another as one stage: a chain of them costs one loop and the calls of the user's functions.

The body of that loop is put together as source text from the kinds of the steps ("map", "filter", "map"). It is compiled once for each
combination, and given the functions as arguments. `dataclasses` makes ``__init__`` in the same way. Nothing of the user's is in the text.

A source that has an iterator (`streams.publishers.iterable`) hands that to the whole loop; any other calls ``on_next``.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Generic, Protocol, TypeVar

from streams.contract import Publisher, Subscriber
from streams.errors import FAILURES, null_element, returned_none
from streams.materialize import Materialization
from streams.plain import truth
from streams.stages.stage import NONE, I, O, Stage, supervised

T_co = TypeVar("T_co", covariant=True)

MAX_STEPS: Final = 32
"""Steps in one stage; a longer chain is cut into several. Keeps the compiled text, and the cache of texts, small."""
MAX_COMPILED: Final = 256
"""Combinations of steps whose compiled loops are kept for the next run."""


@dataclass(frozen=True, slots=True)
class Step:
    """One operator of a fused stage.

    Attributes:
        kind: a key of `KINDS`: what is done with what the function returns.
        function: the user's.
        name: the operator's, for failures.
    """

    kind: str
    function: Callable[[Any], Any]
    name: str


_MAP: Final = """\
x = f{i}(x)
if x is None: raise returned_none("map", f{i})
"""
_FILTER: Final = """\
if {rejects}:
    {drop}
"""
KINDS: Final = {
    "map": _MAP,
    "filter": _FILTER.replace("{rejects}", "not f{i}(x)"),
    "filter_not": _FILTER.replace("{rejects}", "f{i}(x)"),
}
"""What a step of each kind does to ``x``; ``drop`` leaves the element and has it replaced in the demand."""
CHECKED: Final = {
    **KINDS,
    "filter": _FILTER.replace("{rejects}", "not truth(f{i}(x))"),
    "filter_not": _FILTER.replace("{rejects}", "truth(f{i}(x))"),
}
"""The same where elements come one at a time: an answer that would have to be awaited is refused."""
ANSWERING: Final = {"filter", "filter_not"}
FIRST_ANSWERS: Final = 16
"""Elements of a run that are taken one at a time, so that their answers are checked; then they are taken many at a time, unchecked."""


@dataclass(frozen=True, slots=True)
class InlineEnd:
    """What a sink behind the steps does with one element, as text: the loop does it without a call.

    A sink that has one says so in its class, as ``inline_end``; if it calls a function, it has ``inline_failed(error, element)`` for
    what that raises.

    Attributes:
        name: of the sink, for tracebacks.
        enter: run before the loop, with the sink as ``sink``.
        each: run for each element ``x``.
        leave: run after the loop, however that ends.
    """

    name: str
    enter: str
    each: str
    leave: str


PUSH: Final = InlineEnd(name="push", enter="push = stage._push", each="push(x)", leave="pass")
"""Any other subscriber: it is called, and what it raises is for the source to deal with."""
END: Final = -1
"""Stands for the sink where a step's number is expected."""
BEGINNING: Final = -2
"""Stands for the source's iterable there."""


class BulkSource(Protocol):
    """What hands a fused stage many elements in one call.

    Attributes:
        done: its subscriber has cancelled.
    """

    done: bool

    def refuse_none(self) -> None:
        """The iterable has given None, which is no element: ends the stream."""
        ...

    def iterable_failed(self, error: BaseException) -> None:
        """The iterable has raised: ends the stream."""
        ...


class Fused(Stage[I, O], Generic[I, O]):
    """Several steps, one call: ``on_next`` takes one element through all of them, ``run`` takes it many.

    Attributes:
        on_next: takes one element through the steps.
        run: ``run(elements, source)`` takes the elements of an iterator through the steps until ``source`` is done; returns how many
            were filtered out, so that as many can be given in their place.
    """

    __slots__ = ("_step_at", "_steps", "on_next", "run")

    on_next: Callable[[I], None]  # type: ignore[assignment]  # the compiled function stands in the method's place
    run: Callable[[Iterator[I], BulkSource], int]

    def __init__(self, downstream: Subscriber[O], steps: Sequence[Step]) -> None:
        super().__init__(downstream, steps[-1].name)
        self._steps = steps
        end: InlineEnd = vars(type(downstream)).get("inline_end", PUSH)  # its own: a subclass may do something else
        make, self._step_at = _compiled(tuple(step.kind for step in steps), end)
        self.on_next, self.run = make(self, downstream, null_element, *(step.function for step in steps))
        if any(step.kind in ANSWERING for step in steps):
            self.run = _checked_first(self.on_next, self.run)

    def failed(self, error: BaseException, element: Any, source: BulkSource | None = None) -> None:
        """Something in the compiled code has raised: a step's function, the source's iterable, or a subscriber, which is for the source."""
        traceback = error.__traceback__
        step = None if traceback is None else self._step_at.get(traceback.tb_lineno)
        if step is None:
            raise error
        if step == BEGINNING and source is not None:
            source.iterable_failed(error)
            return
        if step == END:
            self._downstream.inline_failed(error, element)  # type: ignore[attr-defined]  # it has an inline end, and this with it
            return
        self._name = self._steps[step].name
        self._function_failed(error, self._steps[step].function, NONE if element is None else element)

    def drop(self) -> None:
        """An element was filtered out: asks for another in its place."""
        self._upstream.request(1)


def _checked_first(
    on_next: Callable[[Any], None], run: Callable[[Iterator[Any], BulkSource], int]
) -> Callable[[Iterator[Any], BulkSource], int]:
    """``run``, but the first elements go through ``on_next``, which looks at what the predicates answer."""
    left = FIRST_ANSWERS

    def begin(elements: Iterator[Any], source: BulkSource) -> int:
        nonlocal left
        while left:
            left -= 1
            try:
                element = next(elements)
            except StopIteration:
                return 0
            except FAILURES as error:  # the iterable is user code
                source.iterable_failed(error)
                return 0
            if element is None:
                source.refuse_none()
                return 0
            on_next(element)
            if source.done:
                return 0
        return run(elements, source)

    return begin


class FusedPublisher(Publisher[T_co], Generic[T_co]):
    """What a chain of steps makes of a publisher: each subscriber gets one stage that takes all of them."""

    __slots__ = ("_m", "_steps", "_upstream")

    def __init__(self, upstream: Publisher[Any], m: Materialization, steps: Sequence[Step]) -> None:
        self._upstream = upstream
        self._m = m
        self._steps = steps

    def subscribe(self, subscriber: Subscriber[T_co]) -> None:
        """Subscribes a new stage in front of ``subscriber``."""
        if subscriber is None:
            raise null_element("subscribe")
        self._upstream.subscribe(supervised(Fused(subscriber, self._steps), self._m))

    def followed_by(self, step: Step, m: Materialization) -> FusedPublisher[Any] | None:
        """The chain with ``step`` at its end, in one stage; None if it has to be another."""
        if m is not self._m or len(self._steps) >= MAX_STEPS:
            return None
        return FusedPublisher(self._upstream, m, (*self._steps, step))


class FusedFlow:
    """A flow of one step, which joins the steps before it."""

    __slots__ = ("_step", "name")

    def __init__(self, kind: str, function: Callable[[Any], Any], name: str | None = None) -> None:
        self.name = name or kind
        self._step = Step(kind, function, self.name)

    def attach_flow(self, publisher: Publisher[Any], m: Materialization) -> Publisher[Any]:
        """Puts the step behind ``publisher``, or in one stage with the steps before."""
        joined = publisher.followed_by(self._step, m) if isinstance(publisher, FusedPublisher) else None
        return joined or FusedPublisher(publisher, m, (self._step,))


Make = Callable[..., tuple[Callable[[Any], None], Callable[[Any, Any], int]]]
"""``make(stage, sink, null_element, *functions)`` gives ``on_next`` and ``run``."""


@lru_cache(maxsize=MAX_COMPILED)
def _compiled(kinds: tuple[str, ...], end: InlineEnd) -> tuple[Make, dict[int, int]]:
    """What makes ``on_next`` and ``run`` for steps of these kinds, and which lines of the compiled text are which step's."""
    text, step_at = _source_text(kinds, end)
    file = f"<stage {' | '.join((*kinds, end.name))}>"
    scope: dict[str, Any] = {"FAILURES": FAILURES, "truth": truth, "returned_none": returned_none}
    exec(compile(text, file, "exec"), scope)  # noqa: S102 - the text is made of the constants above, and those of our sinks, alone
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)  # for tracebacks
    return scope["make"], step_at


_FRAME: Final = """\
def make(stage, sink, null_element, {functions}):
    def on_next(x):
        if x is None:
            raise null_element(stage._name)
        try:
            {checked: return stage.drop()}
        except FAILURES as error:
            stage.failed(error, x)
            return
        stage._push(x)

    def run(elements, source, {defaults}):
        dropped = 0
        x = None
        {enter}
        try:
            while True:
                try:
                    for x in elements:
                        if x is None:
                            source.refuse_none()
                            return dropped
                        {steps: dropped += 1; continue}
                        {each}
                        if source.done:
                            return dropped
                    return dropped
                except FAILURES as error:
                    stage.failed(error, x, source)
                    if source.done:
                        return dropped
        finally:
            {leave}

    return on_next, run
"""
"""The functions are arguments with defaults in ``run``: local variables are the quickest to get at."""


def _source_text(kinds: Sequence[str], end: InlineEnd) -> tuple[str, dict[int, int]]:
    """The text, and the step that each line of it belongs to."""
    functions = [f"f{i}" for i in range(len(kinds))]
    lines: list[str] = []
    step_at: dict[int, int] = {}

    def add(indent: str, text: str, step: int | None) -> None:
        for line in text.splitlines():
            lines.append(indent + line)
            if step is not None:
                step_at[len(lines)] = step

    for frame_line in _FRAME.splitlines():
        indent = frame_line[: len(frame_line) - len(frame_line.lstrip())]
        place = frame_line.strip()
        if place.startswith(("{steps: ", "{checked: ")):
            texts = KINDS if place.startswith("{steps: ") else CHECKED
            for i, kind in enumerate(kinds):
                add(indent, texts[kind].format(i=i, drop=place.split(": ", 1)[1][:-1]), i)
        elif place == "{enter}":
            add(indent, end.enter, None)
        elif place == "{each}":
            add(indent, end.each, None if end is PUSH else END)
        elif place == "{leave}":
            add(indent, end.leave, None)
        else:
            defaults = ", ".join(f"{f}={f}" for f in functions)
            whole = frame_line.format(functions=", ".join(functions), defaults=defaults) or " "
            add("", whole, BEGINNING if place == "for x in elements:" else None)
    return "\n".join(lines) + "\n", step_at
