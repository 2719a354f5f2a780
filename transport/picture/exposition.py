"""Figures as Prometheus reads them: its text format 0.0.4, and OpenMetrics 1.0. Lines are made here; who asks for what is elsewhere.

Written by us, and not by Prometheus's client: that makes an object of each figure and the text of all of them in one piece, on the loop. It
takes twelve times as long.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from actors.queue.structures.histogram import Histogram

COUNTER: Final = "counter"
GAUGE: Final = "gauge"
HISTOGRAM: Final = "histogram"
TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
TOTAL: Final = "_total"
LABEL_ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})

Label = tuple[str, str]
Value = int | float


class Family(NamedTuple):
    """What some figures have in common.

    Attributes:
        name: of each; that of a counter ends in ``_total``.
        kind: `COUNTER`, `GAUGE` or `HISTOGRAM`.
        text: what it means, in one line.
    """

    name: str
    kind: str
    text: str


class Exposition:
    """Makes the lines of one answer.

    Args:
        openmetrics: whether it is OpenMetrics, else the text format.
    """

    def __init__(self, *, openmetrics: bool = False) -> None:
        self._openmetrics = openmetrics

    @property
    def content_type(self) -> str:
        """Of the whole answer."""
        return OPENMETRICS if self._openmetrics else TEXT

    @property
    def end(self) -> str:
        """What comes behind the last line."""
        return "# EOF\n" if self._openmetrics else ""

    def head(self, family: Family) -> str:
        """What comes before the samples of a family, which follow at once and all together."""
        # OpenMetrics has a counter's name without its suffix here.
        name = family.name.removesuffix(TOTAL) if self._openmetrics else family.name
        text = family.text.replace("\\", r"\\").replace("\n", r"\n")
        if self._openmetrics:
            text = text.replace('"', r"\"")
        return f"# HELP {name} {text}\n# TYPE {name} {family.kind}\n"

    def family(self, family: Family, samples: Iterable[tuple[Sequence[Label], Value]]) -> str:
        """A family with all its samples."""
        return self.head(family) + self.samples(family, samples)

    def samples(self, family: Family, samples: Iterable[tuple[Sequence[Label], Value]]) -> str:
        """Some of a family's samples, behind its head."""
        return "".join([f"{family.name}{labelled(labels)} {written(value)}\n" for labels, value in samples])

    def single(self, family: Family, value: Value) -> str:
        """A family of one sample without labels."""
        return self.family(family, [((), value)])

    def histogram(self, family: Family, histogram: Histogram) -> str:
        """A family that is one histogram."""
        name, counts = family.name, list(histogram.counts)
        lines, reached = [], 0
        for bound, count in zip((*histogram.bounds, inf), counts, strict=True):
            reached += count
            lines.append(f'{name}_bucket{{le="{written(float(bound))}"}} {reached}\n')
        lines.append(f"{name}_sum {written(histogram.sum)}\n{name}_count {reached}\n")
        return self.head(family) + "".join(lines)


def labelled(labels: Sequence[Label]) -> str:
    """Labels in their braces; nothing where there are none."""
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{escaped(value)}"' for name, value in labels) + "}"


def escaped(value: str) -> str:
    """A label's value between its quotes. What UTF-8 has no bytes for is replaced: the text is UTF-8 throughout."""
    return value.translate(LABEL_ESCAPES).encode("utf-8", "replace").decode()


def written(value: Value) -> str:
    """A figure."""
    if value == inf:
        return "+Inf"
    return str(int(value)) if isinstance(value, int) else repr(value)


def openmetrics_wanted(accept: str) -> bool:
    """Whether an ``Accept`` header (RFC 9110, 12.5.1) prefers OpenMetrics; who says nothing, or takes both alike, gets the text format."""
    best = {"application/openmetrics-text": 0.0, "text/plain": 0.0}
    for each in accept.split(","):
        kind, *parameters = (part.strip().lower() for part in each.split(";"))
        if kind in best and _version_known(kind, parameters):
            best[kind] = max(best[kind], _quality(parameters))
    return best["application/openmetrics-text"] > best["text/plain"]


def _version_known(kind: str, parameters: Sequence[str]) -> bool:
    versions = [each.partition("=")[2].strip('"') for each in parameters if each.startswith("version=")]
    return kind == "text/plain" or not versions or versions[0] in ("0.0.1", "1.0.0")


def _quality(parameters: Sequence[str]) -> float:
    for each in parameters:
        if each.startswith("q="):
            try:
                return min(1.0, max(0.0, float(each[2:])))
            except ValueError:
                return 0.0
    return 1.0
