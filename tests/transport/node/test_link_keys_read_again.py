"""What a node proves itself by to the others is read anew at SIGHUP."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from streams.testkit import settle
from tests.transport.node.nodes import Nodes, cluster
from transport.config.settings_sources import Resolved
from transport.node.cluster_node import ClusterNode

if TYPE_CHECKING:
    from tests.transport.certificates import Certificates

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
                async with asyncio.timeout(20):
                    while waiting._links is None or len(waiting._links.connected) < 2:
                        await settle(0.02)
                assert waiting._keys.secret == NEW.encode()
            finally:
                for name in "ac":
                    await nodes.stop(name)
                del nodes.running["b"]

    asyncio.run(body())


def test_new_links_show_the_certificate_that_was_read_last(tmp_path: Path, certificates: Certificates) -> None:
    """One whose time is over is replaced in its file; those that cannot be used change nothing."""
    file, key = tmp_path / "certificate.pem", tmp_path / "key.pem"

    def put(issued: Any) -> None:
        file.write_bytes(Path(issued.certificate).read_bytes())
        key.write_bytes(Path(issued.key).read_bytes())

    async def body() -> None:
        put(certificates.server)
        files = {"cluster_certificate": str(file), "cluster_key": str(key), "cluster_ca": certificates.ca}
        async with cluster(tmp_path, **files) as nodes:
            leader = await nodes.leader()
            first = next(name for name in "abc" if name != leader)
            # Who starts with a certificate that is over gets no link, until it has read another one.
            put(certificates.expired)
            await nodes.stop(first)
            node = await nodes.start(first)
            async with asyncio.timeout(10):
                while node._links is None:
                    await settle(0.02)
            await settle(0.5)
            assert not node._links.connected
            put(certificates.server)
            await read_again(nodes, first)
            async with asyncio.timeout(20):
                while len(node._links.connected) < 2:
                    await settle(0.02)
            file.write_text("none")
            kept = node._keys
            await read_again(nodes, first)
            assert node._keys is kept

    asyncio.run(body())
