"""A node as a whole, in this process: a cluster of one, over a register in memory."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from actors.errors import StorageError
from actors.replication.document import ClusterDocument, DocumentError
from actors.replication.limits import HAND_OVER_SECONDS
from actors.replication.register import NOTHING, RegisterMovedError, Versioned
from streams import Source
from streams.testkit import settle
from tests.free_ports import free_ports
from transport import BrokerConfig, Receiver, Sender
from transport.node.cluster_node import ClusterNode

SECONDS = 30


class Register:
    """One document, never out of reach."""

    def __init__(self) -> None:
        self.held = Versioned(NOTHING, None)
        self.reads = 0
        self.garbled = 0

    async def read(self) -> Versioned:
        self.reads += 1
        if self.garbled:
            self.garbled -= 1
            raise DocumentError("it is of version 77")
        return self.held

    async def swap(self, version: int, document: ClusterDocument) -> int:
        if version != self.held.version:
            raise RegisterMovedError(self.held.version)
        self.held = Versioned(version + 1, document)
        return version + 1


def settings(tmp_path: Path, **more: Any) -> BrokerConfig:
    secret = tmp_path / "secret"
    secret.write_text("a secret of all nodes, long enough\n")
    secret.chmod(0o600)
    send, receive, link = free_ports(3)
    return BrokerConfig(
        send_address=f"127.0.0.1:{send}",
        receive_address=f"127.0.0.1:{receive}",
        directory=str(tmp_path / "data"),
        cluster="etcd://127.0.0.1:1/orders",
        cluster_node="a",
        cluster_members=f"a=127.0.0.1:{link}",
        cluster_address=f"127.0.0.1:{link}",
        cluster_secret_file=str(secret),
        **more,
    )


LOOK_SECONDS = 0.02


async def until(condition: Any) -> None:
    async with asyncio.timeout(SECONDS):
        while not condition():
            await settle(LOOK_SECONDS)  # what changes tells nobody


@asynccontextmanager
async def leading(config: BrokerConfig, register: Register) -> AsyncIterator[ClusterNode]:
    async with ClusterNode(config, register=register) as node:
        await until(lambda: node.service.broker is not None)
        yield node


def test_a_node_whose_disk_fails_lets_go_of_its_lead_without_delay(tmp_path: Path) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        config = settings(tmp_path, drain=20.0)
        began: list[float] = []
        quiet: list[socket.socket] = []

        async def fails() -> None:
            host, port = config.send_address.split(":")
            async with leading(config, Register()) as node:
                quiet.append(socket.create_connection((host, int(port))))
                node.storage._storage.fail(StorageError("the disk"))
                began.append(loop.time())
                await asyncio.wait_for(node.serve_forever(), SECONDS)

        with pytest.raises(StorageError, match="the disk"):
            await fails()
        assert loop.time() - began[0] < 4.0
        quiet[0].close()

    asyncio.run(main())


def test_a_document_that_cannot_be_read_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transport.node.finding.LOOK_SECONDS", 0.02)
    monkeypatch.setattr("actors.replication.leader.HAND_OVER_SECONDS", 0.05)

    async def main() -> None:
        register = Register()
        register.garbled = 3
        async with leading(settings(tmp_path), register):
            assert register.reads > 3

    asyncio.run(main())


def three(tmp_path: Path) -> dict[str, BrokerConfig]:
    ports = free_ports(9)
    members = ",".join(f"{name}=127.0.0.1:{ports[number]}" for number, name in enumerate("abc"))
    made = {}
    for number, name in enumerate("abc"):
        place = tmp_path / name
        place.mkdir()
        made[name] = replace(
            settings(place),
            send_address=f"127.0.0.1:{ports[3 + number]}",
            receive_address=f"127.0.0.1:{ports[6 + number]}",
            cluster_node=name,
            cluster_members=members,
            cluster_address=f"127.0.0.1:{ports[number]}",
            drain=0.0,
        )
    return made


def test_a_cluster_begins_when_all_are_there_and_goes_on_without_any_one_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transport.node.finding.LOOK_SECONDS", 0.1)

    async def main() -> None:
        register = Register()
        configs = three(tmp_path)
        async with AsyncExitStack() as stack:
            nodes = {name: ClusterNode(configs[name], register=register) for name in "ab"}
            for node in nodes.values():
                await stack.enter_async_context(node)
            reads = register.reads
            await until(lambda: register.reads > reads + 6)
            assert register.held.document is None, "one of the three has never been heard"
            nodes["c"] = ClusterNode(configs["c"], register=register)
            await stack.enter_async_context(nodes["c"])
            await until(lambda: any(node.service.broker is not None for node in nodes.values()))
            addresses = ",".join(config.send_address for config in configs.values())
            receiving = ",".join(config.receive_address for config in configs.values())
            await Source.single(b"one").to(Sender(addresses, queue="orders")).run()
            led = next(name for name, node in nodes.items() if node.service.broker is not None)
            await nodes.pop(led).__aexit__(None, None, None)
            await until(lambda: any(node.service.broker is not None for node in nodes.values()))
            async for delivery in Receiver(receiving, queue="orders", limit=1):
                assert bytes(delivery.payload) == b"one"
                delivery.acknowledge()

    asyncio.run(main())


def test_a_leader_that_is_told_to_end_waits_for_nobody_where_nobody_could_take_over(tmp_path: Path) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with leading(settings(tmp_path, drain=0.0), Register()):
            began = loop.time()
        assert loop.time() - began < HAND_OVER_SECONDS / 2

    asyncio.run(main())


def test_a_node_says_that_the_mode_in_its_settings_is_not_the_clusters(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actors.replication.leader.HAND_OVER_SECONDS", 0.05)
    caplog.set_level(logging.INFO, "penstock.cluster")

    async def main() -> None:
        register = Register()
        config = settings(tmp_path, drain=0.0, cluster_mode="one")
        for mode, level in (("one", None), ("async", "WARNING"), ("majority", "INFO")):
            caplog.clear()
            async with leading(replace(config, cluster_mode=mode), register):
                said = [each for each in caplog.records if "is not looked at" in each.message]
                assert [each.levelname for each in said] == ([] if level is None else [level])
                text = f"the mode of this cluster is one, chosen when it began: cluster_mode {mode} is not looked at"
                assert all(each.message == text for each in said)

    asyncio.run(main())
