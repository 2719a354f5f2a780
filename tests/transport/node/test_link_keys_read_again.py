"""What a node proves itself by to the others is read anew at SIGHUP."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from streams.testkit import settle
from tests.transport.node.nodes import Nodes, cluster
from transport.config.settings_sources import Resolved
from transport.node.cluster_node import ClusterNode

OLD, NEW = "0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210"


async def read_again(nodes: Nodes, *names: str) -> None:
    for name in names:
        reloads = await nodes.running[name].reloads()
        await reloads.reload({}, Resolved(nodes.config(name), (), ()))


def test_the_secret_is_changed_while_the_cluster_goes_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def body() -> None:
        async with cluster(tmp_path) as nodes:
            leader = await nodes.leader()
            first, second = sorted(set("abc") - {leader})
            secret = tmp_path / "secret"
            secret.write_text(f"{OLD}\n{NEW}\n")
            await read_again(nodes, "a", "b", "c")
            # One that starts with the new secret alone is let in by those that have both.
            secret.write_text(f"{NEW}\n")
            await nodes.stop(first)
            await nodes.start(first)
            await nodes.stands(
                lambda facts: facts["role"] == "leader" and all(m["connected"] for m in facts["members"])
            )
            await read_again(nodes, leader, second)
            # And a file that cannot be leaves what there was.
            secret.write_text("short\n")
            await read_again(nodes, leader, second)
            secret.write_text(f"{NEW}\n")
            await nodes.stop(first)
            await nodes.start(first)
            await nodes.stands(
                lambda facts: facts["role"] == "leader" and all(m["connected"] for m in facts["members"])
            )

    with caplog.at_level(logging.INFO):
        asyncio.run(body())
    assert "read again: keys of the links" in caplog.text
    assert "keys of the links: not read again, and as before: the secret in" in caplog.text
    assert OLD not in caplog.text


def test_a_node_that_waits_for_the_others_reads_its_secret_anew_too(tmp_path: Path) -> None:
    async def body() -> None:
        nodes = Nodes(tmp_path)
        async with ClusterNode(nodes.config("b"), register=nodes.register) as waiting:
            nodes.running["b"] = waiting
            (tmp_path / "secret").write_text(f"{NEW}\n")
            await read_again(nodes, "b")
            for name in "ac":
                await nodes.start(name)
            try:
                await nodes.leader()
                assert waiting._links is not None
                async with asyncio.timeout(10):
                    while len(waiting._links.connected) < 2:
                        await settle(0.02)
                assert waiting._keys.secret == NEW.encode()
            finally:
                for name in "ac":
                    await nodes.stop(name)
                del nodes.running["b"]

    asyncio.run(body())
