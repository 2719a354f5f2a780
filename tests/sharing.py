"""How `make pytest` shares the tests out among processes, through pytest-xdist: a module or class at a time, and all of Spark's to one."""

from __future__ import annotations

import contextlib
import re
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from xdist.scheduler import LoadScopeScheduling

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

SPARK: Final = "spark"
"""What tests with Spark's session are one unit as: a second session would cost its start, and begin cold."""
PARSED: Final = "tests/architecture/"
"""What parses the product and the tests is one unit, too: they are parsed once."""
WITH_SESSION: Final = re.compile(r"^def \w+\([^)]*\bspark:", re.MULTILINE)


ROOT: Final = Path(__file__).resolve().parent.parent


@cache
def has_session(file: str) -> bool:
    """Whether tests or fixtures of a module ask for the fixture `spark`."""
    return WITH_SESSION.search(Path(file).read_text("utf-8")) is not None


class Sharing(LoadScopeScheduling):
    """Gives work out in the order in which it was collected. What a module's fixtures and caches hold is made once."""

    def __init__(self, config: pytest.Config, log: Any = None) -> None:
        super().__init__(config, log)
        self._numbers: dict[str, int] = {}

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(PARSED):
            return PARSED
        return SPARK if has_session(nodeid.split("::", 1)[0]) else super()._split_scope(nodeid)

    def mark_test_complete(self, node: WorkerController, item_index: int, duration: float = 0) -> None:
        """A unit is what is left of it: else all that a process has ever been given would be counted at each test."""
        test = self.registered_collections[node][item_index]
        units, scope = self.assigned_work[node], self._split_scope(test)
        del units[scope][test]
        if not units[scope]:
            del units[scope]
        self._reschedule(node)

    def _pending_of(self, workload: dict[str, dict[str, bool]]) -> int:
        return sum(map(len, workload.values()))

    def _assign_work_unit(self, node: WorkerController) -> None:
        """Each process has collected the same, so the number of a test is looked up, and not looked for among twenty thousand."""
        if not self._numbers:
            self._numbers = {test: number for number, test in enumerate(self.registered_collections[node])}
        scope, unit = self.workqueue.popitem(last=False)
        self.assigned_work[node][scope] = unit
        node.send_runtest_some([self._numbers[test] for test in unit])

    def _reschedule(self, node: WorkerController) -> None:
        """A process begins a test when it knows the next one, or that there is none: one that has a single test is given more, or told."""
        super()._reschedule(node)
        if not node.shutting_down and self._pending_of(self.assigned_work[node]) == 1:
            super()._reschedule(node)

    def remove_node(self, node: WorkerController) -> str | None:
        """What a process that died leaves is done by others, but for the test that it died in: they would die of it too."""
        left = self.assigned_work.pop(node)
        crashed = next((test for unit in left.values() for test in unit), None)
        for scope, unit in left.items():
            if crashed is not None:
                unit.pop(crashed, None)
            if unit:
                self.workqueue[scope] = unit
        for other in self.assigned_work:
            self._reschedule(other)
        return crashed


def tell_little(config: pytest.Config) -> None:
    """Has a process of several not tell what nobody reads: that a test begins, and that its fixtures were made and ended well.

    That is half of what it would tell, and to tell and to hear it takes as long as a small test does.
    """
    if config.option.verbose > 0 or config.option.durations is not None or config.option.xmlpath is not None:
        return
    # Not by the class itself: pytest-xdist sends the process its source, and there it is another one.
    plugins = config.pluginmanager.get_plugins()
    teller: Any = next(each for each in plugins if type(each).__name__ == "WorkerInteractor")
    tell = teller.sendevent

    def tell_news(name: str, **about: Any) -> None:
        report = about["data"] if name == "testreport" else None
        if name != "logstart" and (report is None or report["when"] == "call" or report["outcome"] != "passed"):
            tell(name, **about)

    teller.sendevent = tell_news


def longest_first(items: list[pytest.Item]) -> None:
    """Sorts them: nothing takes longer than what uses Spark's session, and nobody shall wait for that in the end.

    The next are the modules that stand in no folder, which are about the suite itself and start whole suites.
    """
    using = {item for item in items if "spark" in getattr(item, "fixturenames", ())}
    unseen = {str(item.path) for item in using if not has_session(str(item.path))}
    assert not unseen, f"use Spark's session, and has_session does not see it: {unseen}"
    items.sort(key=lambda item: (item not in using, item.path.parent != ROOT / "tests"))


def import_share(config: pytest.Config) -> None:
    """Imports, in a process of several, those modules of tests that are its part, before it collects all.

    Each collects everything. In a fresh clone nothing is compiled, and to compile the tests, with their assertions rewritten, takes
    longer than to collect them: so each compiles a part, and finds what the others have.
    """
    worker = config.workerinput  # type: ignore[attr-defined]  # of pytest-xdist
    number, count = int(worker["workerid"].removeprefix("gw")), worker["workercount"]
    for module in modules_of(config)[number::count]:
        # What cannot be imported is told of by the collection, which tries it again.
        with contextlib.suppress(Exception, pytest.skip.Exception):
            import_module(module)


def modules_of(config: pytest.Config) -> list[str]:
    """The modules of tests that will be collected, by the names that pytest gives them."""
    named = [config.invocation_params.dir / argument.split("::", 1)[0] for argument in config.args]
    files = sorted(
        {file.resolve() for path in named for file in ([path] if path.is_file() else path.rglob("test_*.py"))}
    )
    return [
        ".".join(file.relative_to(ROOT).with_suffix("").parts)
        for file in files
        if file.is_relative_to(ROOT) and (config.getoption("--soak") or not file.stem.endswith("_soak"))
    ]
