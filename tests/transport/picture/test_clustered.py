"""A cluster in a line: who of its members is furthest behind, and nothing that the node does not know."""

from __future__ import annotations

from typing import Any

import pytest

from transport.picture.clustered import in_brief


def member(name: str, in_step: bool | None = None, lag: int | None = None) -> dict[str, Any]:
    size, seconds = (None, None) if lag is None else (10 * lag, lag / 2)
    return {"name": name, "in_step": in_step, "lag_records": lag, "lag_bytes": size, "lag_s": seconds}


@pytest.mark.parametrize(
    ("members", "brief"),
    [
        ([member("a", True, 0), member("b", True, 0)], (2, 2, None, 0, 0, 0.0)),
        ([member("a", True, 0), member("b", False, 8), member("c", True, 2)], (3, 2, "b", 8, 80, 4.0)),
        # One has said nothing yet.
        ([member("a", True, 0), member("b", False), member("c", True, 2)], (3, 2, "c", 2, 20, 1.0)),
        # It does not lead.
        ([member("a"), member("b")], (2, None, None, None, None, None)),
        ([], (0, None, None, None, None, None)),
    ],
)
def test_who_is_furthest_behind_is_named_with_what_is_known(
    members: list[dict[str, Any]], brief: tuple[object, ...]
) -> None:
    found = in_brief({"node": "a", "role": "leader", "epoch": 3, "members": members, "change": None})
    assert (found.pop("node"), found.pop("role"), found.pop("epoch")) == ("a", "leader", 3)
    assert tuple(found.values()) == brief
    assert list(found) == ["members", "in_step", "worst", "lag_records", "lag_bytes", "lag_s"]
