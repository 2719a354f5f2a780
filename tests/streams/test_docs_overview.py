"""docs/streams.md: its programs run and print what they say, and the pages it sends to are there."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from streams import Running, Sink, Source
from streams.publishers.iterable import EMIT_BUDGET
from streams.subscribers.iterate import ITERATION_PREFETCH
from streams.testkit import DEFAULT_TIMEOUT, TestSink, TestSource
from tests.streams.pages import DOCS, MOST_WORDS, broken_links, codes, python_blocks, tables

PAGE = DOCS / "streams.md"
TEXT = PAGE.read_text("utf-8")
WORDS = " ".join(TEXT.split())
FIRST, *PROGRAMS = python_blocks(TEXT)


def run_like_pytest(program: str) -> None:
    """Runs a program, and the tests that it has."""
    names: dict[str, Any] = {"__name__": "overview"}
    exec(compile(program, str(PAGE), "exec"), names)
    for name, found in names.items():
        if name.startswith("test_"):
            assert found() is None, "pytest would not await it"


@pytest.mark.parametrize("program", PROGRAMS, ids=range(len(PROGRAMS)))
def test_a_program_of_the_overview_prints_what_it_says(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    run_like_pytest(program)
    assert capsys.readouterr().out.splitlines() == re.findall(r"print\(.*\)  # (.*)", program)


def test_three_programs_print_something_and_one_is_a_test_with_expectations() -> None:
    assert sum("print(" in program for program in PROGRAMS) == 3
    assert sum("expect_next(" in program for program in PROGRAMS) == 1


def test_the_test_that_the_overview_shows_fails_where_the_delay_is_shorter() -> None:
    program = next(program for program in PROGRAMS if ".delay(60)" in program)
    with pytest.raises(AssertionError, match="expected no signal, got next 7"):
        run_like_pytest(program.replace(".delay(60)", ".delay(50)"))


def test_the_first_program_counts_the_groups_that_were_stored(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "access.log").write_bytes(b"".join(b"GET /%d %d \n" % (n, 500 - n % 2) for n in range(500)))
    monkeypatch.chdir(tmp_path)
    stored: list[list[bytes]] = []

    async def look_up(line: bytes) -> bytes:
        return line.split()[1]

    names: dict[str, Any] = {"look_up": look_up, "store": stored.append}
    body = "".join(f"    {line}\n" for line in FIRST.splitlines())
    exec(f"async def main():\n{body}    return total\n", names)
    assert asyncio.run(names["main"]()) == len(stored)
    assert [line for group in stored for line in group] == [b"/%d" % n for n in range(0, 500, 2)]
    assert all(len(group) <= 100 for group in stored)


def test_the_overview_links_to_nothing_that_is_not_there() -> None:
    assert broken_links(PAGE) == []


def test_a_link_to_nothing_is_found(tmp_path: Any) -> None:
    (tmp_path / "there.md").touch()
    page = tmp_path / "page.md"
    page.write_text("[a](there.md) [b](not-there.md#part) [c](https://example.org/x)")
    assert broken_links(page) == ["not-there.md"]


def test_the_overview_sends_to_every_page_about_streams() -> None:
    others = {
        "access",
        "cli",
        "console",
        "configuration",
        "durability",
        "exchanges",
        "metrics",
        "operations",
        "protocol",
        "security",
        "service",
        "smq",
        "http",
    }
    others |= {"spark", "spark-exactly-once", "streams", "arrow", "backups", "coming-from-kafka", "consumer", "start"}
    others |= {"coming-from-rabbitmq", "amqp", "celery", "dramatiq", "schedules", "groups"}
    others |= {
        "deduplication",
        "delayed-exchanges",
        "delays",
        "cluster",
        "cluster-damage",
        "cluster-loss",
        "cluster-lost",
        "cluster-members",
        "cluster-try",
        "cluster-wire",
        "clients-of-a-cluster",
    }
    others |= {"testing", "tracing", "tour", "queue", "ledger", "sender", "receiver", "delivery", "administration"}
    about_streams = {path.name for path in DOCS.glob("*.md") if path.stem not in others}
    linked = set(re.findall(r"\]\(([\w-]+\.md)\)", TEXT))
    # The mutants' table is what verification.md goes on with.
    assert about_streams - linked <= {"verification-mutants.md"}


def test_what_the_overview_says_probes_can_do_they_can() -> None:
    table = tables(TEXT)[-1]
    probes = {"source.probe": TestSource[int]().probe, "sink": TestSink[int]()}
    assert {codes(row[0])[0] for row in table[1:]} == set(probes)
    for probe, *methods in table[1:]:
        for method in codes(" ".join(methods)):
            assert callable(getattr(probes[codes(probe)[0]], method)), method


def test_the_overviews_numbers_are_those_in_force() -> None:
    assert f"every {EMIT_BUDGET} elements" in WORDS
    assert f"({ITERATION_PREFETCH} elements are asked for ahead" in WORDS
    assert f"within {DEFAULT_TIMEOUT:g} s of the loop's time" in WORDS


def test_the_handle_has_what_the_overview_says() -> None:
    async def handle() -> Running[None]:
        running = Source.never().to(Sink.ignore()).run()
        running.abandon()
        return running

    running = asyncio.run(handle())
    assert running.done()
    for name in ("cancel", "abandon", "done", "value"):
        assert hasattr(running, name)
        assert re.search(rf"[`.]{name}\b", TEXT)


def test_the_overview_can_be_read_in_one_sitting() -> None:
    assert len(TEXT.split()) <= MOST_WORDS
