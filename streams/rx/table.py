"""Every operator of reactivex: how it goes under demand, or which of ours does what it is for.

The rule has two parts. What an operator gives for an element is there when it returns. What it holds is bounded by its arguments, or by how
many keys or ties there are in the data; the table says so then. The others are refused, by kind.

Each row shows how its operator is called, so that what the installed reactivex returns can be recognised: a letter for each argument.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final


class Kind(Enum):
    """How an operator gets on with demand; the value is what the documentation calls it."""

    ONE_TO_ONE = "one for one"
    FILTERING = "filtering"
    COUNTING = "counting buffer"
    REDUCING = "one at the end"
    EXPANDING = "finite expansion"
    TIMED = "timed"
    BUFFERING = "hides a buffer"
    SOURCES = "needs a second source"
    SEQUENCES = "gives sequences"
    RESUBSCRIBING = "subscribes again"
    SHARING = "shares a subscription"

    @property
    def accepted(self) -> bool:
        """Whether `Flow.rx` takes operators of this kind."""
        return self in _ACCEPTED


_ACCEPTED: Final = frozenset({Kind.ONE_TO_ONE, Kind.FILTERING, Kind.COUNTING, Kind.REDUCING, Kind.EXPANDING})

REASONS: Final = {
    Kind.TIMED: "works with timers of its own, which know nothing of demand",
    Kind.BUFFERING: "holds a part of the stream that nothing bounds",
    Kind.SOURCES: "listens to a second source, which cannot be held back",
    Kind.SEQUENCES: "gives sequences that nothing holds back",
    Kind.RESUBSCRIBING: "subscribes to its source again, and a flow has its source once",
    Kind.SHARING: "shares one subscription among many, which nothing holds back",
}
"""Why an operator of that kind is refused."""


@dataclass(frozen=True, slots=True)
class Operator:
    """A row.

    Attributes:
        kind: see there.
        calls: the ways to call it that return different things; a letter for each argument: f a function, n a number, s a sequence
            (an observable), o an observer, k a key, l a list.
        holds: what it keeps beyond one element, if it is accepted.
        instead: what does the same under demand, if it is refused: names in `streams`; an operator's without its class.
        hint: how, where the names do not say it.
    """

    kind: Kind
    calls: tuple[str, ...]
    holds: str = ""
    instead: tuple[str, ...] = ()
    hint: str = ""


def _one(*calls: str) -> Operator:
    return Operator(Kind.ONE_TO_ONE, calls)


def _filter(*calls: str, holds: str = "") -> Operator:
    return Operator(Kind.FILTERING, calls, holds)


def _count(*calls: str, holds: str) -> Operator:
    return Operator(Kind.COUNTING, calls, holds)


def _reduce(*calls: str, holds: str = "") -> Operator:
    return Operator(Kind.REDUCING, calls, holds)


def _expand(*calls: str) -> Operator:
    return Operator(Kind.EXPANDING, calls, "what it makes of one element")


def _refused(kind: Kind, calls: str, *instead: str, hint: str = "") -> Operator:
    return Operator(kind, (calls,), "", instead, hint)


def _timed(calls: str, *instead: str, hint: str = "") -> Operator:
    return _refused(Kind.TIMED, calls, *instead, hint=hint)


def _sources(calls: str, *instead: str, hint: str = "") -> Operator:
    return _refused(Kind.SOURCES, calls, *instead, hint=hint)


_LATEST: Final = "conflate keeps the latest element until the sequence before it is through"
_SHARED: Final = "every sink gets every element, at the pace of the slowest"
_LIMITED: Final = "the list has a limit"

OPERATORS: Final[dict[str, Operator]] = {
    "all": _reduce("f"),
    "amb": _sources("s", "merge", hint="there is no race between sources; merge takes what comes first"),
    "as_observable": _one(""),
    "average": _reduce("", "f"),
    "buffer": _sources("s", "split_when", "grouped_within", hint="the boundary is a predicate or a time"),
    "buffer_toggle": _sources("sf", "split_when", "split_after", hint="the boundaries are predicates"),
    "buffer_when": _sources("f", "split_when", "grouped_within", hint="the boundary is a predicate or a time"),
    "buffer_with_count": _count("n", "nn", holds="the groups that are open: count elements"),
    "buffer_with_time": _timed("n", "grouped_within"),
    "buffer_with_time_or_count": _timed("nn", "grouped_within"),
    "catch": _sources("s", "recover_with", "recover"),
    "combine_latest": _sources("s", "zip_latest", "merge_latest"),
    "concat": _sources("s", "concat"),
    "concat_all": _expand(""),
    "concat_map": _expand("f"),
    "contains": _reduce("n", "nf"),
    "count": _reduce("", "f"),
    "debounce": _timed("n", "conflate", "throttle", hint="conflate keeps the latest, throttle sets the pace"),
    "default_if_empty": _one("", "n"),
    "delay": _timed("n", "delay"),
    "delay_subscription": _timed("n", "initial_delay"),
    "delay_with_mapper": _timed("f", "map_async", hint="await what the element waits for"),
    "dematerialize": _filter(""),
    "distinct": _filter("", "f", "ff", holds="every key there was, in a list that is searched for each element"),
    "distinct_until_changed": _filter("", "f", "ff", holds="the last key"),
    "do": _one("o"),
    "do_action": _one("f"),
    "do_while": _refused(Kind.RESUBSCRIBING, "f", "RestartSource", "Source.from_iterable"),
    "element_at": _filter("n"),
    "element_at_or_default": _filter("n", "nn"),
    "exclusive": _sources("", "flat_map_concat", hint="sequences come one after the other, and none is dropped"),
    "expand": _expand("f"),
    "filter": _filter("f"),
    "filter_indexed": _filter("", "f"),
    "finally_action": _one("f"),
    "find": _reduce("f"),
    "find_index": _reduce("f"),
    "first": _filter("", "f"),
    "first_or_default": _filter("", "f"),
    "flat_map": _expand("", "f"),
    "flat_map_indexed": _expand("", "f"),
    "flat_map_latest": _sources("f", "conflate", "flat_map_concat", hint=_LATEST),
    "fork_join": _sources("s", "zip", hint="of the last elements: reduce each source before"),
    "group_by": _refused(Kind.SEQUENCES, "f", "group_by"),
    "group_by_until": _refused(Kind.SEQUENCES, "fff", "group_by", "take_within", hint="take_within ends a group"),
    "group_join": _sources("sff", "merge", "stateful_map", hint="hold what is to be joined in the state"),
    "ignore_elements": _filter(""),
    "is_empty": _reduce(""),
    "join": _sources("sff", "merge", "stateful_map", hint="hold what is to be joined in the state"),
    "last": _reduce("", "f"),
    "last_or_default": _reduce("", "nf"),
    "map": _one("", "f"),
    "map_indexed": _one("", "f"),
    "materialize": _one(""),
    "max": _reduce("", "f", holds="what equals the greatest"),
    "max_by": _reduce("f", "ff", holds="what equals the greatest"),
    "merge": _sources("s", "merge"),
    "merge_all": _expand(""),
    "min": _reduce("", "f", holds="what equals the least"),
    "min_by": _reduce("f", "ff", holds="what equals the least"),
    "multicast": _refused(Kind.SHARING, "o", "Source.broadcast", "also_to", hint=_SHARED),
    "observe_on": _timed("o", "buffer", "map_blocking", hint="a stream stays on its loop; blocking work goes to threads"),
    "on_error_resume_next": _sources("s", "recover_with", "concat"),
    "pairwise": _filter("", holds="the last element"),
    "partition": _refused(Kind.SHARING, "f", "Source.partition", "divert_to"),
    "partition_indexed": _refused(Kind.SHARING, "f", "zip_with_index", "Source.partition", "divert_to"),
    "pluck": _one("k"),
    "pluck_attr": _one("k"),
    "publish": _refused(Kind.SHARING, "", "Source.broadcast", "also_to", hint=_SHARED),
    "publish_value": _refused(Kind.SHARING, "n", "Source.broadcast", "also_to", hint=_SHARED),
    "reduce": _reduce("f", "fn"),
    "ref_count": _refused(Kind.SHARING, "", "Source.broadcast", "also_to", hint=_SHARED),
    "repeat": _refused(Kind.RESUBSCRIBING, "n", "RestartSource", "Source.from_iterable"),
    "replay": _refused(Kind.SHARING, "", "Source.broadcast", "also_to", hint=_SHARED),
    "retry": _refused(Kind.RESUBSCRIBING, "n", "RestartSource", "recover_with"),
    "sample": _timed("n", "conflate", "throttle", hint="conflate keeps the latest, throttle sets the pace"),
    "scan": _one("f", "fn"),
    "sequence_equal": _sources("s", "zip_all", hint="then map and fold"),
    "share": _refused(Kind.SHARING, "", "Source.broadcast", "also_to", hint=_SHARED),
    "single": _reduce("", "f"),
    "single_or_default": _reduce("", "f"),
    "single_or_default_async": _reduce(""),
    "skip": _filter("n"),
    "skip_last": _filter("n", holds="count elements"),
    "skip_last_with_time": _timed("n", "delay", "take_within", hint="what delay has not let through yet is dropped at the end"),
    "skip_until": _sources("s", "drop_while", "drop_within", hint="what ends the skipping is a predicate or a time"),
    "skip_until_with_time": _timed("n", "drop_within"),
    "skip_while": _filter("f"),
    "skip_while_indexed": _filter("f"),
    "skip_with_time": _timed("n", "drop_within"),
    "slice": _filter("", "nnn", holds="as many as a negative bound counts"),
    "some": _reduce("", "f"),
    "starmap": _one("", "f"),
    "starmap_indexed": _one("f"),
    "start_with": _expand("n"),
    "subscribe_on": _timed("o", "map_blocking", hint="a stream stays on its loop; blocking work goes to threads"),
    "sum": _reduce("", "f"),
    "switch_latest": _sources("", "conflate", "flat_map_concat", hint=_LATEST),
    "switch_map": _sources("f", "conflate", "flat_map_concat", hint=_LATEST),
    "switch_map_indexed": _sources("f", "zip_with_index", "conflate", "flat_map_concat", hint=_LATEST),
    "take": _filter("n"),
    "take_last": _count("n", holds="count elements"),
    "take_last_buffer": _count("n", holds="count elements"),
    "take_last_with_time": _timed("n", "stateful_map", "fold", hint="keep what is young enough in the state"),
    "take_until": _sources("s", "KillSwitches", "take_while", hint="the switch's shutdown() ends the stream"),
    "take_until_with_time": _timed("n", "take_within"),
    "take_while": _filter("f"),
    "take_while_indexed": _filter("f"),
    "take_with_time": _timed("n", "take_within"),
    "tap": _one("f"),
    "throttle_first": _timed("n", "throttle", "conflate", hint="conflate drops what throttle holds back"),
    "throttle_with_mapper": _timed("f", "throttle", hint="its cost is a function of the element"),
    "throttle_with_timeout": _timed("n", "conflate", "throttle", hint="conflate keeps the latest, throttle sets the pace"),
    "time_interval": _one(""),
    "timeout": _timed("n", "idle_timeout", "completion_timeout", "recover_with"),
    "timeout_with_mapper": _timed("s", "initial_timeout", "idle_timeout"),
    "timestamp": _one(""),
    "to_dict": _refused(Kind.BUFFERING, "f", "Sink.collect", "fold", hint=_LIMITED),
    "to_future": _refused(Kind.BUFFERING, "f", "Sink.last", hint="run_with(Sink.last()) gives what can be awaited"),
    "to_iterable": _refused(Kind.BUFFERING, "", "Sink.collect", "grouped", hint=_LIMITED),
    "to_list": _refused(Kind.BUFFERING, "", "Sink.collect", "grouped", hint=_LIMITED),
    "to_marbles": _timed("", "log", "monitor"),
    "to_set": _refused(Kind.BUFFERING, "", "Sink.collect", "fold", hint=_LIMITED),
    "while_do": _refused(Kind.RESUBSCRIBING, "f", "RestartSource", "Source.from_iterable"),
    "window": _refused(Kind.SEQUENCES, "s", "split_when", "grouped_within"),
    "window_toggle": _refused(Kind.SEQUENCES, "sf", "split_when", "split_after"),
    "window_when": _refused(Kind.SEQUENCES, "f", "split_when", "grouped_within"),
    "window_with_count": _refused(Kind.SEQUENCES, "n", "grouped", "sliding"),
    "window_with_time": _refused(Kind.SEQUENCES, "n", "grouped_within"),
    "window_with_time_or_count": _refused(Kind.SEQUENCES, "nn", "grouped_within"),
    "with_latest_from": _sources("s", "zip_latest"),
    "zip": _sources("s", "zip"),
    "zip_latest": _sources("s", "zip_latest"),
    "zip_with_iterable": _one("l"),
    "zip_with_list": _one("l"),
}  # fmt: skip
"""By the name in ``reactivex.operators``; those of every version that is allowed."""
