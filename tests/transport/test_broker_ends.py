"""What a broker inside a program leaves behind: nothing, whether it was stopped or could not start."""

from __future__ import annotations

import asyncio
import logging
import socket
from pathlib import Path
from typing import Any

import pytest

from actors import (
    Acknowledged,
    CaughtUp,
    CommitRequested,
    DemandSignalled,
    OfferBatch,
    QueueDirectory,
    QueueSettings,
    StorageError,
)
from actors.batch import MessageBatch
from streams.testkit import settle
from tests.decoding import FrameDecoder
from transport import Broker
from transport.broker.listener import Host, Listener
from transport.config.config import BrokerConfig
from transport.errors import LimitExceededError
from transport.wire.address import parse_address
from transport.wire.codec import decode
from transport.wire.frames import MAX_FRAME_BYTES
from transport.wire.messages import Error

pytestmark = pytest.mark.event_loop

ANY = "127.0.0.1:0"


def to_the_end(client: socket.socket) -> bytes:
    received = b""
    with client:
        while data := client.recv(4096):
            received += data
    return received


@pytest.mark.parametrize("served", [True, False])
def test_whoever_serves_is_told_of_the_end_and_the_log_only_where_nobody_does(
    run: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture, served: bool
) -> None:
    async def main() -> None:
        async with Broker(BrokerConfig(send_address=ANY, receive_address=ANY, directory=str(tmp_path))) as broker:
            assert broker._storage is not None
            serving = asyncio.create_task(broker.serve_forever()) if served else None
            await asyncio.sleep(0)
            broker._storage.fail(StorageError("the journal is damaged"))
            if serving is not None:
                with pytest.raises(StorageError, match="damaged"):
                    await serving
        assert [record.levelname for record in caplog.records] == ([] if served else ["CRITICAL"])

    with caplog.at_level(logging.ERROR, "penstock"):
        run(main)


def test_a_queue_that_is_made_while_the_queues_are_stopped_is_stopped_too(run: Any, tmp_path: Path) -> None:
    class MakesOneMore(QueueDirectory):
        def end(self) -> None:
            asyncio.get_running_loop().call_soon(self.declare, "late", QueueSettings())
            super().end()

    async def main() -> None:
        config = BrokerConfig(send_address=ANY, receive_address=ANY, directory=str(tmp_path))
        async with Broker(config, queue_directory=MakesOneMore) as broker:
            broker.queues.declare("early", QueueSettings())
        assert [(name, queue.is_alive()) for name, queue in broker.queues.items()] == [
            ("early", False),
            ("late", False),
        ]

    run(main)


def test_a_connection_that_was_accepted_when_the_broker_stopped_is_told_and_closed(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        broker = Broker(BrokerConfig(send_address=ANY, receive_address=ANY))
        accepted, accept = asyncio.Event(), Listener.accept

        def noticed(listener: Listener[Any], host: Host, entrant: Any) -> Any:
            accepted.set()
            return accept(listener, host, entrant)

        monkeypatch.setattr(Listener, "accept", noticed)
        async with broker:
            client = socket.create_connection(parse_address(broker.send_address), 10.0)
            reading = asyncio.create_task(asyncio.to_thread(to_the_end, client))
            await accepted.wait()
            # Its protocol is there, its transport is not.
            assert not broker.connections
        assert not broker.connections
        assert not broker._connections._accepted
        received = await reading
        [raw] = FrameDecoder(MAX_FRAME_BYTES).receive_data(received)
        assert isinstance(error := decode(raw), Error)
        assert error.code == "shutting-down"

    run(main)


@pytest.mark.parametrize("cause", ["taken", "files"])
def test_a_broker_that_could_not_start_leaves_nothing_running(
    run: Any, cause: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            address = f"127.0.0.1:{taken.getsockname()[1]}" if cause == "taken" else ANY
            if cause == "files":
                monkeypatch.setattr("transport.broker.descriptors.soft_limit", lambda: 10)
            broker = Broker(
                BrokerConfig(send_address=ANY, receive_address=address, queues={"declared": QueueSettings()})
            )
            with pytest.raises((OSError, LimitExceededError)):
                await broker.__aenter__()
        assert broker.watermarks._timer is None
        await settle()
        assert [queue for queue in broker.queues.values() if queue.is_alive()] == []

    run(main)


@pytest.mark.parametrize("role", ["receiver", "sender", "subscription"])
def test_a_client_whose_words_meet_a_queue_that_was_just_deleted_is_told_so_and_not_of_a_defect(
    run: Any, serve: Any, peers: Any, caplog: pytest.LogCaptureFixture, role: str
) -> None:
    words: dict[str, list[Any]] = {
        "receiver": [Acknowledged([(0, 1)]), DemandSignalled(1, 1), CaughtUp()],
        "sender": [OfferBatch(0, MessageBatch.from_payloads([b"x"]), None, None), CaughtUp()],
        "subscription": [CommitRequested(1, 0), CaughtUp()],
    }

    async def main() -> None:
        async with serve() as broker, peers() as opened:
            address = broker.send_address if role == "sender" else broker.receive_address
            peer = await opened.open(address, role, subscription="s")
            [handler] = broker.connections.values()
            broker.queues.delete("orders")
            # Behind this the queue ends; what it tells its connections is behind what they have said.
            for word in words[role]:
                handler.actor.tell(word)
            assert (await peer.refusal()).code == "queue-deleted"
        assert not [record for record in caplog.records if record.levelname == "ERROR"]

    run(main)
