"""A node that is filled while senders go on: what they send meanwhile is more than the log that is kept for who lags."""

from __future__ import annotations

import asyncio
import logging
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from journal import TransferSource
from streams import Sink, Source
from tests.transport.node.nodes import DEADLINE, Nodes, cluster
from transport import Receiver, Sender
from transport.cli.cluster import status_lines
from transport.clients.administration import Administration
from transport.errors import BrokerError

SEGMENT_BYTES = 64 * 1024
LOG_BYTES = 1024 * 1024
PAYLOAD = bytes(16_000)
BACKLOG = 100


def member(facts: dict[str, Any], name: str) -> dict[str, Any]:
    return next(each for each in facts["members"] if each["name"] == name)


async def sent_and_received(nodes: Nodes, leader: str, count: int) -> None:
    """Messages that nobody wants any more when this returns."""
    config = nodes.running[leader].config
    await Source.from_iterable([PAYLOAD] * count).to(Sender(config.send_address, queue="passing")).run()
    receiver = Receiver(config.receive_address, queue="passing", limit=count)
    assert await receiver.to(Sink.acknowledge()).run() == count


async def moved(administration: Administration, name: str) -> None:
    """The node has been started, and is met as soon as it listens."""
    async with asyncio.timeout(DEADLINE):
        while True:
            try:
                await administration.move_member(name)
            except BrokerError as error:
                if "no node can be met" not in str(error):
                    raise
            else:
                return


def test_a_node_is_filled_once_though_the_log_behind_the_checkpoint_has_gone_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "penstock.cluster")
    reads, may = threading.Event(), threading.Event()
    given: list[tuple[int, int]] = []
    records = TransferSource.records

    def held_up(source: TransferSource, lsn: int = 0, *more: Any) -> Iterator[list[Any]]:
        given.append((source.lsn, lsn))
        reads.set()
        assert may.wait(DEADLINE)
        return records(source, lsn, *more)

    monkeypatch.setattr(TransferSource, "records", held_up)

    async def main() -> None:
        async with cluster(tmp_path, segment_bytes=SEGMENT_BYTES, cluster_log_bytes=LOG_BYTES) as nodes:
            leader = await nodes.leader()
            journal = nodes.running[leader].storage.journal
            joiner = min(set("abc") - {leader})

            async def passing_until_the_log_begins_behind(lsn: int) -> None:
                async with asyncio.timeout(DEADLINE):
                    while journal.log_start <= lsn:
                        await sent_and_received(nodes, leader, 100)

            await passing_until_the_log_begins_behind(2)  # who has nothing needs a transfer from now on
            address = nodes.send(leader)
            await Source.from_iterable([PAYLOAD] * BACKLOG).to(Sender(address, queue="backlog")).run()
            await nodes.stop(joiner)
            shutil.rmtree(tmp_path / joiner)
            anew = (await nodes.start(joiner)).storage.directory_id
            async with Administration(address) as administration:
                await moved(administration, joiner)
                assert await asyncio.to_thread(reads.wait, DEADLINE)
                ((first, _),) = given
                facts = await nodes.stands(lambda facts: member(facts, joiner)["role"] == "learner", leader)
                row = member(facts, joiner)
                assert (row["filling"], row["moves_to"], row["connected"], row["in_step"]) == (True, anew, True, False)
                assert row["directory"] != anew
                lines = status_lines(facts, None)
                where = f"and its figures are those of the directory that it moves to, {anew}"
                assert f"  under way: move {joiner}, {where}" in lines
                assert any(line.startswith(joiner) and "learner, filling" in line for line in lines)
                await passing_until_the_log_begins_behind(first)
                may.set()
                await nodes.stands(
                    lambda facts: member(facts, joiner)["directory"] == anew and bool(member(facts, joiner)["in_step"]),
                    leader,
                )
            folded = nodes.running[joiner].storage
            assert folded.journal.log_start > first
            (_, begun), (later, at) = given[0], given[-1]
            assert (begun, at > 0, later > first) == (0, True, True), "it has gone on where it was"
            assert sum(lsn == 0 for _, lsn in given) == 1
            # It has the backlog, with nobody's help but one other's to confirm.
            await nodes.stop(leader)
            other = await nodes.leader()
            config = nodes.running[other].config
            receiver = Receiver(config.receive_address, queue="backlog", limit=BACKLOG)
            assert await receiver.to(Sink.acknowledge()).run() == BACKLOG

    asyncio.run(main())
    assert caplog.text.count("and is given a transfer") == 1
    assert "it is given what has come since" in caplog.text
