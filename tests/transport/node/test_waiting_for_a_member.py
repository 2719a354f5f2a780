"""Who adds a node waits until it counts, and is told what it waits for: whoever leads knows only that it has no connection to it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.transport.node.nodes import DEADLINE, Nodes, Register, cluster
from transport.cli import _cluster_waiting as waiting
from transport.clients.administration import Administration
from transport.clients.link import UNTOLD


class Told:
    """What the command says while it waits; it is over when it has said certain words."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    async def until(self, administration: Administration, *words: str) -> None:
        def done(facts: dict[str, Any]) -> bool:
            return bool(self.texts) and all(word in self.texts[-1] for word in words)

        await waiting.until(
            administration,
            lambda client: waiting.with_own_words(client, "d"),
            DEADLINE,
            done,
            lambda facts: waiting.learning(facts, "d"),
            self.texts.append,
        )


async def added(nodes: Nodes, leader: str) -> Administration:
    """The node d is added, and reads another register from then on."""
    register = nodes.register
    nodes.register = Register()
    await nodes.start("d")
    nodes.register = register
    administration = await Administration(nodes.send(leader)).__aenter__()
    await administration.add_member("d", nodes.links("d"))
    return administration


def test_of_a_node_that_reads_another_document_and_of_one_that_is_not_there_that_is_said_and_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "TOLD_SECONDS", 0.0)
    monkeypatch.setattr(waiting, "LOOK_SECONDS", 0.01)

    async def main() -> list[str]:
        told = Told()
        async with cluster(tmp_path) as nodes:
            leader = await nodes.leader()
            administration = await added(nodes, leader)
            try:
                await told.until(administration, "it runs, and its register holds no document that names its directory")
                where = f"d is not reached at {nodes.links('d')} by {leader}, which leads"
                assert told.texts[-1].startswith(f"{where}: ")
                await nodes.stop("d")
                await told.until(administration, where, f"no node answers at {nodes.send('d')} (is it started")
            finally:
                await administration.close()
        return told.texts

    texts = asyncio.run(main())
    assert len(texts) == len(set(texts))


def test_that_a_node_does_not_answer_is_said_by_who_waits_alone() -> None:
    assert waiting.OWN_SECONDS < UNTOLD


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ({"connected": True, "lag_records": None}, "d has not said yet what it has"),
        ({"connected": True, "lag_records": 3, "lag_bytes": 2048}, "d is 3 records (2 KiB) behind"),
        ({"connected": False, "lag_records": 3, "lag_bytes": 0}, "d is not reached, and is 3 records (0 B) behind"),
        ({"connected": False}, "d is not reached at h:9184 by a, which leads"),
        (
            {"connected": False, "itself": {"node": "e", "members": []}},
            "d is not reached at h:9184 by a, which leads: at h:9182 there is the node e",
        ),
        (
            {"connected": False, "itself": {"node": "d", "members": [], "register": "does not answer: no connection"}},
            "d is not reached at h:9184 by a, which leads: it runs, and its register does not answer: no connection",
        ),
        (
            {"connected": False, "itself": {"node": "d", "members": [{}], "role": "follower"}},
            "d is not reached at h:9184 by a, which leads, and runs as a member (follower)",
        ),
    ],
)
def test_what_a_member_lacks_is_said_in_words(row: dict[str, Any], text: str) -> None:
    member = {"name": "d", "replication": "h:9184", "send": "h:9182"} | row
    assert waiting.learning({"node": "a", "members": [member]}, "d") == text
