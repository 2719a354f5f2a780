"""The picture that the demo leaves behind: rates, backlog, demand and memory over time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from examples.demo.history import History

INCHES = (11.0, 9.0)
DOTS_PER_INCH = 110
SENDER, QUERY, QUEUE, MEMORY = "#1f6fb4", "#d1661c", "#4a7a3a", "#6b4c9a"
QUEUE_HEADROOM = 1.5
"""Room for the legend above a queue that is full most of the time."""
MEMORY_HEADROOM = 1.6
"""The memory's axis begins at zero and ends well above it: cut to the values, a flat line would look like mountains."""


def draw(history: History, path: Path) -> None:
    """Write the picture to ``path``, as PNG or SVG by its suffix."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415 - takes a second, and only the end needs it
    from matplotlib.figure import Figure  # noqa: PLC0415 - as above

    figure = Figure(figsize=INCHES, dpi=DOTS_PER_INCH, layout="constrained")
    FigureCanvasAgg(figure)
    rates, queue, demand, memory = figure.subplots(4, sharex=True, height_ratios=(3, 2, 2, 1.5))
    figure.suptitle("Demand at work: the sender goes at the pace of the query", fontweight="bold")

    samples = list(history.samples)
    times = [sample.at for sample in samples]
    moments = history.rates()
    rates.plot(times, [rate[1] for rate in moments], color=SENDER, label="sender")
    rates.plot(times, [rate[2] for rate in moments], color=QUERY, label="query", linestyle="--")
    _name(rates, "lines a second")
    queue.stackplot(
        times,
        [sample.reserved for sample in samples],
        [sample.backlog for sample in samples],
        labels=("reserved by the query", "backlog"),
        colors=(QUEUE + "cc", QUEUE + "66"),
    )
    queue.set_ylim(top=QUEUE_HEADROOM * history.limit)
    queue.axhline(history.limit, color="black", linestyle=":", linewidth=1, label="the queue's limit")
    _name(queue, "lines in the queue")
    demand.plot(
        times,
        [sample.demand for sample in samples],
        color=SENDER,
        label="granted to the sender and not used yet; at 0 it waits",
    )
    _name(demand, "demand, lines")
    megabytes = [sample.rss / 1e6 for sample in samples]
    memory.plot(times, megabytes, color=MEMORY, label="the broker's resident memory")
    _name(memory, "MB")
    memory.set_ylim(0, MEMORY_HEADROOM * max(megabytes, default=1.0))
    memory.set_xlabel("seconds")
    for axes in (rates, queue, demand, memory):
        _shade(axes, history)
    _label(rates, history)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def _name(axes: Any, label: str) -> None:
    axes.set_ylabel(label)
    axes.yaxis.set_major_formatter(lambda value, _position: f"{value:,.0f}")
    axes.set_ylim(bottom=0)
    axes.margins(x=0)
    axes.grid(alpha=0.3)
    axes.legend(loc="best", fontsize="small")


def _shade(axes: Any, history: History) -> None:
    """Mark the time in which the query was slow."""
    if span := history.slow_span():
        axes.axvspan(*span, color="#cc3333", alpha=0.12, linewidth=0)


def _label(axes: Any, history: History) -> None:
    """Say what the shade means, at the top."""
    if span := history.slow_span():
        axes.text(
            *(sum(span) / 2, 0.96, "query made slow"),
            transform=axes.get_xaxis_transform(),
            ha="center",
            va="top",
            fontsize="small",
        )
