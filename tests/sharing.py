"""How `make pytest` shares the tests out among processes, through pytest-xdist: a module or class at a time, and all of Spark's to one."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from xdist.scheduler import LoadScopeScheduling

if TYPE_CHECKING:
    import pytest
    from xdist.workermanage import WorkerController

SPARK: Final = "spark"
"""What tests with Spark's session are one unit as: a second session would cost its start, and begin cold."""
WITH_SESSION: Final = re.compile(r"^def \w+\([^)]*\bspark:", re.MULTILINE)


@cache
def has_session(file: str) -> bool:
    """Whether tests or fixtures of a module ask for the fixture `spark`."""
    return WITH_SESSION.search(Path(file).read_text("utf-8")) is not None


class Sharing(LoadScopeScheduling):
    """Gives work out in the order in which it was collected. What a module's fixtures and caches hold is made once."""

    def _split_scope(self, nodeid: str) -> str:
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
