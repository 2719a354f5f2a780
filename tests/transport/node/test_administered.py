"""A cluster of real nodes is looked at, and its members change, by whoever asks any of them."""

from __future__ import annotations

import asyncio
import json
import shutil
import urllib.error
import urllib.request
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import pytest

from tests.transport.node.nodes import Nodes, cluster
from transport.broker.broker import Broker
from transport.cli.cluster import look, status_lines, summary
from transport.clients.administration import Administration
from transport.config.config import BrokerConfig
from transport.errors import BrokerError, ConnectionLostError
from transport.node import administered
from transport.node.cluster_node import ClusterNode
from transport.picture import families

FREE = "127.0.0.1:0"


def run(body: Any) -> None:
    asyncio.run(body)


def member(facts: dict[str, Any], name: str) -> dict[str, Any]:
    return next((each for each in facts["members"] if each["name"] == name), {})


async def refused(call: Any, code: str = "change-refused") -> str:
    with pytest.raises(BrokerError) as found:
        await call
    assert found.value.code == code
    return str(found.value)


def asked(url: str, method: str = "GET") -> tuple[int, Any]:
    request = urllib.request.Request(url, method=method)
    try:
        with urllib.request.urlopen(request, timeout=10.0) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def test_a_member_is_added_moves_and_goes_and_every_node_says_how_the_cluster_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nobody answers for a node that is not there, whatever time there is.
    monkeypatch.setattr(administered, "CHANGE_SECONDS", 5.0)

    async def body() -> None:
        async with cluster(tmp_path) as nodes:
            await _looked_at(nodes)
            await _changed(nodes, tmp_path)

    run(body())


async def _looked_at(nodes: Nodes) -> None:
    leader = await nodes.leader()
    first, second = sorted(set("abc") - {leader})
    led = await nodes.stands(
        lambda facts: all(each["in_step"] and each["role"] != "away" for each in facts["members"]), leader
    )
    assert (led["node"], led["role"], led["leader"], led["register"]) == (leader, "leader", leader, "answers")
    assert {each["role"] for each in led["members"]} == {"leader", "follower"}
    assert {each["lag_records"] for each in led["members"]} == {0}
    follows = await nodes.stands(lambda facts: facts["leader"] == leader, first)
    assert (follows["node"], follows["role"], follows["cluster"]) == (first, "follower", led["cluster"])
    assert member(follows, leader)["role"] == "leader"
    assert member(follows, second)["lag_records"] is None
    # Who asks a follower is shown what the leader says.
    async with Administration(nodes.send(second), any_node=True) as administration:
        shown = await look(administration)
        assert shown["node"] == leader
        lines = status_lines(shown, None)
        assert f"cluster {led['cluster']}" in lines
        assert any("leader" in line and line.startswith(leader) for line in lines)
        # It does nothing else there.
        assert "does no more" in await refused(administration.queues(), "not-leader")
        assert "does no more" in await refused(administration.remove_member(first), "not-leader")
    # Who does not say that any will do is sent to the leader.
    async with Administration(nodes.send(first, second)) as administration:
        figures = await administration.statistics()
        assert (figures["cluster"]["node"], figures["cluster"]["role"]) == (leader, "leader")
        assert len(summary(figures["cluster"])) == 3
        brief = (await administration.picture())["cluster"]
        assert brief is not None
        assert (brief["node"], brief["role"], brief["epoch"]) == (leader, "leader", led["epoch"])
        assert (brief["members"], brief["in_step"], brief["worst"], brief["lag_records"]) == (3, 3, None, 0)
        assert str(administration.address) == nodes.send(leader)
    await _looked_at_over_http(nodes, leader, first)


async def _looked_at_over_http(nodes: Nodes, leader: str, follower: str) -> None:
    get = lambda name, path, method="GET": asyncio.to_thread(asked, nodes.http(name) + path, method)  # noqa: E731
    status, text = await get(follower, "/api/v1/cluster")
    assert (status, json.loads(text)["node"]) == (200, follower)
    assert json.loads((await get(leader, "/api/v1/stats"))[1])["cluster"]["role"] == "leader"
    status, text = await get(follower, f"/api/v1/cluster/members/{leader}", "DELETE")
    assert (status, json.loads(text)["code"]) == (503, "not-leader")
    status, text = await get(leader, f"/api/v1/cluster/members/{leader}", "DELETE")
    assert (status, json.loads(text)["code"]) == (409, "change-refused")
    figures = (await get(leader, "/metrics"))[1].decode()
    heads = {line.split()[2] for line in figures.splitlines() if line.startswith("# TYPE")}
    assert {each.name for each in families.EVERY if each.name.startswith("penstock_cluster_")} <= heads
    assert 'penstock_cluster_role{role="leader"} 1' in figures
    assert f'penstock_cluster_member_lag_records{{member="{follower}"}} 0' in figures
    told = (await get(follower, "/metrics"))[1].decode()
    assert 'penstock_cluster_role{role="follower"} 1' in told
    assert "penstock_cluster_member_lag_records" not in told


async def _changed(nodes: Nodes, folder: Path) -> None:
    leader = await nodes.leader()
    first, second = sorted(set("abc") - {leader})
    async with Administration(nodes.send()) as administration:
        why = await refused(administration.add_member("d", nodes.links("d")))
        assert "Start it there first, with --node d" in why
        assert "restart its node first" in await refused(administration.remove_member(leader))
        assert "restart its node first" in await refused(administration.move_member(leader))
        assert "restart its node first" in await refused(administration.move_member(leader, nodes.links(leader)))
        assert "there is no member 'e': there are a, b, c" in await refused(administration.remove_member("e"))
        assert "there is nothing to move" in await refused(administration.move_member(first))
        assert "no change of the members is under way" in await refused(administration.give_up_change())
        assert "and has to be 1-63 letters" in await refused(administration.add_member("no name", "x"))
        waits = await nodes.start("d")
        assert (await nodes.stands(lambda _: True, "d"))["role"] == "waiting"
        assert "there is the node 'd'" in await refused(administration.add_member("e", nodes.links("d")))
        added = await administration.add_member("d", nodes.links("d"))
        assert added == {"name": "d", "directory": waits.storage.directory_id}
        facts = await nodes.stands(lambda facts: bool(member(facts, "d").get("counts")) and not facts["change"], leader)
        assert member(facts, "d")["replication"] == nodes.links("d")
        assert "there is a member 'd' already" in await refused(administration.add_member("d", nodes.links("d")))
        # The same directory at another address: the ports of its clients stay.
        elsewhere = nodes.links(first).replace("127.0.0.1", "localhost")
        await administration.move_member(first, elsewhere)
        facts = await nodes.stands(
            lambda facts: member(facts, first).get("replication") == elsewhere and not facts["change"], leader
        )
        assert member(facts, first)["send"] == nodes.send(first).replace("127.0.0.1", "localhost")
        # A directory that was wiped.
        await nodes.stop(second)
        shutil.rmtree(folder / second)
        anew = (await nodes.start(second)).storage.directory_id
        assert await administration.move_member(second) == {"name": second, "directory": anew}
        facts = await nodes.stands(
            lambda facts: member(facts, second).get("directory") == anew and not facts["change"], leader
        )
        assert member(facts, second)["counts"]
        # Without its register it does not change, and goes on.
        nodes.register.up = False
        assert "the register did not have the change" in await refused(administration.remove_member("d"))
        assert "switched off" in (await administration.cluster())["register"]
        nodes.register.up = True
        await nodes.stands(lambda facts: not member(facts, "d"), leader)
        assert "if it was removed, restart it" in await refused(administration.add_member("d", nodes.links("d")))
        await nodes.stop("d")


def test_a_member_moves_to_another_machine_while_its_former_node_still_runs(tmp_path: Path) -> None:
    async def body() -> None:
        async with cluster(tmp_path) as nodes:
            leader = await nodes.leader()
            first = min(set("abc") - {leader})
            place = replace(nodes.config("d"), cluster_node=first)
            async with (
                ClusterNode(place, register=nodes.register) as there,
                Administration(nodes.send()) as administration,
            ):
                await nodes.stands(lambda facts: bool(member(facts, first)["connected"]), leader)
                anew = there.storage.directory_id
                moved = await administration.move_member(first, nodes.links("d"))
                assert moved == {"name": first, "directory": anew}
                facts = await nodes.stands(
                    lambda facts: member(facts, first).get("directory") == anew and not facts["change"], leader
                )
                assert member(facts, first)["send"] == nodes.send("d")

    run(body())


def test_a_broker_that_is_alone_says_so_and_shows_nothing_of_a_cluster() -> None:
    async def body() -> None:
        async with Broker(BrokerConfig(FREE, FREE)) as broker, Administration(broker.send_address) as administration:
            for call in (administration.cluster(), administration.remove_member("a"), administration.give_up_change()):
                assert "this broker is alone" in await refused(call, "no-cluster")
            assert "cluster" not in await administration.statistics()
        async with Broker(BrokerConfig(FREE, FREE)) as broker, Administration(broker.send_address, any_node=True) as it:
            assert await it.queues() == []

    run(body())


def test_a_node_reads_its_users_anew_whether_it_leads_or_follows(tmp_path: Path) -> None:
    from transport.config.settings_sources import resolve

    users = tmp_path / "users.toml"
    users.write_text("version = 1\n")
    users.chmod(0o600)

    async def body() -> None:
        async with cluster(tmp_path, users_file=str(users)) as nodes:
            settings = resolve({}, {})
            for node in nodes.running.values():
                reloads = await node.reloads()
                before = reloads
                assert reloads.has("users")
                standing = node.service.broker or node._door.broker
                assert standing is not None
                assert reloads is standing.reloads
                seen = standing._entrance.users
                await reloads.reload({}, settings)
                assert standing._entrance.users is not seen
                assert await node.reloads() is before

    run(body())


def test_followers_know_where_the_leader_speaks_amqp_and_the_status_shows_it(tmp_path: Path) -> None:
    async def body() -> None:
        async with cluster(tmp_path, amqp=True) as nodes:
            leader = await nodes.leader()
            follower = next(name for name in "abc" if name != leader)
            facts = await nodes.stands(lambda facts: facts["leader"] == leader, follower)
            amqp = nodes.config(leader).amqp
            assert (member(facts, leader)["amqp"], member(facts, leader)["amqps"]) == (amqp, None)
            lines = status_lines(facts, None)
            assert any(line.split()[4:6] == ["http", "amqp"] for line in lines if line.startswith("name"))
            assert any(str(amqp) in line for line in lines)
            door = nodes.running[follower]._door
            assert door._leadership.why("amqp") == f"this broker does not lead its cluster; its leader is at {amqp}"
            # A listener of which the document knows no address: the host is told all the same.
            assert door._leadership.why("amqps") == "this broker does not lead its cluster; its leader is on 127.0.0.1"

    run(body())


class AtOneOf:
    """An administration client that has gone to the first of three addresses; what each says."""

    addresses = ("a:1", "b:1", "c:1")

    def __init__(self, said: dict[str, dict[str, Any]], address: str = "a:1") -> None:
        self._said, self.address = said, address

    def elsewhere(self, address: str) -> AtOneOf:
        return AtOneOf(self._said, address)

    async def __aenter__(self) -> Self:
        if self.address not in self._said:
            raise ConnectionLostError("nobody is there")
        return self

    async def __aexit__(self, *_: object) -> None:
        """It has no connection."""

    async def cluster(self) -> dict[str, Any]:
        return self._said[self.address]


def test_where_the_node_that_answers_waits_another_that_is_of_the_cluster_is_asked() -> None:
    async def body() -> None:
        waits: dict[str, Any] = {"node": "a", "role": "waiting", "members": [], "register": "answers"}
        row = {"name": "c", "send": "c:1", "role": "leader"}
        leads = {"node": "c", "role": "leader", "leader": "c", "members": [row]}
        found: Any = AtOneOf({"a:1": waits, "c:1": leads})
        assert await look(found) is leads
        alone: Any = AtOneOf({"a:1": waits})
        assert await look(alone) is waits
        lines = status_lines(waits, None)
        assert lines[0] == "node a is of no cluster yet"
        assert "its log says for what" in lines[-1]

    run(body())


def test_without_amqp_the_status_has_no_column_for_it() -> None:
    row = {"name": "a", "amqp": None, "amqps": None}
    assert not any("amqp" in line for line in status_lines({"members": [row]}, None))
