"""What a node says whose register does not answer: what goes on without it, and what does not, as it is by then."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from actors.replication.document import ClusterDocument, Member
from tests.transport.node.nodes import DEADLINE, Nodes, cluster
from transport.cluster.register_calls import GOES_ON, without_register

SAYS = "the register does not answer; "
HALTED = "nothing is confirmed here before one leads again, which takes the register and more than half of 3 nodes"


AGAIN = f"a leader is heard again: without the register {GOES_ON}"


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    """By any node, of its register and of who leads."""
    words = (SAYS, "the register answers again", "leads: it is confirmed again")
    return [each.message for each in caplog.records if any(every in each.message for every in words)]


TRIES = 5
"""A machine that stands still has its nodes miss one another, and without a register none leads again then."""


async def without_it(nodes: Nodes, caplog: pytest.LogCaptureFixture, until: Any) -> str:
    """Who leads, once the register is away and a follower says what goes on."""
    for _ in range(TRIES):
        nodes.register.up = True
        leader = await nodes.leader()
        follower = min(set("abc") - {leader})
        await nodes.stands(lambda facts, leads=leader: facts["leader"] == leads, follower)
        caplog.clear()
        nodes.register.up = False
        node: Any = nodes.running[follower].node

        def looked(node: Any = node) -> bool:
            # Its document may be an old one. It does not read it again at once.
            node.look()
            return any(SAYS in each for each in said(caplog))

        await until(looked)
        if said(caplog) == [f"{SAYS}{GOES_ON}: it is switched off"]:
            return leader
    raise AssertionError(said(caplog))


@pytest.mark.parametrize("survivor", ["the leader", "a follower"])
def test_the_last_word_of_a_node_that_has_lost_two_of_three_and_its_register_is_that_nothing_is_confirmed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, until: Any, survivor: str
) -> None:
    async def body() -> None:
        async with cluster(tmp_path) as nodes:
            leader = await without_it(nodes, caplog, until)
            stays = leader if survivor == "the leader" else min(set("abc") - {leader})
            lost = sorted(set("abc") - {stays})
            for name in lost:
                await nodes.stop(name)
            await until(lambda: f"{HALTED} (not heard: {', '.join(lost)})" in said(caplog)[-1])
            assert GOES_ON not in said(caplog)[-1]
            caplog.clear()
            nodes.register.up = True
            await nodes.start(lost[0])
            await nodes.leader()
            await until(lambda: any("the register answers again" in each for each in said(caplog)))

    asyncio.run(asyncio.wait_for(body(), 3 * DEADLINE))


def test_a_leader_that_is_heard_again_takes_it_back_that_nothing_is_confirmed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, until: Any
) -> None:
    async def body() -> None:
        async with cluster(tmp_path) as nodes:
            leader = await without_it(nodes, caplog, until)
            node: Any = nodes.running[min(set("abc") - {leader})].node
            follower = node.replica.follower

            def missed() -> bool:
                follower._heard -= 10.0  # as if the leader had been silent; it says something each half second
                node.look()
                return any(HALTED in each for each in said(caplog))

            await until(missed)
            await until(lambda: AGAIN in caplog.messages)
            told = [each for each in caplog.messages if HALTED in each or each == AGAIN]
            assert HALTED in told[0]

    asyncio.run(asyncio.wait_for(body(), 3 * DEADLINE))


def document(*members: str, **more: Any) -> ClusterDocument:
    return ClusterDocument("c" * 32, 1, "a", {each: Member(each * 32, "h:1", "h:2", "h:3") for each in members}, **more)


def replica(
    known: ClusterDocument | None, *, leads: bool = False, follows: str | None = None, misses: bool = True
) -> Any:
    follower = SimpleNamespace(leader=follows, misses=lambda _: misses)
    return SimpleNamespace(me="a" * 32, leader=object() if leads else None, follower=follower, document=known)


def test_as_long_as_it_leads_or_hears_who_does_all_goes_on() -> None:
    known = document("a", "b", "c")
    for one in (replica(known, leads=True), replica(known, follows="b" * 32, misses=False)):
        assert without_register(one, 0.0, ()) == GOES_ON


@pytest.mark.parametrize(
    ("known", "connected", "ends"),
    [
        (document("a", "b", "c"), (), "more than half of 3 nodes (not heard: b, c)"),
        (document("a", "b", "c"), ("c" * 32,), "more than half of 3 nodes (not heard: b)"),
        (document("a", "b", "c"), ("b" * 32, "c" * 32), "more than half of 3 nodes (all of them are heard)"),
        (None, (), "more than half of the nodes"),
    ],
    ids=["alone", "one away", "all there", "nothing known"],
)
def test_where_it_does_not_it_says_who_is_away_and_how_many_it_takes(
    known: ClusterDocument | None, connected: tuple[str, ...], ends: str
) -> None:
    for one in (replica(known), replica(known, follows="b" * 32)):
        assert without_register(one, 0.0, connected).endswith(ends)
