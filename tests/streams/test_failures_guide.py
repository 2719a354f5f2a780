"""The programs in docs/failures.md run, and print what their comments say; what it says of restarts holds."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections import Counter
from pathlib import Path

import pytest

from streams import RestartSettings, RestartSource, Sink, Source
from streams.testkit import run_in_virtual_time

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "failures.md"
PROGRAMS = re.findall(r"```python\n(.*?)```", GUIDE.read_text("utf-8"), re.DOTALL)


@pytest.mark.parametrize("program", PROGRAMS, ids=range(len(PROGRAMS)))
def test_a_program_of_the_guide_prints_what_it_says(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    promised = re.findall(r"print\(.*\)  # (.*)", program)
    assert promised
    exec(compile(program, str(GUIDE), "exec"), {"__name__": "guide"})
    printed = capsys.readouterr().out.splitlines()
    assert printed == promised


def seconds_until_given_up(fails_after: float, within: float | None) -> float:
    """How long a source that fails after some seconds is begun again, with 4 restarts at most; 1000 s if it is not given up."""
    settings = RestartSettings(0.1, 30.0, 0.0, max_restarts=4, max_restarts_within=within)
    broken = Source.tick(fails_after, fails_after).map(fail)

    async def main() -> float:
        loop = asyncio.get_running_loop()
        began = loop.time()
        source = RestartSource.on_failures_with_backoff(settings, lambda: broken)
        with contextlib.suppress(OSError):
            await source.take_within(1000).to(Sink.ignore()).run()
        return loop.time() - began

    return run_in_virtual_time(main())


def fail(_: int) -> int:
    raise OSError("broken")


def test_parts_that_take_a_while_to_fail_are_given_up_where_the_time_says_that_they_do() -> None:
    pauses = 0.1 + 0.2 + 0.4 + 0.8
    assert seconds_until_given_up(5.0, None) == pytest.approx(1000)
    assert seconds_until_given_up(5.0, 60.0) == pytest.approx(5 * 5.0 + pauses)
    assert seconds_until_given_up(0.05, None) == pytest.approx(5 * 0.05 + pauses)


@pytest.mark.parametrize("at_once", [1, 3])
def test_calls_that_are_tried_again_can_be_several_at_a_time(at_once: int) -> None:
    settings = RestartSettings(1.0, 1.0, 0.0, max_restarts=5, max_restarts_within=60)
    tries: Counter[str] = Counter()
    under_way: set[str] = set()
    most = 0

    async def upload(name: str) -> str:
        nonlocal most
        under_way.add(name)
        most = max(most, len(under_way))
        tries[name] += 1
        if tries[name] < 3:
            raise ConnectionResetError(name)
        under_way.remove(name)
        return name

    def until_it_works(name: str) -> Source[str]:
        return RestartSource.on_failures_with_backoff(settings, lambda: Source.future(lambda: upload(name)))

    async def main() -> list[str]:
        return await Source.of("a", "b", "c").flat_map_merge(at_once, until_it_works).to(Sink.collect()).run()

    assert sorted(run_in_virtual_time(main())) == ["a", "b", "c"]
    assert set(tries.values()) == {3}
    assert most == at_once
