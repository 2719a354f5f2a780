"""A scripted broker, and stage clients of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.transport.scripted_peers import AT_ONCE, Peer, Script, ScriptedBroker
from transport import MessageBatch
from transport.clients.stage_client import StageClient
from transport.wire.messages import Demand, Frame, Hello, Send

AMPLE = Demand(1_000_000, 1 << 30)

Play = Callable[..., StageClient]


@pytest.fixture
def play() -> Iterator[Play]:
    """``play(*scripts, **options)`` starts a scripted broker and makes a client of it; every script must have been played."""
    made: list[tuple[ScriptedBroker, StageClient]] = []

    def make(*scripts: Script, **options: Any) -> StageClient:
        broker = ScriptedBroker(*scripts)
        given: dict[str, Any] = {"queue": "orders", "writer": "w", "version": 3, "stage": "0-1", "retry": AT_ONCE}
        client = StageClient(broker.address, **(given | options))
        made.append((broker, client))
        return client

    yield make
    for broker, client in made:
        client.close()
        broker.finish()


def welcome(
    peer: Peer, *frames: Frame, stored: int | None = None, committed: bool = False, hellos: list[Hello] | None = None
) -> None:
    peer.welcome({"last_sequence": stored, "committed": committed}, hellos)
    peer.send(*frames)


def batch(*payloads: bytes) -> MessageBatch:
    return MessageBatch.from_payloads(payloads)


def numbered(start: int, stop: int) -> MessageBatch:
    return batch(*(b"%06d" % number for number in range(start, stop)))


def read_send(peer: Peer, sequence: int) -> list[bytes]:
    send = peer.read(Send)
    assert (send.sequence, send.properties) == (sequence, None)
    return send.batch.payloads.tolist()


def take(peer: Peer, count: int, sequence: int = 0) -> list[bytes]:
    """Read SENDs that follow one another until there are ``count`` messages, without a confirmation."""
    found: list[bytes] = []
    while len(found) < count:
        found += read_send(peer, sequence + len(found))
    return found
