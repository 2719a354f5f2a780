"""Somebody changes the cluster's document behind its back: no node ends, none goes by it, and all goes on when the right one is back."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from actors.replication.document import MAX_EPOCH, ClusterDocument
from streams import Source
from tests.transport.node.nodes import cluster
from transport import Sender


def of_another_cluster(document: ClusterDocument) -> ClusterDocument | None:
    return replace(document, cluster="e" * 32)


def far_ahead(document: ClusterDocument) -> ClusterDocument | None:
    return replace(document, epoch=MAX_EPOCH)


def nothing(_: ClusterDocument) -> ClusterDocument | None:
    return None


@pytest.mark.parametrize("made", [of_another_cluster, far_ahead, nothing])
def test_a_document_that_somebody_put_there_leads_nobody_and_ends_nobody(tmp_path: Path, made: object) -> None:
    assert callable(made)

    async def main() -> None:
        async with cluster(tmp_path) as nodes:
            right, version = nodes.register.document, nodes.register.version
            assert right is not None
            async with asyncio.timeout(30):
                # The two that have begun to lead need not wait for the third, which could not come in by such a document.
                while any(node.node is None for node in nodes.running.values()):
                    await nodes.stands(lambda _: True)
            nodes.register.document, nodes.register.version = made(right), version + 1
            await nodes.stop(await nodes.leader())
            # Those that are left miss their leader, and ask the register who may lead.
            facts = await nodes.stands(lambda facts: facts["register"] != "answers")
            assert "does not answer: " in facts["register"]
            others = list(nodes.running.values())
            async with asyncio.timeout(30):
                while any(node.node is None or node.node.register_calls.reachable for node in others):
                    facts = await nodes.stands(lambda _: True)
            assert all(node.service.broker is None for node in others)
            assert not any(node._ended.done() for node in others)
            nodes.register.document, nodes.register.version = right, version + 2
            await nodes.leader()
            await Source.single(b"one").to(Sender(nodes.send(), queue="orders")).run()
            assert nodes.register.document.cluster == right.cluster
            assert nodes.register.document.epoch == right.epoch + 1

    asyncio.run(main())


def test_a_node_that_starts_waits_for_a_document_that_its_cluster_can_have(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with cluster(tmp_path) as nodes:
            right, version = nodes.register.document, nodes.register.version
            assert right is not None
            follower = next(name for name in "abc" if name != right.leader)
            await nodes.stop(follower)
            nodes.register.document, nodes.register.version = far_ahead(right), version + 1
            node = await nodes.start(follower)
            async with asyncio.timeout(30):
                while "no document that this node can go by" not in caplog.text:
                    await nodes.stands(lambda _: True, follower)
            assert node.node is None, "it is no member yet"
            nodes.register.document, nodes.register.version = right, version + 2
            await nodes.stands(lambda facts: facts["role"] == "follower", follower)

    asyncio.run(main())
