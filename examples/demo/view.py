"""The live view: a small dashboard on a terminal, a line a second elsewhere."""

from __future__ import annotations

from typing import Protocol

from rich.console import Console, Group, JustifyMethod
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from examples.demo.history import History

BARS = " ▁▂▃▄▅▆▇█"
BAR_COUNT = 48
"""Samples that a sparkline shows: the last 24 seconds."""
SAMPLES_A_LINE = 2
"""Without a terminal every second sample is printed, one a second."""
REFRESHES_A_SECOND = 4


class View(Protocol):
    """Shows a run while it lasts."""

    def say(self, text: str) -> None:
        """Something to know before the run begins."""

    def open(self) -> None:
        """The run begins."""

    def show(self, history: History) -> None:
        """There is a new sample."""

    def close(self) -> None:
        """The run is over."""


def view_for(console: Console) -> View:
    """The view that suits where the output goes."""
    return Dashboard(console) if console.is_terminal else Lines(console)


def state(history: History) -> str:
    """What the demo is at, in a few words."""
    if not history.lines:
        asked = history.samples and history.samples[-1].reserved
        if asked:
            return "Spark works on the first batch"
        return "Spark starts, and asks for nothing yet; the broker asks until its queue is full"
    if history.is_slow:
        return "the query is SLOW"
    if history.lines < history.total:
        return "the query counts"
    return "finishing"


class Lines:
    """A line for every second sample."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._samples = 0

    def say(self, text: str) -> None:
        """Print it."""
        self._console.print(text, soft_wrap=True, highlight=False)

    def open(self) -> None:
        """Nothing to prepare."""

    def show(self, history: History) -> None:
        """Print one in two."""
        self._samples += 1
        now = history.now()
        if now is None or self._samples % SAMPLES_A_LINE:
            return
        sample = history.samples[-1]
        self._console.print(
            f"{sample.at:5.1f} s  {history.lines / history.total:4.0%}  sender {now.sender_rate:7,.0f}/s  "
            f"query {now.query_rate:7,.0f}/s  backlog {sample.backlog:7,}  demand {sample.demand:7,}  "
            f"broker {sample.rss / 1e6:5.1f} MB  {state(history)}",
            soft_wrap=True,
            highlight=False,
        )

    def close(self) -> None:
        """Nothing to put away."""


class Dashboard:
    """Figures, their recent past as bars, and how far the counting is."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, refresh_per_second=REFRESHES_A_SECOND)

    def say(self, text: str) -> None:
        """Print it above the picture."""
        self._console.print(text, soft_wrap=True, highlight=False)

    def open(self) -> None:
        """Take the terminal."""
        self._live.start()

    def show(self, history: History) -> None:
        """Draw anew."""
        self._live.update(dashboard(history))

    def close(self) -> None:
        """Leave the last picture and give the terminal back."""
        self._live.stop()


def dashboard(history: History) -> Group:
    """The whole picture."""
    table = Table.grid(padding=(0, 2))
    columns: tuple[JustifyMethod, ...] = ("left", "right", "left")
    for justify in columns:
        table.add_column(justify=justify)
    samples = list(history.samples)[-BAR_COUNT:]
    rates = history.rates()[-BAR_COUNT:]
    top_rate = max((max(sender, query) for _, sender, query in rates), default=0.0)
    for name, unit, values, top in (
        ("sender", "lines/s", [rate[1] for rate in rates], top_rate),
        ("query", "lines/s", [rate[2] for rate in rates], top_rate),
        ("backlog", f"of {history.limit:,}", [sample.backlog for sample in samples], history.limit),
        ("sender's demand", "lines", [sample.demand for sample in samples], history.limit),
        ("broker's memory", "MB", [sample.rss / 1e6 for sample in samples], 0.0),
    ):
        value = values[-1] if values else 0
        table.add_row(name, f"{value:,.1f} {unit}" if unit == "MB" else f"{value:,.0f} {unit}", sparkline(values, top))
    progress = Table.grid(padding=(0, 2))
    progress.add_row(
        ProgressBar(total=history.total, completed=history.lines, width=BAR_COUNT),
        f"{history.lines:,} of {history.total:,} lines",
    )
    return Group(Text(state(history), style="bold red" if history.is_slow else "bold"), table, progress)


def sparkline(values: list[float] | list[int], top: float) -> Text:
    """Bars from zero to ``top``, or to the greatest value there is if that is more."""
    top = max(top, *values) if values else top
    steps = len(BARS) - 1
    return Text("".join(BARS[round(steps * value / top)] if top else BARS[0] for value in values), style="cyan")
