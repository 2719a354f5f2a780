"""The demo's parts without Spark: processes, history, view, picture, report, and how it ends."""

from __future__ import annotations

import asyncio
import importlib.util
import io
import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from examples.demo import __main__ as demo_main
from examples.demo.counting import Counts
from examples.demo.history import History, Sample
from examples.demo.picture import draw
from examples.demo.processes import Child, Children, ProcessFailedError
from examples.demo.report import print_counts, print_phases, printable
from examples.demo.sending import TELL_EVERY, told
from examples.demo.view import Dashboard, Lines, sparkline, view_for
from transport import Message

PNG = b"\x89PNG\r\n\x1a\n"


def sample(second: int, sent: int, counted: int) -> Sample:
    return Sample(float(second), sent, counted, sent - counted, 10, 5, 50_000_000 + second)


def history_of(samples: Iterable[Sample]) -> History:
    history = History(total=1000, limit=300)
    history.samples.extend(samples)
    return history


@pytest.fixture
def history() -> History:
    """100 a second for 10 seconds, 20 a second for 10, 100 again; the query begins in the second second."""
    rates = [0, *[100] * 10, *[20] * 10, *[100] * 5]
    totals = [sum(rates[: second + 1]) for second in range(len(rates))]
    made = history_of(sample(second, total, total if second > 1 else 0) for second, total in enumerate(totals))
    made.slow_from, made.slow_until, made.sent_all = 10.0, 20.0, 25.0
    made.lines = 500
    return made


def test_a_sender_that_works_for_long_is_not_silent(capsys: pytest.CaptureFixture[str]) -> None:
    messages = [Message(b"line")] * (2 * TELL_EVERY + 1)
    assert list(told(messages)) == messages
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [
        {"sending": TELL_EVERY},
        {"sending": 2 * TELL_EVERY},
    ]


def output() -> Console:
    return Console(file=io.StringIO(), width=120)


def text_of(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_each_phase_has_the_rates_of_its_own_time(history: History) -> None:
    phases = history.phases()
    assert [phase and (phase.seconds, phase.sender_rate, phase.query_rate) for phase in phases.values()] == [
        (8.0, 100.0, 100.0),
        (10.0, 20.0, 20.0),
        (5.0, 100.0, 100.0),
    ]
    slow = phases["slow"]
    assert slow is not None
    assert (slow.least_rss, slow.most_rss) == (50_000_010, 50_000_020)


def test_a_phase_that_was_not_seen_has_no_figures() -> None:
    assert set(history_of([sample(0, 0, 0)]).phases().values()) == {None}
    assert history_of([]).now() is None


def test_the_rate_of_the_moment_is_that_of_the_last_samples(history: History) -> None:
    now = history.now()
    assert now is not None
    assert now.sender_rate == 100.0
    assert history.rates()[0] == (0.0, 0.0, 0.0)
    assert history.rates()[20] == (20.0, 20.0, 20.0)
    assert len(history.rates()) == len(history.samples)


def test_a_sample_is_taken_from_the_statistics_of_the_queue() -> None:
    facts = {"total_in": 9, "total_acknowledged": 4, "ready": 3, "reserved": 2, "capacity_granted": 1}
    statistics = {"broker": {"rss_bytes": 7}, "queues": [{"name": "other"}, {"name": "lines", **facts}]}
    assert Sample.of(statistics, "lines", 1.5) == Sample(1.5, 9, 4, 3, 2, 1, 7)
    assert Sample.of(statistics, "absent", 1.5) == Sample(1.5, rss=7)


def test_off_a_terminal_the_view_is_a_line_for_every_second_sample(history: History) -> None:
    console = output()
    view = view_for(console)
    assert isinstance(view, Lines)
    view.open()
    for _ in range(6):
        view.show(history)
    view.close()
    lines = text_of(console).splitlines()
    assert len(lines) == 3
    shown = " ".join(lines[0].split())
    assert shown == "25.0 s 50% sender 100/s query 100/s backlog 0 demand 5 broker 50.0 MB the query counts"


def test_on_a_terminal_the_view_shows_the_same_figures(history: History) -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=120, color_system=None)
    view = view_for(console)
    assert isinstance(view, Dashboard)
    view.open()
    history.slow_until = None
    view.show(history)
    view.close()
    shown = text_of(console)
    for part in ("the query is SLOW", "100 lines/s", "of 300", "50.0 MB", "500 of 1,000 lines"):
        assert part in shown


def test_a_sparkline_goes_from_nothing_to_its_top() -> None:
    assert sparkline([0, 4, 8], 8.0).plain == " ▄█"
    assert sparkline([0, 16], 8.0).plain == " █"
    assert sparkline([0, 0], 0.0).plain == "  "
    assert sparkline([], 0.0).plain == ""


def test_the_picture_is_drawn_whatever_was_seen(history: History, tmp_path: Path) -> None:
    for number, seen in enumerate((history, history_of([]), history_of([sample(0, 0, 0)]))):
        path = tmp_path / "new" / f"{number}.png"
        draw(seen, path)
        assert path.read_bytes().startswith(PNG)


def test_the_summary_names_the_rates_of_the_three_phases(history: History) -> None:
    console = output()
    print_phases(console, history, slow_rate=20.0)
    rows = [line.split("│")[1:4] for line in text_of(console).splitlines() if line.startswith("│")]
    assert [[cell.strip() for cell in row] for row in rows] == [
        ["before", "8.0", "100"],
        ["slow query", "10.0", "20"],
        ["after", "5.0", "100"],
    ]


def test_a_name_of_any_bytes_can_be_printed() -> None:
    console = output()
    print_counts(console, Counts(Counter({"caf\udce9": 3}), Counter()), "title")
    assert printable("caf\udce9") == "caf\\udce9"
    assert "caf\\udce9" in text_of(console)


async def told_by(child: Child) -> list[dict[str, Any]]:
    return [told async for told in child.told()]


async def with_child(module: str, *arguments: str) -> list[dict[str, Any]]:
    async with Children() as children:
        return await told_by(await children.start("helper", module, *arguments))


def test_what_a_process_tells_is_heard(tmp_path: Path) -> None:
    told = tmp_path / "told.json"
    told.write_text('{"lines": 1}')
    assert asyncio.run(with_child("json.tool", "--compact", str(told))) == [{"lines": 1}]


def test_a_process_that_fails_is_reported_with_the_end_of_its_stderr() -> None:
    with pytest.raises(ProcessFailedError) as failed:
        asyncio.run(with_child("json.tool", "--no-such-option"))
    report = str(failed.value)
    assert report.startswith("the helper ended with exit status 2")
    assert "unrecognized arguments: --no-such-option" in report


def test_a_process_that_does_not_come_up_is_reported() -> None:
    async def start() -> None:
        async with Children() as children:
            broker = await children.start("broker", "transport.cli", "broker", "--send-address", "nonsense")
            await broker.first_match("sending")

    with pytest.raises(ProcessFailedError, match=r"the broker did not say 'sending'[^!]*--send-address"):
        asyncio.run(start())


def test_leaving_ends_what_was_started() -> None:
    async def start() -> Child:
        async with Children() as children:
            broker = await children.start(
                "broker", "transport.cli", "broker", "--send-address", "127.0.0.1:0", "--receive-address", "127.0.0.1:0"
            )
            await broker.first_match("sending")
        return broker

    async def check_code() -> None:
        broker = await start()
        with pytest.raises(ProcessFailedError, match="the broker ended early, with exit status 0"):
            await broker.until_it_fails()

    asyncio.run(check_code())


class FakeDemo:
    """Gives a count that the test chooses, for the one that Spark makes."""

    counts = Counts()

    def __init__(self, _text: object, total: int, _view: object) -> None:
        self.history = History(total, 10)
        self.slow_rate = 1.0

    async def run(self) -> Counts:
        return self.counts


@pytest.fixture
def unsparked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The demo without processes, in a folder of its own; a file of two lines as the input."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo_main, "Demo", FakeDemo)
    monkeypatch.setattr(demo_main, "why_no_spark", lambda: None)
    path = tmp_path / "two.py"
    path.write_text("import os\n\n")
    return path


@pytest.mark.parametrize(
    ("lines", "imports", "status", "said"),
    [
        (2, 1, 0, "equal: all 1 packages and 1 modules, 2 lines"),
        (3, 1, 1, "lines of two: the query counted 3, the files have 2"),
        (2, 0, 1, "imports of os: the query counted 0, the files have 1"),
    ],
)
def test_the_exit_status_says_whether_the_counts_are_equal(
    unsparked: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    lines: int,
    imports: int,
    status: int,
    said: str,
) -> None:
    monkeypatch.setattr(FakeDemo, "counts", Counts(Counter(two=lines), Counter(os=imports)))
    assert demo_main.main([str(unsparked)]) == status
    assert said in capsys.readouterr().out
    assert Path("demo-output/demo.png").read_bytes().startswith(PNG)


def test_without_a_java_it_says_so_and_exits_with_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ensure_java = tmp_path / "scripts" / "ensure-java"
    ensure_java.parent.mkdir()
    ensure_java.write_text("#!/bin/sh\necho 'penstock: Spark needs Java 17 or newer and there is none' >&2\nexit 1\n")
    ensure_java.chmod(0o755)
    monkeypatch.setattr(demo_main, "ROOT", tmp_path)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    assert demo_main.main([str(ensure_java)]) == 2
    said = capsys.readouterr().err
    assert said == "penstock demo: the demo runs a Spark query: Spark needs Java 17 or newer and there is none\n"


def test_an_input_that_is_absent_or_empty_is_an_error_of_use(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert demo_main.main([str(tmp_path / "absent")]) == 2
    assert demo_main.main([str(tmp_path)]) == 2
    absent, empty = capsys.readouterr().err.splitlines()
    assert "absent" in absent
    assert empty == f"penstock demo: there is no line of text in {tmp_path}"
