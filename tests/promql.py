"""A small evaluator of PromQL: as much of it as our dashboard and our alerts use. What it does not know it refuses.

It is there so that no expression names a metric or a label that there is none of, and none is wrong in itself. A range is what two scrapes
and the seconds between them say.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+(?:\.\d+)?(?:e[+-]?\d+)?(?![\w]))|(?P<name>[a-zA-Z_:][\w:]*)|(?P<string>\"(?:\\.|[^\"\\])*\")"
    r"|(?P<range>\[[^\]]+\])|(?P<sign>==|!=|=~|!~|<=|>=|[-+*/<>=(){},]))"
)
RANGES = {"rate", "increase", "delta", "avg_over_time", "max_over_time", "min_over_time", "changes"}
AGGREGATES: dict[str, Callable[[list[float]], float]] = {
    "sum": math.fsum, "max": max, "min": min, "avg": lambda found: math.fsum(found) / len(found), "count": len,
}  # fmt: skip
SIGNS: dict[str, Callable[[float, float], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul,
    "/": lambda a, b: a / b if b else math.nan if not a else math.copysign(math.inf, a),
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge,
}  # fmt: skip
LEVELS = (("and", "or", "unless"), ("==", "!=", "<", ">", "<=", ">="), ("+", "-"), ("*", "/"))
COMPARE = set(LEVELS[1])

Labels = frozenset[tuple[str, str]]
Vector = dict[Labels, float]
Scrape = dict[str, Vector]


class PromQlError(Exception):
    """The expression is wrong, names what there is none of, or needs more of PromQL than is here."""


@dataclass
class Evaluator:
    """Evaluates expressions.

    Args:
        before: a scrape, by metric.
        now: a later one.
        seconds: between the two.

    Attributes:
        metrics: names that were looked up.
    """

    before: Scrape
    now: Scrape
    seconds: float = 15.0
    metrics: set[str] = field(default_factory=set)

    def value(self, expression: str) -> Vector | float:
        """What an expression comes to.

        Raises:
            PromQlError: it cannot be evaluated.
        """
        tokens = list(_tokens(expression))
        parser = _Parser(self, tokens)
        found = parser.binary(0)
        if parser.at < len(tokens):
            raise PromQlError(f"{expression}: what is {tokens[parser.at][1]!r} there?")
        return found

    def select(self, scrape: Scrape, name: str, matchers: list[tuple[str, str, str]]) -> Vector:
        """The series of a name whose labels match; each label must be one that the metric has."""
        self.metrics.add(name)
        series = self.now.get(name)
        if series is None:
            raise PromQlError(f"there is no metric {name}")
        known = {label for labels in series for label, _ in labels}
        for label, _, _ in matchers:
            if label not in known:
                raise PromQlError(f"{name} has no label {label}, but {sorted(known)}")
        return {labels: value for labels, value in scrape.get(name, {}).items() if _matches(dict(labels), matchers)}


def _matches(labels: dict[str, str], matchers: list[tuple[str, str, str]]) -> bool:
    tests: dict[str, Callable[[str, str], bool]] = {
        "=": operator.eq,
        "!=": operator.ne,
        "=~": lambda found, wanted: re.fullmatch(wanted, found) is not None,
        "!~": lambda found, wanted: re.fullmatch(wanted, found) is None,
    }
    return all(tests[sign](labels.get(label, ""), value) for label, sign, value in matchers)


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    at = 0
    text = text.strip()
    while at < len(text):
        found = TOKEN.match(text, at)
        if found is None or found.lastgroup is None:
            raise PromQlError(f"{text}: {text[at:]!r} is no PromQL that is known here")
        yield found.lastgroup, found[found.lastgroup]
        at = found.end()


class _Parser:
    """Parses and evaluates in one go."""

    def __init__(self, of: Evaluator, tokens: list[tuple[str, str]]) -> None:
        self._of = of
        self._tokens = tokens
        self.at = 0

    def _peek(self) -> tuple[str, str]:
        return self._tokens[self.at] if self.at < len(self._tokens) else ("end", "")

    def _take(self, *wanted: str) -> str:
        _, text = self._peek()
        if wanted and text not in wanted:
            raise PromQlError(f"{text!r} where one of {wanted} should be")
        self.at += 1
        return text

    def binary(self, level: int) -> Vector | float:
        if level == len(LEVELS):
            return self._unary()
        left = self.binary(level + 1)
        while self._peek()[1] in LEVELS[level]:
            sign = self._take()
            on = self._matching()
            left = _combined(sign, left, self.binary(level + 1), on)
        return left

    def _matching(self) -> tuple[str, ...] | None:
        """``on (labels)``, where two vectors meet by some labels."""
        if self._peek()[1] != "on":
            return None
        self._take()
        return self._names()

    def _names(self) -> tuple[str, ...]:
        self._take("(")
        names = []
        while self._peek()[1] != ")":
            names.append(self._take())
            if self._peek()[1] == ",":
                self._take()
        self._take(")")
        return tuple(names)

    def _unary(self) -> Vector | float:
        kind, text = self._peek()
        if text == "-":
            self._take()
            return _combined("*", -1.0, self._unary(), None)
        if text == "(":
            self._take()
            found = self.binary(0)
            self._take(")")
            return found
        if kind == "number":
            return float(self._take())
        if kind != "name":
            raise PromQlError(f"{text!r} begins nothing")
        name = self._take()
        if name in AGGREGATES:
            return self._aggregate(name)
        if name in ("topk", "bottomk"):
            return self._top(name)
        if self._peek()[1] == "(":
            return self._call(name)
        return self._of.select(self._of.now, name, self._matchers())

    def _matchers(self) -> list[tuple[str, str, str]]:
        matchers = []
        if self._peek()[1] == "{":
            self._take()
            while self._peek()[1] != "}":
                label, sign, value = self._take(), self._take("=", "!=", "=~", "!~"), self._take()
                matchers.append((label, sign, value[1:-1].replace(r"\"", '"').replace("\\\\", "\\")))
                if self._peek()[1] == ",":
                    self._take()
            self._take("}")
        return matchers

    def _aggregate(self, name: str) -> Vector | float:
        by = self._by()
        self._take("(")
        inner = _vector(self.binary(0))
        self._take(")")
        by = self._by() if by is None else by
        self._check_labels(by or (), inner)
        groups: dict[Labels, list[float]] = {}
        for labels, value in inner.items():
            groups.setdefault(_only(labels, by or ()), []).append(value)
        return {labels: float(AGGREGATES[name](values)) for labels, values in groups.items()}

    def _by(self) -> tuple[str, ...] | None:
        if self._peek()[1] != "by":
            return None
        self._take()
        return self._names()

    @staticmethod
    def _check_labels(names: tuple[str, ...], series: Vector) -> None:
        known = {label for labels in series for label, _ in labels}
        for name in names if series else ():
            if name not in known:
                raise PromQlError(f"there is no label {name} to go by, but {sorted(known)}")

    def _top(self, name: str) -> Vector | float:
        self._take("(")
        count = int(float(self._take()))
        self._take(",")
        inner = _vector(self.binary(0))
        self._take(")")
        ordered = sorted(inner.items(), key=lambda item: item[1], reverse=name == "topk")
        return dict(ordered[:count])

    def _call(self, name: str) -> Vector | float:
        self._take("(")
        if name == "time":
            self._take(")")
            return 2e9
        if name == "histogram_quantile":
            share = float(self._take())
            self._take(",")
            buckets = _vector(self.binary(0))
            self._take(")")
            return _quantile(share, buckets)
        if name in RANGES:
            return self._range(name)
        if name in ("clamp_min", "clamp_max"):
            inner = _vector(self.binary(0))
            self._take(",")
            bound = float(self._take())
            self._take(")")
            limit = max if name == "clamp_min" else min
            return {labels: limit(value, bound) for labels, value in inner.items()}
        raise PromQlError(f"the function {name} is none of those known here")

    def _range(self, function: str) -> Vector:
        name, matchers = self._take(), self._matchers()
        kind, _ = self._peek()
        if kind != "range":
            raise PromQlError(f"{function}({name}) needs a range")
        self._take()
        self._take(")")
        before, now = self._of.select(self._of.before, name, matchers), self._of.select(self._of.now, name, matchers)
        if function in ("rate", "increase") and not name.endswith(("_total", "_bucket", "_sum", "_count")):
            raise PromQlError(f"{function} is for counters, and {name} is none")
        found = {}
        for labels, value in now.items():
            earlier = before.get(labels, 0.0 if function in ("rate", "increase") else value)
            grown = value - earlier if value >= earlier else value
            found[labels] = {
                "rate": grown / self._of.seconds,
                "increase": grown,
                "delta": value - earlier,
                "changes": float(value != earlier),
                "avg_over_time": (value + earlier) / 2,
                "max_over_time": max(value, earlier),
                "min_over_time": min(value, earlier),
            }[function]
        return found


def _vector(found: Vector | float) -> Vector:
    if isinstance(found, float):
        raise PromQlError("a number where series should be")
    return found


def _only(labels: Labels, names: tuple[str, ...]) -> Labels:
    return frozenset(each for each in labels if each[0] in names)


def _combined(sign: str, left: Vector | float, right: Vector | float, on: tuple[str, ...] | None) -> Vector | float:
    if isinstance(left, float) and isinstance(right, float):
        return float(SIGNS[sign](left, right))
    if isinstance(left, float) or isinstance(right, float):
        series = _vector(right if isinstance(left, float) else left)
        found = {}
        for labels, value in series.items():
            a, b = (left, value) if isinstance(left, float) else (value, right)
            result = SIGNS[sign](a, b)
            if sign not in COMPARE:
                found[labels] = float(result)
            elif result:
                found[labels] = value
        return found

    def key(labels: Labels) -> Labels:
        return labels if on is None else _only(labels, on)

    others = {key(labels): value for labels, value in right.items()}
    if sign == "or":
        mine = {key(labels) for labels in left}
        return left | {labels: value for labels, value in right.items() if key(labels) not in mine}
    met = {labels: value for labels, value in left.items() if (key(labels) in others) is (sign != "unless")}
    if sign in ("and", "unless"):
        return met
    if left and right and not met:
        raise PromQlError(f"nothing on the left of {sign} has the labels of anything on its right")
    results = {labels: SIGNS[sign](value, others[key(labels)]) for labels, value in met.items()}
    if sign in COMPARE:
        return {labels: met[labels] for labels, result in results.items() if result}
    return {key(labels): float(result) for labels, result in results.items()}


def _quantile(share: float, buckets: Vector) -> Vector:
    groups: dict[Labels, list[tuple[float, float]]] = {}
    for labels, value in buckets.items():
        named = dict(labels)
        if "le" not in named:
            raise PromQlError("histogram_quantile goes by the label le, which an aggregation has dropped")
        bound = float(named.pop("le"))
        groups.setdefault(frozenset(named.items()), []).append((bound, value))
    found = {}
    for labels, counts in groups.items():
        counts.sort()
        wanted, lower, below = share * counts[-1][1], 0.0, 0.0
        found[labels] = math.nan
        for bound, count in counts:
            if counts[-1][1] and count >= wanted:
                inside = count - below
                whole = lower if math.isinf(bound) else bound
                found[labels] = lower + (whole - lower) * ((wanted - below) / inside if inside else 1.0)
                break
            lower, below = bound, count
    return found
