"""docs/coming-from.md: what it says to write here can be written and run, and what it says is written elsewhere is."""

from __future__ import annotations

import asyncio
import inspect
import re
import textwrap
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import aclosing
from typing import Any

import aiostream
import pytest
import reactivex
from reactivex import operators
from reactivex.scheduler import ImmediateScheduler
from reactivex.subject import Subject

import streams
import streams.testkit
from streams import Flow, RestartSettings, RunnableGraph, Running, Sink, Source, Subscriber
from streams.sink import DEFAULT_COLLECT_LIMIT
from streams.stages.buffer import DELAY_SIZE
from streams.stages.fan_in import FAN_IN_PREFETCH
from streams.testkit import settle
from tests.streams.pages import DOCS, MOST_WORDS, broken_links, codes, python_blocks, tables
from transport.errors import ConnectionLostError
from transport.tcp import bind, outgoing_connection

PAGE = DOCS / "coming-from.md"
TEXT = PAGE.read_text("utf-8")
RX, ASYNCIO, AIOSTREAM, AKKA = tables(TEXT)
Names = dict[str, Any]


def pieces(table: list[list[str]], column: int) -> list[str]:
    return [code for row in table[1:] for code in codes(row[column])]


def in_a_coroutine(code: str, names: Names) -> Callable[[], Coroutine[Any, Any, Any]]:
    """A coroutine function that runs ``code`` and returns what it is worth, or what it calls ``running``."""
    try:
        compile(code, "cell", "eval", flags=0)
        body = f"return ({code})"
    except SyntaxError:
        body = f"return ({code})" if code.startswith("await ") else f"running = None\n{code}\nreturn running"
    exec("async def cell():\n" + textwrap.indent(body, "    "), names)
    made: Callable[[], Coroutine[Any, Any, Any]] = names["cell"]
    return made


class PassedOn:
    """The stage of one's own that the tables speak of."""

    def __init__(self, downstream: Subscriber[Any]) -> None:
        self.on_subscribe = downstream.on_subscribe
        self.on_next = downstream.on_next
        self.on_error = downstream.on_error
        self.on_complete = downstream.on_complete


async def numbers() -> AsyncIterator[int]:
    for number in range(3):
        yield number


async def unchanged(x: Any, *_: Any) -> Any:
    return x


def names_here(tmp_path: Any) -> Names:
    (tmp_path / "file").write_bytes(b"1\n2\n")
    return {
        **{name: getattr(streams, name) for name in streams.__all__},
        **{name: getattr(streams.testkit, name) for name in streams.testkit.__all__},
        "aclosing": aclosing,
        "bind": bind,
        "f": lambda x: x,
        "f2": lambda x, y: x + y,
        "flow": Flow.identity(),
        "g": unchanged,
        "items": [1, 2, 3],
        "ops": operators,
        "other": Source.of(10, 20),
        "outgoing_connection": outgoing_connection,
        "p": lambda x: x > 0,
        "path": tmp_path / "file",
        "print": lambda *_: None,
        "settings": RestartSettings(0.1, 1.0, 0.0),
        "sink": Sink.ignore(),
        "source": Source.of(1, 2, 3),
        "stage": PassedOn,
        "x": 1,
        "xs": numbers(),
    }


async def set_going(made: Any) -> None:
    """Runs what a cell has made a little, if it can be run."""
    if isinstance(made, Source):
        made = made.to(Sink.ignore())
    elif isinstance(made, Flow):
        made = Source.of(b"1\n", b"2\n").via(made).to(Sink.ignore())
    elif isinstance(made, Sink):
        made = Source.of(1, 2).to(made)
    if isinstance(made, RunnableGraph):
        made = made.run()
    await settle()
    if isinstance(made, Running):
        made.abandon()
        (ended,) = await asyncio.gather(made, return_exceptions=True)
        assert made.done()
        if not isinstance(ended, asyncio.CancelledError | ConnectionLostError):  # nobody listens at that address
            assert not isinstance(ended, BaseException), ended


@pytest.mark.parametrize("code", [code for table in (RX, ASYNCIO, AIOSTREAM, AKKA) for code in pieces(table, 1)])
def test_what_is_to_be_written_here_runs(code: str, tmp_path: Any) -> None:
    names = names_here(tmp_path)

    async def run() -> Any:
        made = await in_a_coroutine(code, names)()
        await set_going(made)
        return made

    assert asyncio.run(run()) is not None or "await" in code or "async for" in code or code.endswith("cancel()")


@pytest.mark.parametrize(
    "code", ["source.map_asynchronously(4, g)", "source.grouped()", "Source.of(1).to(1)", "source +"]
)
def test_what_cannot_be_written_here_is_found(code: str, tmp_path: Any) -> None:
    with pytest.raises((AttributeError, TypeError, SyntaxError)):
        asyncio.run(in_a_coroutine(code, names_here(tmp_path))())


@pytest.mark.parametrize("code", pieces(RX, 0))
def test_what_is_said_of_rxpy_is_written_there(code: str) -> None:
    names = {
        "Subject": Subject,
        "f": lambda x: x,
        "f2": lambda x, y: x + y,
        "items": [1, 2, 3],
        "ops": operators,
        "p": lambda x: x > 0,
        "rx": reactivex,
        "scheduler": ImmediateScheduler(),
        "xs": reactivex.of(1, 2, 3),
        "ys": reactivex.of(10, 20),
    }
    assert eval(code, names) is not None or code.endswith("dispose()")


@pytest.mark.parametrize("code", pieces(ASYNCIO, 0))
def test_what_is_said_of_asyncio_is_written_there(code: str) -> None:
    async def run() -> None:
        queue: asyncio.Queue[int] = asyncio.Queue()
        queue.put_nowait(1)
        server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        names: Names = {"asyncio": asyncio, "f": lambda x: x, "g": unchanged, "host": host, "items": [1, 2], "p": bool}
        made = await in_a_coroutine(code, names | {"port": port, "queue": queue, "x": 1, "xs": numbers()})()
        if inspect.iscoroutine(made):
            made = await made
        if isinstance(made, asyncio.Task):
            assert await made == 1
        elif hasattr(made, "__next__"):
            assert sorted([await done for done in made]) == [1, 2]
        elif isinstance(made, tuple):
            made[1].close()
            await made[1].wait_closed()
        elif hasattr(made, "__anext__"):
            assert [x async for x in made] == [1, 2]
        server.close()
        await server.wait_closed()

    asyncio.run(run())


@pytest.mark.parametrize("code", pieces(AIOSTREAM, 0))
def test_what_is_said_of_aiostream_is_written_there(code: str) -> None:
    async def run() -> Any:
        xs, ys = aiostream.stream.range(3), aiostream.stream.range(3)
        made = eval(code, {"f": lambda x, *_: x, "g": unchanged, "stream": aiostream.stream, "xs": xs, "ys": ys})
        return callable(getattr(made, "stream", None)) or callable(getattr(made, "__aexit__", None))

    assert asyncio.run(run())


def test_the_program_of_the_page_prints_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    (program,) = python_blocks(TEXT)
    exec(compile(program, str(PAGE), "exec"), {"__name__": "page"})
    promised = re.findall(r"print\(.*\)  # (.*)", program)
    assert capsys.readouterr().out.splitlines() == promised == ["2470", "2470"]


def test_the_pages_numbers_are_those_in_force() -> None:
    assert f"{FAN_IN_PREFETCH} elements of each are taken ahead" in TEXT
    assert f"{DELAY_SIZE} elements wait at most" in TEXT
    assert DEFAULT_COLLECT_LIMIT == 1_000_000
    assert TEXT.count("a million elements") == 2


def test_the_page_links_to_nothing_that_is_not_there() -> None:
    assert broken_links(PAGE) == []


def test_the_page_can_be_read_in_one_sitting() -> None:
    assert len(TEXT.split()) <= MOST_WORDS
