"""A node whose files are damaged leaves its cluster, which goes on; it says where, and is filled anew by command or by itself."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from actors.replication.document import ClusterDocument, Member
from actors.replication.vocabulary import Diverged
from actors.storage.damaged_replica import put_aside
from actors.storage.replica_checkpoints import ReplicaCheckpoints
from streams import Source
from tests.transport.node.nodes import Nodes, cluster
from tests.transport.node.test_administered import asked, member, refused
from transport import Backoff, Receiver, Sender
from transport.cli.cluster import status_lines, summary
from transport.clients.administration import Administration
from transport.node.healing import enough_others

SMALL = {"segment_bytes": 1 << 20, "cache_bytes": 0}
MESSAGES = 1500
SIZE = 2000


def payload(number: int) -> bytes:
    return number.to_bytes(4, "big") + bytes(SIZE)


async def fill(nodes: Nodes, first: int = 0, count: int = MESSAGES) -> None:
    sender = Sender(nodes.send(), queue="orders", max_batch_messages=50, reconnect=Backoff(minimum=0.01, maximum=0.1))
    sent = await Source.from_iterable(payload(number) for number in range(first, first + count)).to(sender).run()
    assert sent.messages == count


async def numbers(nodes: Nodes, count: int) -> list[int]:
    """Of the messages that are received, which are acknowledged."""
    receive = ",".join(f"127.0.0.1:{nodes._ports[name][1]}" for name in nodes.running)
    receiver = Receiver(receive, queue="orders", reconnect=Backoff(minimum=0.01, maximum=0.1))
    found: set[int] = set()
    async with asyncio.timeout(60):
        async for delivery in receiver:
            found.add(int.from_bytes(delivery.payload[:4], "big"))
            delivery.acknowledge()
            if len(found) == count:
                break
    return sorted(found)


async def penstock(*words: str) -> tuple[int | None, str]:
    """The exit code and what is printed."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "transport.cli", *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    printed, _ = await process.communicate()
    return process.returncode, printed.decode()


def segments(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.segment"))


def flip(path: Path, at: int) -> None:
    """Change one bit, where the file lies."""
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 4]))


def in_step(*names: str) -> Callable[[dict[str, Any]], bool]:
    return lambda facts: all(member(facts, name).get("in_step") for name in names)


def is_damaged(name: str) -> Callable[[dict[str, Any]], bool]:
    return lambda facts: member(facts, name).get("role") == "damaged"


async def a_follower(nodes: Nodes) -> str:
    leader = await nodes.leader()
    return min(set(nodes.running) - {leader})


@pytest.mark.parametrize("kind", ["*.segment", "checkpoint-*", "replica"])
def test_a_replica_that_starts_on_damage_is_no_member_until_it_is_filled_anew(tmp_path: Path, kind: str) -> None:
    async def body() -> None:
        async with cluster(tmp_path, **SMALL) as nodes:
            await fill(nodes)
            name = await a_follower(nodes)
            await nodes.stands(in_step(name), await nodes.leader())
            await nodes.stop(name)
            damaged = sorted((tmp_path / name).glob(kind))[0 if kind == "*.segment" else -1]
            flip(damaged, 20)
            node = await nodes.start(name)
            leader = await nodes.leader()
            facts = await nodes.stands(is_damaged(name), leader)
            assert str(damaged) in member(facts, name)["damage"]
            assert "offset" in member(facts, name)["damage"]
            assert (member(facts, name)["damaged"], facts["damage"]) == (True, None)
            assert any(
                f"{name} has met damage" in line and "penstock cluster heal" in line
                for line in status_lines(facts, 200)
            )
            # It says the same of itself, and can be used by nobody.
            own = await nodes.stands(is_damaged(name), name)
            assert own["role"] == "damaged"
            assert str(damaged) in own["damage"]
            status, text = await asyncio.to_thread(asked, f"{nodes.http(name)}/health/ready")
            assert (status, b"has met damage" in text) == (503, True)
            status, text = await asyncio.to_thread(asked, f"{nodes.http(leader)}/metrics")
            assert f'penstock_cluster_member_damaged{{member="{name}"}} 1'.encode() in text
            assert node.node is None
            await fill(nodes, MESSAGES, 10)
            async with Administration(nodes.send(leader)) as administration:
                old = member(await administration.cluster(), name)["directory"]
                begun = await administration.heal_member(name)
                assert begun["directory"] != old
            facts = await nodes.stands(lambda facts: in_step(name)(facts) and facts["change"] is None, leader)
            assert member(facts, name)["directory"] == begun["directory"]
            facts = await nodes.stands(lambda facts: member(facts, name)["kept_damaged"] == 1, leader)
            assert member(facts, name)["damage"] is None
            assert (tmp_path / name / "damaged-1" / damaged.name).exists()
            # It has everything: the one that led may go.
            await nodes.stop(leader)
            await nodes.leader()
            assert await numbers(nodes, MESSAGES + 10) == list(range(MESSAGES + 10))

    asyncio.run(body())


async def damaged(nodes: Nodes, name: str) -> Path:
    """Flip a bit in the payloads of the first segment of a node, which runs."""
    path = segments(nodes.folder / name)[0]
    flip(path, 500_000)
    return path


def test_damage_of_two_of_three_is_said_to_be_the_loss_of_two_machines(tmp_path: Path) -> None:
    async def body() -> None:
        async with cluster(tmp_path, **SMALL) as nodes:
            await fill(nodes, 0, 10)
            leader = await nodes.leader()
            first, second = sorted(set(nodes.running) - {leader})
            for name in (first, second):
                await nodes.stands(in_step(name), leader)
                await nodes.stop(name)
                flip(segments(tmp_path / name)[0], 20)
                await nodes.start(name)
                await nodes.stands(is_damaged(name), name)
            facts = await nodes.stands(lambda facts: is_damaged(first)(facts) and is_damaged(second)(facts), second)
            said = "2 of 3 members have met damage, so nobody can lead"
            assert any(said in line for line in status_lines(facts, 200))
            assert any(said in line for line in summary(facts))
            facts["members"] = [
                row | {"damage": row["damage"] if row["name"] == first else None} for row in facts["members"]
            ]
            assert not any("nobody can lead" in line for line in status_lines(facts, 200)), "two are whole"

    asyncio.run(body())


def test_a_leader_that_cannot_read_what_a_receiver_needs_leaves_and_another_one_delivers_it(tmp_path: Path) -> None:
    async def body() -> None:
        async with cluster(tmp_path, **SMALL) as nodes:
            await fill(nodes)
            leader = await nodes.leader()
            await nodes.stands(in_step(*"abc"), leader)
            path = await damaged(nodes, leader)
            assert await numbers(nodes, MESSAGES) == list(range(MESSAGES))
            successor = await nodes.leader()
            assert successor != leader
            facts = await nodes.stands(is_damaged(leader), successor)
            assert str(path) in member(facts, leader)["damage"]
            # A start finds it too, though it reads nothing of it by itself.
            await nodes.stop(leader)
            await nodes.start(leader)
            await nodes.stands(is_damaged(leader), successor)
            async with Administration(nodes.send(successor)) as administration:
                await administration.heal_member(leader)
            await nodes.stands(in_step(leader), successor)

    asyncio.run(body())


def test_a_leader_that_cannot_read_what_a_transfer_needs_leaves_and_another_one_gives_it(tmp_path: Path) -> None:
    async def body() -> None:
        async with cluster(tmp_path, **SMALL) as nodes:
            await fill(nodes)
            for name in "abc":
                # Who is started anew has nothing of its log in memory.
                await nodes.stands(in_step(*"abc"), await nodes.leader())
                await nodes.stop(name)
                await nodes.start(name)
            leader = await nodes.leader()
            await nodes.stands(in_step(*"abc"), leader)
            await damaged(nodes, leader)
            await nodes.start("d")
            async with Administration(nodes.send(*"abc")) as administration:
                await administration.add_member("d", nodes.links("d"))
            await nodes.stands(is_damaged(leader), *sorted(set("abc") - {leader}))
            successor = await nodes.leader()
            assert successor != leader
            facts = await nodes.stands(lambda facts: in_step("d")(facts) and member(facts, "d")["counts"], successor)
            assert facts["leader"] == successor
            assert await numbers(nodes, MESSAGES) == list(range(MESSAGES))

    asyncio.run(body())


def test_a_follower_that_meets_damage_while_it_runs_leaves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # As one that is killed it leaves no checkpoint, and has all of its log to fold.
    monkeypatch.setattr(ReplicaCheckpoints, "finish", lambda _: None)

    async def body() -> None:
        async with cluster(tmp_path, **SMALL) as nodes:
            await fill(nodes, count=300)
            leader, name = await nodes.leader(), await a_follower(nodes)
            await nodes.stands(in_step(name), leader)
            await nodes.stop(name)
            nodes.register.up = False
            node = await nodes.start(name)
            assert (node.node, node.damaged) == (None, None), "it has found nothing, and waits for the register"
            path = segments(tmp_path / name)[0]
            flip(path, 300_000)
            nodes.register.up = True
            facts = await nodes.stands(is_damaged(name), leader)
            assert str(path) in member(facts, name)["damage"]
            await nodes.stop(name)
            await nodes.start(name)
            await nodes.stands(is_damaged(name), leader)
            assert await numbers(nodes, 300) == list(range(300))
            code, text = await penstock("cluster", "heal", name, "--wait", "30s", "--address", nodes.send())
            assert (code, f"node {name} is filled anew" in text) == (0, True), text
            await nodes.stands(in_step(name), leader)
            code, text = await penstock("cluster", "heal", name, "--address", nodes.send())
            assert (code, "has met no damage" in text) == (1, True), text

    asyncio.run(body())


def test_a_member_that_asks_for_it_is_filled_anew_by_itself(tmp_path: Path) -> None:
    async def body() -> None:
        async with cluster(tmp_path, cluster_auto_heal=True, **SMALL) as nodes:
            await fill(nodes)
            leader = await nodes.leader()
            facts = await nodes.stands(in_step(*"abc"), leader)
            old = member(facts, leader)["directory"]
            await damaged(nodes, leader)
            assert await numbers(nodes, MESSAGES) == list(range(MESSAGES))
            successor = await nodes.leader()
            facts = await nodes.stands(
                lambda facts: in_step(leader)(facts) and member(facts, leader)["kept_damaged"] == 1, successor
            )
            assert member(facts, leader)["directory"] != old

    asyncio.run(body())


def test_a_member_that_was_told_by_a_leader_that_is_gone_is_filled_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transport.node.healing.AGAIN_SECONDS", 0.5)

    async def body() -> None:
        async with cluster(tmp_path, cluster_auto_heal=True, **SMALL) as nodes:
            await fill(nodes, count=100)
            leader, name = await nodes.leader(), await a_follower(nodes)
            facts = await nodes.stands(in_step(name), leader)
            old = member(facts, name)["directory"]
            await nodes.stop(name)
            # As a node leaves it that has put it aside, and has not been moved.
            put_aside(tmp_path / name)
            await nodes.start(name)
            facts = await nodes.stands(in_step(name), leader)
            assert member(facts, name)["directory"] != old

    asyncio.run(body())


def test_a_node_that_knows_as_committed_what_its_leader_has_not_is_filled_anew_by_a_person_alone(
    tmp_path: Path,
) -> None:
    async def body() -> None:
        async with cluster(tmp_path, cluster_auto_heal=True, **SMALL) as nodes:
            await fill(nodes, count=100)
            leader, name = await nodes.leader(), await a_follower(nodes)
            await nodes.stands(in_step(name), leader)
            node = nodes.running[name].node
            assert node is not None
            node.tell(lambda: [Diverged(3)])
            facts = await nodes.stands(is_damaged(name), leader)
            assert "its log is not its leader's from record 3 on" in member(facts, name)["damage"]
            told = nodes.running[leader].told.of(member(facts, name)["directory"])
            assert told is not None
            assert not told.asks
            async with Administration(nodes.send(leader)) as administration:
                await administration.heal_member(name)
            await nodes.stands(in_step(name), leader)

    asyncio.run(body())


def test_who_has_met_no_damage_is_not_filled_anew(tmp_path: Path) -> None:
    async def body() -> None:
        async with cluster(tmp_path, **SMALL) as nodes:
            leader, name = await nodes.leader(), await a_follower(nodes)
            async with Administration(nodes.send(leader)) as administration:
                for each in (leader, name):
                    assert "has met no damage" in await refused(administration.heal_member(each))
                assert "no member 'x'" in await refused(administration.heal_member("x"))
            status, text = await asyncio.to_thread(
                asked, f"{nodes.http(leader)}/api/v1/cluster/members/{name}/heal", "POST"
            )
            assert (status, b"has met no damage" in text) == (409, True)

    asyncio.run(body())


@pytest.mark.parametrize(
    ("in_step", "enough"),
    [("abc", True), ("ab", True), ("a", False), ("ac", False)],
)
def test_nobody_is_filled_anew_by_itself_while_fewer_than_half_and_one_of_the_others_have_all(
    in_step: str, enough: bool
) -> None:
    class Leads:
        me = directory_of("a")

        def caught_up(self, directory: str) -> bool:
            return directory in {directory_of(name) for name in in_step}

    document = ClusterDocument("0" * 32, 2, "a", {name: place(name) for name in "abc"}, "majority", None, "w")
    assert enough_others(document, cast("Any", Leads()), "c") is enough
    with_learner = replace(
        document, members={**document.members, "d": replace(place("d"), learner=True, in_step=False)}
    )
    assert enough_others(with_learner, cast("Any", Leads()), "c") is enough, "who learns does not count"


def directory_of(name: str) -> str:
    return name * 32


def place(name: str) -> Member:
    return Member(directory_of(name), "h:1", "h:2", "h:3", None)
