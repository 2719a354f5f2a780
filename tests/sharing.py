"""How `make pytest` shares the tests out among processes, through pytest-xdist: a module or class at a time, and all of Spark's to one."""

from __future__ import annotations

import contextlib
import re
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

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

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(PARSED):
            return PARSED
        return SPARK if has_session(nodeid.split("::", 1)[0]) else super()._split_scope(nodeid)

    def remove_node(self, node: WorkerController) -> str | None:
        """What a process that died leaves is done by others, but for the test that it died in: they would die of it too."""
        left = self.assigned_work.pop(node)
        crashed = next((test for unit in left.values() for test, done in unit.items() if not done), None)
        for scope, unit in left.items():
            if crashed in unit:
                unit[crashed] = True
            if not all(unit.values()):
                self.workqueue[scope] = unit
        for other in self.assigned_work:
            self._reschedule(other)
        return crashed


def with_session_first(items: list[pytest.Item]) -> None:
    """Sorts them: nothing takes longer than what uses Spark's session, and nobody shall wait for that in the end."""
    using = {item for item in items if "spark" in getattr(item, "fixturenames", ())}
    unseen = {str(item.path) for item in using if not has_session(str(item.path))}
    assert not unseen, f"use Spark's session, and has_session does not see it: {unseen}"
    items.sort(key=lambda item: item not in using)


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
