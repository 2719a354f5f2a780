"""A stage client that tries again: what is sent once more, what is stored already, and whose fault a wrong answer is."""

from __future__ import annotations

import threading
from functools import partial

import pytest

from actors import EnlistedStage
from tests.transport.scripted_peers import DEADLINE, Peer, Script, unused_address
from tests.transport.stage_client.conftest import AMPLE, Play, batch, numbered, read_send, take, welcome
from transport import BrokerError, ConnectionLostError, MessageBatch, RemoteProtocolError
from transport.clients.backoff import Backoff
from transport.clients.stage_client import StageClient, StageConnection
from transport.errors import (
    QueueFullError,
    StageLostError,
)
from transport.wire.frames import MAX_BODY_BYTES
from transport.wire.messages import Error, Frame, Hello, Send, Sent

NO_PATIENCE = Backoff(minimum=0.0, maximum=0.0, jitter=0.0, give_up_after=0.0)
"""One more attempt, at once."""


def greeting(*, stored: int | None = None, committed: bool = False) -> Script:
    """Nothing but WELCOME and demand, to whatever the client says; one that closed at once might be gone before it is heard."""

    def script(peer: Peer) -> None:
        welcome(peer, AMPLE, stored=stored, committed=committed)
        peer.read_to_end()

    return script


def stage(client: StageClient, *batches: MessageBatch) -> EnlistedStage:
    for one in batches:
        client.send(one)
    return client.finish()


def refuse(code: str, *, close: bool = True) -> Script:
    def script(peer: Peer) -> None:
        welcome(peer, AMPLE)
        peer.read(Send)
        peer.send(Error(code, "no", close=close))
        peer.read_to_end()

    return script


def test_what_is_unconfirmed_is_sent_again_from_where_the_broker_has_it(play: Play) -> None:
    """Confirmed to 4, stored to 7 in the middle of a batch: on the second connection it goes on with 7."""
    hellos: list[Hello] = []

    def break_off(peer: Peer) -> None:
        welcome(peer, AMPLE, hellos=hellos)
        take(peer, 12)
        peer.send(Sent(4, 0))

    def go_on(peer: Peer) -> None:
        welcome(peer, AMPLE, stored=7, hellos=hellos)
        assert take(peer, 5, 7) == numbered(7, 12).payloads.tolist()
        peer.send(Sent(8, 7), Sent(12, 8))

    client = play(break_off, go_on)
    for start in (0, 4, 8):
        client.send(numbered(start, start + 4))
    assert client.finish() == EnlistedStage("orders", "0-1", 12)
    assert hellos[0] == hellos[1]


def test_what_was_all_stored_is_not_sent_again(play: Play) -> None:
    def break_off(peer: Peer) -> None:
        welcome(peer, AMPLE)
        take(peer, 4)

    def again(peer: Peer) -> None:
        welcome(peer, stored=4)  # the client has nothing to wait for, and may close before it reads more
        assert peer.read_to_end() == []

    client = play(break_off, again)
    client.send(numbered(0, 4))
    assert client.finish().messages == 4
    client.close()


def test_a_connection_that_ended_while_idle_is_made_again_unseen(play: Play) -> None:
    closed = threading.Event()

    def time_out(peer: Peer) -> None:
        welcome(peer, AMPLE)
        assert read_send(peer, 0) == [b"a"]
        peer.send(Sent(1, 0), Error("timeout", "silent for 15 s", close=True))
        closed.set()

    def again(peer: Peer) -> None:
        welcome(peer, AMPLE, stored=1)
        assert read_send(peer, 1) == [b"b"]
        peer.send(Sent(2, 1))

    # No retry is allowed: the reconnection must not count as one.
    client = play(time_out, again, retry=Backoff(minimum=1.0, give_up_after=0.0))
    client.send(batch(b"a"))
    assert closed.wait(DEADLINE)
    client.send(batch(b"b"))
    assert client.finish().messages == 2


def test_a_broker_that_lost_what_it_had_confirmed_is_an_error(play: Play) -> None:
    def confirm(peer: Peer) -> None:
        welcome(peer, AMPLE)
        take(peer, 4)
        peer.send(Sent(4, 0))
        take(peer, 4, 4)

    client = play(confirm, greeting(stored=2))
    client.send(numbered(0, 4))
    with pytest.raises(StageLostError, match=r"has 2 messages of stage '0-1'.*had confirmed 4.*Stage the batch again"):
        stage(client, numbered(4, 8), numbered(8, 12))


def test_a_stage_that_holds_what_this_client_never_sent_is_anothers(play: Play) -> None:
    with pytest.raises(RemoteProtocolError, match="another task uses its name"):
        play(greeting(stored=5)).send(batch(b"a"))


def test_a_broker_that_does_not_know_stages_is_not_sent_anything(play: Play) -> None:
    def older(peer: Peer) -> None:
        peer.welcome({"last_sequence": None})
        assert peer.read_to_end() == []

    with pytest.raises(RemoteProtocolError, match="does not know transactions"):
        play(older).send(batch(b"a"))


@pytest.mark.parametrize(
    ("confirmed", "why"),
    [(Sent(3, 0), "where no batch ends"), (Sent(99, 0), "only what is numbered below 4 was sent")],
)
def test_a_confirmation_where_no_batch_ends_is_an_error(play: Play, confirmed: Sent, why: str) -> None:
    def script(peer: Peer) -> None:
        welcome(peer, AMPLE)
        take(peer, 4)
        peer.send(confirmed)
        peer.read_to_end()

    client = play(script)
    with pytest.raises(RemoteProtocolError, match=why):
        stage(client, numbered(0, 4))


def test_a_confirmation_where_no_batch_ends_is_an_error_that_is_told_though_it_came_while_nobody_looked(
    play: Play,
) -> None:
    returned, said = threading.Event(), threading.Event()

    def script(peer: Peer) -> None:
        welcome(peer, AMPLE)
        take(peer, 4)
        assert returned.wait(DEADLINE)
        peer.send(Sent(3, 0))
        said.set()
        peer.read_to_end()

    client = play(script)

    def send_and_look_later() -> None:
        client.send(numbered(0, 4))
        returned.set()
        assert said.wait(DEADLINE)
        client.finish()

    with pytest.raises(RemoteProtocolError, match="where no batch ends"):
        send_and_look_later()


def test_a_confirmation_of_nothing_is_an_error(play: Play) -> None:
    def script(peer: Peer) -> None:
        welcome(peer, Sent(0, 0))
        peer.read_to_end()

    with pytest.raises(RemoteProtocolError, match="SENT answers nothing"):
        play(script).send(batch(b"a"))


def test_a_queue_that_rejects_is_an_error_that_says_how_much(play: Play) -> None:
    def script(peer: Peer) -> None:
        welcome(peer, AMPLE)
        take(peer, 4)
        peer.send(Sent(4, None, "max_messages is 1"))
        peer.read_to_end()

    client = play(script, greeting())
    with pytest.raises(QueueFullError, match="rejected 4 messages from number 0 on: max_messages is 1"):
        stage(client, numbered(0, 4))


def test_a_rejected_batch_is_kept_and_sent_again_by_whoever_tries_again(play: Play) -> None:
    def reject(peer: Peer) -> None:
        welcome(peer, AMPLE)
        take(peer, 4)
        peer.send(Sent(4, None, "max_messages is 1"))
        peer.read_to_end()

    def store(peer: Peer) -> None:
        welcome(peer, AMPLE)
        take(peer, 4)
        peer.send(Sent(4, 0))
        peer.read_to_end()

    client = play(reject, store)
    with pytest.raises(QueueFullError):
        stage(client, numbered(0, 4))
    assert client.finish() == EnlistedStage("orders", "0-1", 4)


def test_a_rejection_that_comes_while_nobody_looks_is_told_by_the_next_call(play: Play) -> None:
    sent, rejected = threading.Event(), threading.Event()

    def reject(peer: Peer) -> None:
        welcome(peer, AMPLE)
        take(peer, 4)
        assert sent.wait(DEADLINE)
        peer.send(Sent(4, None, "max_messages is 1"))
        rejected.set()
        peer.read_to_end()

    client = play(reject, greeting())
    client.send(numbered(0, 4))
    sent.set()
    assert rejected.wait(DEADLINE)
    with pytest.raises(QueueFullError, match="max_messages is 1"):
        client.finish()


def test_a_connection_that_breaks_between_two_frames_of_a_batch_leaves_the_first_stored(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = threading.Event()
    send = StageConnection.send
    frames = 0

    def break_off(connection: StageConnection, frame: Frame) -> None:
        nonlocal frames
        if isinstance(frame, Send):
            frames += 1
            if frames == 2:
                assert stored.wait(DEADLINE)
                raise ConnectionResetError("reset")
        send(connection, frame)

    def one(peer: Peer) -> None:
        welcome(peer, AMPLE)
        assert len(peer.read(Send).batch) == 1
        stored.set()
        peer.read_to_end()

    def two(peer: Peer) -> None:
        welcome(peer, AMPLE, stored=1)
        rest = peer.read(Send)
        assert (rest.sequence, len(rest.batch)) == (1, 1)
        peer.send(Sent(2, 0))
        peer.read_to_end()

    monkeypatch.setattr(StageConnection, "send", break_off)
    large = batch(*[bytes(MAX_BODY_BYTES * 2 // 3)] * 2)
    assert stage(play(one, two), large) == EnlistedStage("orders", "0-1", 2)


def test_a_commit_that_came_between_makes_what_is_left_needless(play: Play) -> None:
    client = play(refuse("transaction-committed"))
    client.send(numbered(0, 4))
    assert client.finish() == EnlistedStage("orders", "0-1", 4)
    client.send(numbered(4, 8))
    assert client.finish().messages == 8
    assert client.open() is False


def test_a_batch_rejected_by_a_commit_that_came_between_is_needless_too(play: Play) -> None:
    def reject(peer: Peer) -> None:
        welcome(peer, AMPLE)
        take(peer, 4)
        peer.send(Sent(4, None, "version 3 of writer 'w' is committed"))
        peer.read_to_end()

    client = play(reject, greeting(committed=True))
    assert stage(client, numbered(0, 4)) == EnlistedStage("orders", "0-1", 4)


@pytest.mark.parametrize("code", ["transaction-too-large", "taken-over", "transaction-incomplete", "protocol-error"])
def test_a_refusal_that_will_not_change_is_raised_at_once(play: Play, code: str) -> None:
    client = play(refuse(code))
    with pytest.raises(BrokerError) as caught:
        stage(client, numbered(0, 4))
    assert caught.value.code == code


def test_a_refusal_that_comes_in_the_middle_of_a_frame_is_heard(play: Play) -> None:
    def refuse_unread(peer: Peer) -> None:
        # It closes with most of the batch unread, which resets the connection under the client's write.
        welcome(peer, AMPLE, Error("transaction-too-large", "max_staged_bytes is 1", close=True))

    client = play(refuse_unread)
    with pytest.raises(BrokerError, match="max_staged_bytes is 1"):
        stage(client, batch(b"x" * (MAX_BODY_BYTES - 100)))


@pytest.mark.parametrize("code", ["shutting-down", "internal-error", "queue-deleted"])
def test_a_refusal_that_may_pass_is_tried_again(play: Play, code: str) -> None:
    def again(peer: Peer) -> None:
        welcome(peer, AMPLE)
        take(peer, 4)
        peer.send(Sent(4, 0))

    client = play(refuse(code), again)
    client.send(numbered(0, 4))
    assert client.finish().messages == 4


def test_a_broker_that_always_breaks_off_is_given_up(play: Play) -> None:
    """It answers HELLO each time and then closes on the batch: that is no progress, so patience ends."""

    def break_off(peer: Peer) -> None:
        welcome(peer, AMPLE)
        peer.read(Send)

    client = play(break_off, break_off, retry=NO_PATIENCE)
    with pytest.raises(ConnectionLostError, match=r"could not be reached.*2 attempts"):
        stage(client, numbered(0, 4))


def test_a_confirmation_renews_the_patience(play: Play) -> None:
    def confirm_some(peer: Peer, stored: int) -> None:
        welcome(peer, AMPLE, stored=stored)
        take(peer, 4, stored)
        peer.send(Sent(stored + 4, stored))
        take(peer, 4, stored + 4)

    def confirm_all(peer: Peer) -> None:
        welcome(peer, AMPLE, stored=12)
        take(peer, 4, 12)
        peer.send(Sent(16, 12))

    # More connections break than are borne without a confirmation between.
    client = play(*[partial(confirm_some, stored=stored) for stored in (0, 4, 8)], confirm_all, retry=NO_PATIENCE)
    assert stage(client, *(numbered(start, start + 4) for start in (0, 4, 8, 12))).messages == 16


def test_an_unreachable_broker_is_given_up_with_the_reason() -> None:
    seconds = iter(range(1000))
    client = StageClient(
        unused_address(),
        queue="orders",
        writer="w",
        version=0,
        stage="s",
        retry=Backoff(minimum=0.0, maximum=0.0, give_up_after=3.0),
        clock=lambda: float(next(seconds)),
    )
    with pytest.raises(ConnectionLostError, match=r"queue 'orders' could not be reached.*refused"):
        client.send(batch(b"a"))
