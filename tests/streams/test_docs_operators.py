"""docs/operators names every operator, source and sink with the signature it has, its programs run, and its links lead somewhere."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import streams
from streams import UNBOUNDED, Flow, OverflowStrategy, Sink, Source
from streams.operators.every import Operators
from streams.testkit import TestSink, TestSource, run_in_virtual_time, settle
from tests.streams.catalogue import every
from tests.streams.catalogue.case import FlowCase
from transport import tcp

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = {path.name: path.read_text("utf-8") for path in sorted((DOCS / "operators").glob("*.md"))}
INDEX = PAGES["README.md"]
NEIGHBOURS = [(DOCS / f"{name}.md").read_text("utf-8") for name in ("failures", "graphs", "reactivex", "streams")]

FACTORIES = (
    streams.Source,
    streams.Sink,
    streams.Flow,
    streams.Framing,
    streams.KillSwitches,
    streams.RestartSource,
    streams.RestartFlow,
    streams.RestartSink,
)
METHODS = {
    streams.Source: {"broadcast", "balance", "partition"},
    streams.SubSource: {"merge_substreams", "merge_substreams_with_parallelism", "concat_substreams", "to"},
}
"""Methods that stand for operators and are none."""
BARE_NAMES = (Operators, streams.SubSource, streams.SourceQueue, tcp, tcp.Binding, tcp.IncomingConnection)
"""Whose method a signature without a class is, by page and row."""
USES_THREADS = re.compile(r"map_blocking|Source\.file|Source\.lines|Sink\.file|transport\.tcp")
"""Programs that virtual time is not for: a thread takes none of it, nor does a socket."""
FIRST_REQUEST_ROW = re.compile(r"^\| (`[^|]+`) \| (\d+|all) \| (\d+|all) \|$", re.MULTILINE)
FIRST_REQUESTS = FIRST_REQUEST_ROW.findall(INDEX)
"""The rows of the table of that name: operators, what upstream is asked for at first, and then."""
NOT_ONE_OPERATOR = {"with_supervision", "graph", "rx"}
"""Cases of the catalogue that are made of several, or of what others made."""
PROGRAMS = [
    pytest.param(program, id=f"{page}-{number}")
    for page, text in PAGES.items()
    for number, program in enumerate(re.findall(r"```python\n(.*?)```", text, re.DOTALL))
]


def public(owner: type) -> set[str]:
    return {name for name in dir(owner) if not name.startswith("_")}


def all_operators() -> set[str]:
    names = public(Operators)
    for owner in FACTORIES:
        static = {
            name
            for name in public(owner)
            if isinstance(inspect.getattr_static(owner, name), (staticmethod, classmethod))
        }
        names |= {f"{owner.__name__}.{name}" for name in static}
    for owner, methods in METHODS.items():
        names |= {f"{owner.__name__}.{name}" for name in methods}
    return names


def index_rows() -> list[tuple[str, str]]:
    """Each name of the index, with its link."""
    table = INDEX.split("\n## Index\n")[1].split("\n## ")[0]
    return re.findall(r"^\| `([\w.]+)` \| \[[\w -]+\]\(([^)]+)\) \|", table, re.MULTILINE)


def code_of(text: str) -> set[str]:
    """The identifiers in the code of a page, in the text and between it."""
    blocks = re.findall(r"```\w*\n(.*?)```", text, re.DOTALL)
    spans = re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    return {name for code in (*blocks, *spans) for name in re.findall(r"\w+", code)}


def missing(names: set[str], texts: list[str]) -> set[str]:
    return names - set().union(*map(code_of, texts))


def signatures(text: str) -> list[str]:
    """What the first cells of a page's tables say how to call."""
    cells = re.findall(r"^\| (`[^|]+`) \|", FIRST_REQUEST_ROW.sub("", text), re.MULTILINE)
    return [span for cell in cells for span in re.findall(r"`([\w.]+\([^`]*\))`", cell)]


def documented(name: str) -> Any:
    owner, _, method = name.rpartition(".")
    owners = (getattr(streams, owner, None),) if owner else BARE_NAMES
    return next((getattr(each, method) for each in owners if hasattr(each, method)), None)


def difference(signature: str) -> str | None:
    """How ``signature`` is not what the code has; None if it is."""
    name, arguments = re.fullmatch(r"([\w.]+)\((.*)\)", signature).groups()  # type: ignore[union-attr]
    function = documented(name)
    if function is None:
        return f"there is no {name}"
    actual = [p for p in inspect.signature(function).parameters.values() if p.name != "self"]
    namespace: dict[str, Any] = {}
    exec(f"def stated({arguments}): pass", {name: getattr(streams, name) for name in streams.__all__}, namespace)
    stated = list(inspect.signature(namespace["stated"]).parameters.values())
    if [(p.name, p.kind) for p in stated] != [(p.name, p.kind) for p in actual]:
        return f"{name} has the parameters {actual}, not {stated}"
    wrong = [p.name for p, q in zip(stated, actual, strict=True) if not same_default(p.default, q.default)]
    return f"{name} has other defaults for {wrong}" if wrong else None


def same_default(stated: object, actual: object) -> bool:
    """An ellipsis stands for a default that the text tells about."""
    return actual is not inspect.Parameter.empty if stated is ... else stated == actual


def anchors(text: str) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def dead_links(page: Path, text: str) -> list[str]:
    dead = []
    for link in re.findall(r"\]\(([^)]+)\)", text):
        file, _, anchor = link.partition("#")
        target = (page.parent / file) if file else page
        if not target.is_file() or (anchor and anchor not in anchors(target.read_text("utf-8"))):
            dead.append(link)
    return dead


def promises(program: str) -> list[str]:
    return re.findall(r"print\(.*\)  # (.*)", program)


def run(program: str) -> None:
    exec(compile(program, "a page of docs/operators", "exec"), {"__name__": "page"})


def test_the_index_has_every_operator_source_and_sink_and_nothing_else() -> None:
    names = [name for name, _ in index_rows()]
    assert set(names) == all_operators()
    assert len(names) == len(set(names))


def test_the_index_is_in_alphabetical_order() -> None:
    keys = [(name.rpartition(".")[2], name) for name, _ in index_rows()]
    assert keys == sorted(keys)


@pytest.mark.parametrize(("name", "link"), index_rows())
def test_the_page_that_the_index_names_is_about_it(name: str, link: str) -> None:
    page = link.partition("#")[0] or "README.md"
    if page in PAGES:
        owner, _, method = name.rpartition(".")
        called = [signature.partition("(")[0] for signature in signatures(PAGES[page])]
        assert called.count(name) + called.count(method if owner == "SubSource" else "-") == 1
    else:
        assert not missing(set(name.split(".")), [(DOCS / "operators" / page).read_text("utf-8")])


def test_everything_that_the_package_exports_is_named() -> None:
    assert not missing(set(streams.__all__), [*PAGES.values(), *NEIGHBOURS])


def test_a_name_that_is_not_in_code_counts_as_missing() -> None:
    assert missing({"Nowhere", "Framing", "map"}, ["Nowhere `Framing.delimiter`\n```\nmap\n```"]) == {"Nowhere"}


@pytest.mark.parametrize("page", PAGES)
def test_every_signature_is_the_one_in_force(page: str) -> None:
    assert [wrong for wrong in map(difference, signatures(PAGES[page])) if wrong] == []


@pytest.mark.parametrize(
    "wrong",
    [
        "nothing()",
        "Source.nothing()",
        "take(n)",
        "take()",
        "take(count=3)",
        "sliding(size, step=2)",
        "sliding(size, step)",
        "intersperse(separator, start=None, end=None)",
        "Sink.collect(limit=10)",
    ],
)
def test_a_signature_that_is_another_is_noticed(wrong: str) -> None:
    assert difference(wrong) is not None


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_somewhere(page: str) -> None:
    assert dead_links(DOCS / "operators" / page, PAGES[page]) == []


def test_a_link_that_leads_nowhere_is_noticed() -> None:
    text = "[a](README.md#index) [b](nowhere.md) [c](README.md#nowhere) [d](#nowhere)"
    assert dead_links(DOCS / "operators" / "README.md", text) == ["nowhere.md", "README.md#nowhere", "#nowhere"]


def test_the_limits_are_the_ones_in_force() -> None:
    rows = re.findall(r"^\| `(streams\.[\w.]+)\.([A-Z_]+)` \| ([\d.]+) \|", INDEX, re.MULTILINE)
    assert len(rows) >= 13
    assert [
        (name, number) for module, name, number in rows if repr(getattr(import_module(module), name)) != number
    ] == []


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_prints_what_it_says(
    program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    if not USES_THREADS.search(program):
        # So that a busy machine makes no difference to what a timer finds.
        monkeypatch.setattr(asyncio, "run", run_in_virtual_time)
    run(program)
    assert promises(program)
    assert capsys.readouterr().out.splitlines() == promises(program)


def asked_at_first(flow: Flow[Any, Any]) -> tuple[str, str]:
    """What ``flow`` asks upstream for before it is asked itself, and in all once it is asked for one element."""

    async def main() -> tuple[int, int]:
        source, sink = TestSource[Any](), TestSink[Any]()
        running = source.via(flow).to(sink).run()
        await settle()
        at_first = source.probe.demand.outstanding
        sink.request(1)
        await settle()
        running.abandon()
        return at_first, source.probe.demand.outstanding

    before, after = run_in_virtual_time(main())
    return shown(before), shown(after)


def shown(demand: int) -> str:
    return "all" if demand == UNBOUNDED else str(demand)


def flow_of(call: str) -> Flow[Any, Any]:
    """The flow of what the table of first requests has: an operator with stand-ins for what users give it."""
    stand_ins: dict[str, Any] = dict.fromkeys(("f", "cost", "when", "key", "seed"), lambda *_: 1)
    stand_ins |= {"zero": 0, "other": Source.never(), "sink": Sink.ignore(), "DROP_HEAD": OverflowStrategy.DROP_HEAD}
    flow: Flow[Any, Any] = eval(f"start.{call}", {"start": Flow[Any, Any].identity()} | stand_ins)
    return flow


@pytest.mark.parametrize(
    ("call", "at_first", "then"),
    [(call, at_first, then) for cell, at_first, then in FIRST_REQUESTS for call in re.findall(r"`([^`]+)`", cell)],
)
def test_upstream_is_first_asked_for_what_the_table_says(call: str, at_first: str, then: str) -> None:
    assert asked_at_first(flow_of(call)) == (at_first, then)


@pytest.mark.parametrize("case", every.flows(), ids=lambda case: case.name)
def test_upstream_is_first_asked_for_one_where_the_table_says_nothing(case: FlowCase) -> None:
    name = case.name.partition(",")[0]
    assert len(FIRST_REQUESTS) >= 11
    in_table = f"`{name}(" in "".join(cell for cell, _, _ in FIRST_REQUESTS)
    assert in_table or name in NOT_ONE_OPERATOR or asked_at_first(case.flow()) == ("0", "1")


def test_every_page_has_a_program() -> None:
    assert len(PROGRAMS) > len(PAGES)
    assert [page for page, text in PAGES.items() if "```python\n" not in text] == []


def test_every_print_of_a_program_says_what_it_prints(capsys: pytest.CaptureFixture[str]) -> None:
    program = "print(1)  # 1\nprint(2)  # 3\n"
    run(program)
    assert capsys.readouterr().out.splitlines() != promises(program) == ["1", "3"]
    prints = [
        node
        for case in PROGRAMS
        for node in ast.walk(ast.parse(str(case.values[0])))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    ]
    assert len(prints) == sum(len(promises(str(case.values[0]))) for case in PROGRAMS)
