"""A node starts again with other addresses for clients: the document says so soon, whoever leads, and clients are sent there."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from actors.replication.document import MOVE, Change
from streams.testkit import settle
from tests.transport.node.nodes import DEADLINE, Nodes, cluster

ADDRESSES = ("send", "receive", "http", "amqp")


def places(nodes: Nodes, name: str) -> tuple[str | None, ...]:
    config = nodes.config(name)
    return (config.send_address, config.receive_address, config.http, config.amqp)


def shown(facts: dict[str, Any], name: str) -> tuple[str | None, ...]:
    row = next(each for each in facts["members"] if each["name"] == name)
    return tuple(row[each] for each in ADDRESSES)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transport.node.administered.KEPT_SECONDS", 0.1)


def test_a_follower_that_starts_with_other_addresses_is_reached_there(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def body() -> None:
        async with cluster(tmp_path, amqp=True) as nodes:
            leader = await nodes.leader()
            moved, other = (name for name in "abc" if name != leader)
            await nodes.stop(moved)
            nodes.elsewhere(moved)
            await nodes.start(moved)
            facts = await nodes.stands(lambda facts: shown(facts, moved) == places(nodes, moved), leader)
            assert facts["change"] is None
            assert shown(facts, other) == places(nodes, other)
            assert f"they reach it at {nodes.config(moved).send_address}" in caplog.text
            # A follower says the same when it has read the document.
            await nodes.stands(lambda facts: shown(facts, moved) == places(nodes, moved), other)

    asyncio.run(body())


def test_a_leader_that_starts_with_other_addresses_says_itself_where_it_is_reached_when_it_leads_again(
    tmp_path: Path,
) -> None:
    async def body() -> None:
        async with cluster(tmp_path) as nodes:
            moved = await nodes.leader()
            others = [name for name in "abc" if name != moved]
            await nodes.stop(moved)
            await nodes.leader()
            nodes.elsewhere(moved)
            for name in others:
                await nodes.stop(name)
            # It has all that the others have; whoever comes first leads, and the document follows either way.
            for name in (moved, others[0]):
                await nodes.start(name)
            leader = await nodes.leader()
            await nodes.stands(lambda facts: shown(facts, moved) == places(nodes, moved), leader)
            assert nodes.register.document is not None
            assert nodes.register.document.members[moved].places[:3] == places(nodes, moved)[:3]

    asyncio.run(body())


def test_a_follower_whose_document_is_older_than_its_leader_and_does_not_name_it_says_soon_who_leads(
    tmp_path: Path,
) -> None:
    async def body() -> None:
        async with cluster(tmp_path) as nodes:
            leader = await nodes.leader()
            other = next(name for name in "abc" if name != leader)
            await nodes.stands(lambda facts: facts["leader"] == leader and facts["role"] == "follower", other)
            node = nodes.running[other].node
            assert node is not None
            # It has read the document while the member that leads now was filled anew, in another directory, and then that came to lead.
            replica = node.replica
            await nodes.stands(lambda _: replica.document is not None and replica.document.epoch > 1, other)
            document = replica.document
            assert document is not None
            now = document.members[leader]
            members = {**document.members, leader: replace(now, directory="f" * 32)}
            moving = replace(
                document,
                epoch=document.epoch - 1,
                members=members,
                change=Change(MOVE, leader, replace(now, learner=False)),
            )
            replica.takeover.knows(replica.version, moving)
            assert nodes.running[other].administration.standing()["leader"] is None
            facts = await nodes.stands(lambda facts: facts["leader"] == leader, other)
            assert facts["epoch"] == document.epoch

    asyncio.run(body())


def test_the_others_hear_of_a_document_that_a_leader_changes_in_its_first_instant(tmp_path: Path) -> None:
    async def body() -> None:
        async with cluster(tmp_path) as nodes:
            former = await nodes.leader()
            others = [nodes.running[name] for name in "abc" if name != former]
            for node in others:
                node.administration.stop()  # looks at nothing until it is told to
            await nodes.stop(former)
            leader = nodes.running[await nodes.leader()]
            assert leader.node is not None
            membership = leader.node.replica.membership
            assert membership is not None
            assert membership.remove(former) is None
            before = nodes.register.version
            async with asyncio.timeout(DEADLINE):
                while nodes.register.version < before + 2:  # it is to go, and has gone
                    await settle(0.01)
            leader.administration.start()
            assert leader.told.own.document == membership.version
            (other,) = (node for node in others if node is not leader)
            async with asyncio.timeout(DEADLINE):
                while other.told.document != membership.version:
                    await settle(0.01)

    asyncio.run(body())
