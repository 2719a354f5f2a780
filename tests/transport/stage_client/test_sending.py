"""The blocking client of a stage against a broker that follows a script, frame by frame, on a real socket."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any

import pytest

from actors import EnlistedStage
from tests.transport.scripted_peers import DEADLINE, Peer, unused_address
from tests.transport.stage_client.conftest import AMPLE, Play, batch, numbered, read_send, take, welcome
from transport import LocalProtocolError
from transport.clients.stage_client import StageClient
from transport.errors import (
    DemandTimeoutError,
    InvalidNameError,
    MessageTooLargeError,
)
from transport.security.proofs import make_token
from transport.wire.frames import MAX_BODY_BYTES
from transport.wire.messages import Demand, Frame, Hello, Ping, Pong, Send, Sent

TOKEN = make_token()


def test_hello_names_the_stage_and_welcome_says_whether_anything_is_to_be_sent(play: Play) -> None:
    hellos: list[Hello] = []
    client = play(lambda peer: welcome(peer, hellos=hellos), token=TOKEN)
    assert client.open() is True
    hello = hellos[0]
    assert (hello.role, hello.queue) == ("sender", "orders")
    assert hello.options == {"writer": "w", "version": 3, "stage": "0-1", "token": TOKEN, "sign_ms": 2500}
    assert play(lambda peer: welcome(peer, committed=True)).open() is False


def test_a_version_that_is_committed_is_neither_sent_nor_an_error(play: Play) -> None:
    def script(peer: Peer) -> None:
        welcome(peer, committed=True)
        assert peer.read_to_end() == []

    client = play(script)
    client.send(batch(b"a", b"b"))
    assert client.finish() == EnlistedStage("orders", "0-1", 2)
    client.close()


def test_what_is_sent_is_numbered_from_zero_and_finish_waits_for_its_confirmation(play: Play) -> None:
    confirm, sent = threading.Event(), threading.Event()

    def script(peer: Peer) -> None:
        welcome(peer, AMPLE)
        assert read_send(peer, 0) == [b"a", b"bb"]
        assert read_send(peer, 2) == [b"", b"c"]
        sent.set()
        assert confirm.wait(DEADLINE)
        peer.send(Sent(2, 100), Sent(4, 102))

    client = play(script)
    client.send(batch(b"a", b"bb"))
    client.send(batch(b"", b"c"))
    assert sent.wait(DEADLINE)
    found: list[EnlistedStage] = []
    waiting = threading.Thread(target=lambda: found.append(client.finish()))
    waiting.start()
    assert not found
    confirm.set()
    waiting.join(DEADLINE)
    assert found == [EnlistedStage("orders", "0-1", 4)]


def test_a_stage_of_nothing_is_finished_without_a_connection() -> None:
    with StageClient(unused_address(), queue="q", writer="w", version=0, stage="s") as client:
        assert client.finish() == EnlistedStage("q", "s", 0)


def test_a_batch_leaves_in_the_parts_that_demand_lets_through(play: Play) -> None:
    def script(peer: Peer) -> None:
        welcome(peer, Demand(3, 1 << 20))
        assert read_send(peer, 0) == numbered(0, 3).payloads.tolist()
        peer.send(Demand(3, 1 << 20), Demand(2, 1))  # what was said before, and less: nothing more may be sent
        peer.send(Sent(3, 0), Demand(4, 1 << 20))
        assert read_send(peer, 3) == [b"000003"]
        peer.send(Sent(4, 3), Demand(100, 1 << 20))
        assert read_send(peer, 4) == numbered(4, 10).payloads.tolist()
        peer.send(Sent(10, 4))

    client = play(script)
    client.send(numbered(0, 10))
    assert client.finish().messages == 10


def test_bytes_of_demand_let_the_last_message_lead_beyond_them(play: Play) -> None:
    size = batch(b"x" * 100).nbytes

    def script(peer: Peer) -> None:
        welcome(peer, Demand(1000, 2 * size))
        first = peer.read(Send).batch
        # The last may begin within the demand and end beyond it.
        assert first.nbytes >= 2 * size > first.slice(0, len(first) - 1).nbytes
        peer.send(Sent(len(first), 0), AMPLE)
        rest = take(peer, 10 - len(first), len(first))
        peer.send(Sent(10, len(first)))
        assert rest == [b"x" * 100] * (10 - len(first))

    client = play(script)
    client.send(batch(*[b"x" * 100] * 10))
    assert client.finish().messages == 10


def test_a_batch_larger_than_a_frame_is_cut(play: Play) -> None:
    half = b"x" * (MAX_BODY_BYTES // 2)

    def script(peer: Peer) -> None:
        welcome(peer, AMPLE)
        for sequence in range(3):
            assert read_send(peer, sequence) == [half]
        peer.send(Sent(1, 0), Sent(2, 1), Sent(3, 2))

    client = play(script)
    client.send(batch(half, half, half))
    assert client.finish().messages == 3


def test_a_message_that_fits_no_frame_is_refused_before_anything_is_sent(play: Play) -> None:
    def script(peer: Peer) -> None:
        welcome(peer, AMPLE)
        assert read_send(peer, 0) == [b"b"]
        peer.send(Sent(1, 0))

    client = play(script)
    with pytest.raises(MessageTooLargeError):
        client.send(batch(b"a", b"x" * MAX_BODY_BYTES))
    client.send(batch(b"b"))
    assert client.finish().messages == 1


def test_no_more_is_kept_unconfirmed_than_the_bound(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    one = numbered(0, 10)
    monkeypatch.setattr("transport.clients.stage_client.MAX_UNCONFIRMED_BYTES", 2 * one.nbytes)
    together = threading.Event()

    def script(peer: Peer) -> None:
        welcome(peer, AMPLE)
        assert take(peer, 20)[:10] == one.payloads.tolist()
        peer.send(Ping(7))
        # The third waits, and its sender listens: this comes before it.
        assert peer.read(Pong) == Pong(7)
        together.set()
        peer.send(Sent(10, 0))
        assert len(read_send(peer, 20)) == 10
        peer.send(Sent(20, 10), Sent(30, 20))

    client = play(script)
    for _ in range(3):
        client.send(one)
    assert together.is_set()
    assert client.finish().messages == 30


def test_a_ping_is_answered_while_demand_is_awaited(play: Play) -> None:
    def script(peer: Peer) -> None:
        welcome(peer)
        for token in range(3):
            peer.send(Ping(token))
            assert peer.read(Pong) == Pong(token)
        peer.send(AMPLE)
        assert read_send(peer, 0) == [b"a"]
        peer.send(Sent(1, 0))

    client = play(script)
    client.send(batch(b"a"))
    assert client.finish().messages == 1


def test_a_broker_that_falls_silent_while_demand_is_awaited_is_left(play: Play) -> None:
    heard: list[Frame] = []

    def silent(peer: Peer) -> None:
        peer.welcome({"last_sequence": None, "committed": False}, heartbeat_ms=10)
        heard.extend(peer.read_to_end())

    def again(peer: Peer) -> None:
        welcome(peer, AMPLE)
        assert read_send(peer, 0) == [b"a"]
        peer.send(Sent(1, 0))

    client = play(silent, again)
    client.send(batch(b"a"))
    assert client.finish().messages == 1
    assert heard
    assert all(isinstance(frame, Ping) for frame in heard)


def test_a_queue_without_room_for_too_long_is_an_error_that_says_what_to_do(play: Play) -> None:
    now = 0.0

    def script(peer: Peer) -> None:
        nonlocal now
        welcome(peer, Demand(1, 1000))
        assert read_send(peer, 0) == [b"a"]
        peer.send(Sent(1, 0))
        # Its time goes on from here alone, and it looks at the clock behind each sign.
        with suppress(AssertionError, OSError):  # until it closes
            while True:
                peer.send(Ping(0))
                peer.read(Pong)
                now += 0.1

    client = play(script, demand_timeout=0.3, clock=lambda: now)
    with pytest.raises(DemandTimeoutError, match=r"queue 'orders' granted no room for 0\.3 s.*demandTimeout") as caught:
        client.send(batch(b"a", b"b"))
    assert caught.value.queue == "orders"


def test_what_is_no_batch_is_refused_before_anything_is_sent() -> None:
    client = StageClient(unused_address(), queue="orders", writer="w", version=3, stage="0-1")
    with pytest.raises(LocalProtocolError, match="takes a MessageBatch, not bytes"):
        client.send(b"abcde")  # type: ignore[arg-type]


def test_a_closed_client_refuses() -> None:
    client = StageClient(unused_address(), queue="q", writer="w", version=0, stage="s")
    client.close()
    with pytest.raises(LocalProtocolError, match="closed"):
        client.send(batch(b"a"))


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"version": -1}, LocalProtocolError),
        ({"version": True}, LocalProtocolError),
        ({"version": 2**63}, LocalProtocolError),
        ({"writer": "two words"}, InvalidNameError),
        ({"stage": ""}, InvalidNameError),
        ({"queue": "a\nb"}, InvalidNameError),
        ({"demand_timeout": 0.0}, LocalProtocolError),
        ({"demand_timeout": float("nan")}, LocalProtocolError),
    ],
)
def test_options_that_cannot_be_are_refused_here(options: dict[str, Any], error: type[Exception]) -> None:
    given: dict[str, Any] = {"queue": "q", "writer": "w", "version": 0, "stage": "s"}
    with pytest.raises(error):
        StageClient("127.0.0.1:1", **(given | options))
