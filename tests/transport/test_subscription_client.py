"""The blocking subscription client against a broker that follows a script, frame by frame, on a real socket."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.transport.scripted_peers import AT_ONCE, DEADLINE, Peer, Script, ScriptedBroker, unused_address
from transport import BrokerError, ConnectionLostError, LocalProtocolError, MessageBatch, RemoteProtocolError
from transport.clients.backoff import Backoff
from transport.clients.subscription_client import (
    FETCH_WINDOW_BYTES,
    FETCH_WINDOW_MESSAGES,
    Reservation,
    SubscriptionClient,
    SubscriptionState,
)
from transport.security.proofs import make_token
from transport.wire.messages import (
    VERSION,
    Commit,
    Committed,
    Error,
    Fetch,
    Fetched,
    FetchEnd,
    Frame,
    Hello,
    Ping,
    Pong,
    Request,
    Reserve,
    Reserved,
    Welcome,
)

TOKEN = make_token()
PREFIX = bytes(range(8))


def welcome(peer: Peer, hellos: list[Hello] | None = None, *, heartbeat_ms: int = 5000, **facts: int) -> None:
    options: dict[str, Any] = {"epoch": 7, "base": 0, "high": 0, "high_water": 0} | facts
    peer.welcome(options | {"id_prefix": PREFIX}, hellos, heartbeat_ms=heartbeat_ms)


Play = Callable[..., SubscriptionClient]


@pytest.fixture
def play() -> Iterator[Play]:
    """``play(*scripts, **options)`` starts a scripted broker and makes a client of it; every script must have been played."""
    made: list[tuple[ScriptedBroker, SubscriptionClient]] = []

    def make(*scripts: Script, **options: Any) -> SubscriptionClient:
        broker = ScriptedBroker(*scripts)
        given: dict[str, Any] = {"queue": "orders", "subscription": "lake", "mode": "own", "retry": AT_ONCE} | options
        client = SubscriptionClient(given.pop("addresses", ()) or broker.address, **given)
        made.append((broker, client))
        return client

    yield make
    for broker, client in made:
        client.close()
        broker.finish()


def answer_reserve(peer: Peer, asked: list[Reserve] | None = None) -> None:
    reserve = peer.read(Reserve)
    if asked is not None:
        asked.append(reserve)
    peer.send(Reserved(reserve.request, 5, {"backlog": 3}))


def batch(*payloads: bytes) -> MessageBatch:
    return MessageBatch.from_payloads(payloads)


def fetched(fetch: Fetch, position: int, piece: MessageBatch) -> Fetched:
    return Fetched(fetch.request, position, 100 + position, 5, 1, False, piece)


def test_hello_names_the_subscription_and_welcome_is_its_state(play: Play) -> None:
    hellos: list[Hello] = []
    client = play(
        lambda peer: welcome(peer, hellos, base=2, high=4, high_water=9),
        starting="latest",
        owner_timeout_ms=60_000,
        token=TOKEN,
    )
    assert client.open() == SubscriptionState(epoch=7, base=2, high=4, high_water=9, id_prefix=PREFIX)
    assert hellos[0].role == "subscription"
    assert hellos[0].queue == "orders"
    assert hellos[0].options == {
        "subscription": "lake",
        "mode": "own",
        "starting": "latest",
        "owner_timeout_ms": 60_000,
        "token": TOKEN,
        "sign_ms": 2500,
    }


def test_a_client_connects_only_when_it_is_used() -> None:
    client = SubscriptionClient(unused_address(), queue="q", subscription="s", mode="own")
    client.close()
    with pytest.raises(LocalProtocolError, match="closed"):
        client.open()


def test_a_reader_without_an_epoch_is_refused_here() -> None:
    with pytest.raises(LocalProtocolError, match="epoch"):
        SubscriptionClient("127.0.0.1:1", queue="q", subscription="s", mode="read")
    with pytest.raises(LocalProtocolError, match="address"):
        SubscriptionClient([], queue="q", subscription="s", mode="own")


def test_reserve_asks_and_returns_what_the_broker_answers(play: Play) -> None:
    asked: list[Reserve] = []

    def script(peer: Peer) -> None:
        welcome(peer)
        answer_reserve(peer, asked)

    client = play(script)
    assert client.reserve(1, 10, 1000, wait_ms=50, below=77) == Reservation(5, {"backlog": 3})
    assert asked == [Reserve(asked[0].request, 1, 10, 1000, 50, 77)]


def test_commit_returns_the_ledgers_base(play: Play) -> None:
    def script(peer: Peer) -> None:
        welcome(peer)
        commit = peer.read(Commit)
        assert commit.position == 8
        peer.send(Committed(commit.request, 8))

    assert play(script).commit(8) == 8


def test_an_owner_that_lost_its_connection_resumes_its_epoch_and_asks_again(play: Play) -> None:
    hellos: list[Hello] = []
    asked: list[Reserve] = []

    def lose_the_answer(peer: Peer) -> None:
        welcome(peer, hellos, epoch=41)
        asked.append(peer.read(Reserve))

    def go_on(peer: Peer) -> None:
        welcome(peer, hellos, epoch=41)
        answer_reserve(peer, asked)

    client = play(lose_the_answer, go_on)
    assert client.reserve(3, 10, 1000).end == 5
    assert "epoch" not in hellos[0].options
    assert hellos[1].options["epoch"] == 41
    assert [reserve.start for reserve in asked] == [3, 3]


def test_a_reader_says_the_epoch_of_its_owner(play: Play) -> None:
    hellos: list[Hello] = []
    client = play(lambda peer: welcome(peer, hellos, epoch=12), mode="read", epoch=12)
    assert client.open().epoch == 12
    assert hellos[0].options["mode"] == "read"
    assert hellos[0].options["epoch"] == 12


def test_a_connection_that_ended_while_idle_is_made_again_unseen(play: Play) -> None:
    opened, closed = threading.Event(), threading.Event()

    def time_out(peer: Peer) -> None:
        welcome(peer)
        assert opened.wait(DEADLINE)
        peer.send(Error("timeout", "silent for 15 s", close=True))
        closed.set()

    def again(peer: Peer) -> None:
        welcome(peer)
        answer_reserve(peer)

    # No retry is allowed: the reconnection must not count as one.
    client = play(time_out, again, retry=Backoff(minimum=1.0, give_up_after=0.0))
    client.open()
    opened.set()
    assert closed.wait(DEADLINE)
    assert client.reserve(0, 1, 1).end == 5


def test_a_ping_is_answered_while_an_answer_is_awaited(play: Play) -> None:
    def script(peer: Peer) -> None:
        welcome(peer)
        reserve = peer.read(Reserve)
        peer.send(Ping(99))
        assert peer.read(Pong) == Pong(99)
        peer.send(Reserved(reserve.request, 1, {}))

    assert play(script).reserve(0, 1, 1).end == 1


def test_pings_that_came_while_idle_are_answered_before_the_next_request(play: Play) -> None:
    sent = threading.Event()

    def script(peer: Peer) -> None:
        welcome(peer)
        peer.send(Ping(1), Ping(2))
        sent.set()
        assert [peer.read(Pong), peer.read(Pong)] == [Pong(1), Pong(2)]
        answer_reserve(peer)

    client = play(script)
    client.open()
    assert sent.wait(DEADLINE)
    assert client.reserve(0, 1, 1).end == 5


def test_a_silent_broker_is_asked_and_then_given_up(play: Play) -> None:
    heard: list[Frame] = []

    def silent(peer: Peer) -> None:
        welcome(peer, heartbeat_ms=10)
        peer.read(Reserve)
        heard.extend(peer.read_to_end())

    def again(peer: Peer) -> None:
        welcome(peer)
        answer_reserve(peer)

    assert play(silent, again).reserve(0, 1, 1).end == 5
    assert heard
    assert all(isinstance(frame, Ping) for frame in heard)


def test_a_refusal_that_will_not_change_is_raised_at_once(play: Play) -> None:
    def refuse(peer: Peer) -> None:
        welcome(peer)
        peer.read(Reserve)
        peer.send(Error("data-loss", "position 3 was released", close=False))
        peer.read_to_end()

    def again(peer: Peer) -> None:
        welcome(peer)
        answer_reserve(peer)

    client = play(refuse, again)
    with pytest.raises(BrokerError, match="position 3 was released") as caught:
        client.reserve(3, 1, 1)
    assert caught.value.code == "data-loss"
    assert client.reserve(4, 1, 1).end == 5


def test_an_owner_that_was_superseded_does_not_fight(play: Play) -> None:
    def superseded(peer: Peer) -> None:
        peer.read(Hello)
        peer.send(Error("stale-epoch", "epoch 8 owns it", close=True))

    with pytest.raises(BrokerError) as caught:
        play(superseded).open()
    assert caught.value.code == "stale-epoch"


@pytest.mark.parametrize("code", ["shutting-down", "internal-error", "limit-exceeded"])
def test_a_refusal_that_may_pass_is_tried_again(play: Play, code: str) -> None:
    def refuse(peer: Peer) -> None:
        welcome(peer)
        peer.read(Commit)
        peer.send(Error(code, "not now", close=True))
        peer.read_to_end()

    def accept(peer: Peer) -> None:
        welcome(peer)
        commit = peer.read(Commit)
        peer.send(Committed(commit.request, 4))

    assert play(refuse, accept).commit(4) == 4


def test_a_broker_that_stays_away_is_given_up_in_time_with_the_reason() -> None:
    seconds = itertools.count()
    client = SubscriptionClient(
        [unused_address(), unused_address()],
        queue="orders",
        subscription="s",
        mode="own",
        retry=Backoff(minimum=0.0, maximum=0.0, give_up_after=3.0),
        clock=lambda: float(next(seconds)),
    )
    with pytest.raises(ConnectionLostError, match=r"'orders' could not be reached.*5 attempts.*refused.*; .*refused"):
        client.open()


def test_the_next_address_is_tried_when_the_first_does_not_answer() -> None:
    def script(peer: Peer) -> None:
        welcome(peer)
        answer_reserve(peer)

    broker = ScriptedBroker(script)
    client = SubscriptionClient(
        [unused_address(), broker.address], queue="q", subscription="s", mode="own", retry=Backoff(give_up_after=0.0)
    )
    assert client.reserve(0, 1, 1).end == 5
    client.close()
    broker.finish()


def test_an_answer_to_another_request_is_an_error(play: Play) -> None:
    def script(peer: Peer) -> None:
        welcome(peer)
        peer.send(Reserved(peer.read(Reserve).request + 1, 5, {}))
        peer.read_to_end()

    with pytest.raises(RemoteProtocolError, match="was answered by RESERVED"):
        play(script).reserve(0, 1, 1)


def test_a_welcome_without_the_ledgers_facts_is_an_error(play: Play) -> None:
    def script(peer: Peer) -> None:
        peer.read(Hello)
        peer.send(Welcome(VERSION, 1, {"heartbeat_ms": 5000}))
        peer.read_to_end()

    with pytest.raises(RemoteProtocolError, match="WELCOME"):
        play(script).open()


def test_closing_ends_the_wait_for_a_broker() -> None:
    waiting = threading.Event()
    ended: list[BaseException] = []

    def chance() -> float:
        waiting.set()
        return 0.5

    client = SubscriptionClient(
        unused_address(),
        queue="q",
        subscription="s",
        mode="own",
        retry=Backoff(minimum=3600.0, give_up_after=None),
        chance=chance,
    )

    def run() -> None:
        try:
            client.open()
        except LocalProtocolError as error:
            ended.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    assert waiting.wait(DEADLINE)
    client.close()
    thread.join(DEADLINE)
    assert not thread.is_alive()
    assert len(ended) == 1


def test_fetch_yields_every_position_in_order(play: Play) -> None:
    def script(peer: Peer) -> None:
        welcome(peer)
        fetch = peer.read(Fetch)
        assert (fetch.start, fetch.stop) == (2, 5)
        assert peer.read(Request) == Request(FETCH_WINDOW_MESSAGES, FETCH_WINDOW_BYTES)
        peer.send(fetched(fetch, 2, batch(b"a", b"b")), fetched(fetch, 4, batch(b"c")), FetchEnd(fetch.request, 3))

    pieces = list(play(script, mode="read", epoch=7).fetch(2, 5))
    assert [(piece.position, piece.batch.payloads.tolist()) for piece in pieces] == [(2, [b"a", b"b"]), (4, [b"c"])]


def test_an_empty_fetch_asks_nothing() -> None:
    client = SubscriptionClient(unused_address(), queue="q", subscription="s", mode="read", epoch=1)
    assert list(client.fetch(5, 5)) == []


def test_a_fetch_never_has_more_on_its_way_than_its_window(play: Play) -> None:
    """Demand is what was used plus the window, and comes again once half of the window is used."""
    piece = batch(*[b""] * (FETCH_WINDOW_MESSAGES // 4))
    pieces = 8

    def script(peer: Peer) -> None:
        welcome(peer)
        fetch = peer.read(Fetch)
        used = used_bytes = 0
        granted = peer.read(Request)
        for number in range(pieces):
            assert used < granted.messages <= used + FETCH_WINDOW_MESSAGES
            assert used_bytes < granted.bytes <= used_bytes + FETCH_WINDOW_BYTES
            peer.send(fetched(fetch, used, piece))
            used += len(piece)
            used_bytes += piece.nbytes
            if number % 2:
                granted = peer.read(Request)
                assert granted == Request(used + FETCH_WINDOW_MESSAGES, used_bytes + FETCH_WINDOW_BYTES)
        peer.send(FetchEnd(fetch.request, used))

    client = play(script, mode="read", epoch=7)
    assert sum(len(one.batch) for one in client.fetch(0, pieces * len(piece))) == pieces * len(piece)


def test_bytes_count_in_a_fetchs_window_too(play: Play) -> None:
    large = batch(b"x" * (FETCH_WINDOW_BYTES // 3))

    def script(peer: Peer) -> None:
        welcome(peer)
        fetch = peer.read(Fetch)
        assert peer.read(Request).bytes == FETCH_WINDOW_BYTES
        peer.send(fetched(fetch, 0, large), fetched(fetch, 1, large))
        assert peer.read(Request) == Request(2 + FETCH_WINDOW_MESSAGES, 2 * large.nbytes + FETCH_WINDOW_BYTES)
        peer.send(FetchEnd(fetch.request, 2))

    assert len(list(play(script, mode="read", epoch=7).fetch(0, 2))) == 2


def test_a_fetch_goes_on_where_a_broken_connection_left_it(play: Play) -> None:
    def break_off(peer: Peer) -> None:
        welcome(peer)
        fetch = peer.read(Fetch)
        peer.read(Request)
        peer.send(fetched(fetch, 0, batch(b"a", b"b")))

    def go_on(peer: Peer) -> None:
        welcome(peer)
        fetch = peer.read(Fetch)
        assert (fetch.start, fetch.stop) == (2, 3)
        assert peer.read(Request) == Request(FETCH_WINDOW_MESSAGES, FETCH_WINDOW_BYTES)
        peer.send(fetched(fetch, 2, batch(b"c")), FetchEnd(fetch.request, 1))

    pieces = list(play(break_off, go_on, mode="read", epoch=7).fetch(0, 3))
    assert [payload for piece in pieces for payload in piece.batch.payloads] == [b"a", b"b", b"c"]


@pytest.mark.parametrize(
    ("position", "payloads", "complaint"),
    [(1, [b"a"], "came"), (0, [b"a", b"b", b"c"], "came"), (0, [b"a"], "ended at 1")],
)
def test_a_fetch_that_brings_other_positions_is_an_error(
    play: Play, position: int, payloads: list[bytes], complaint: str
) -> None:
    def script(peer: Peer) -> None:
        welcome(peer)
        fetch = peer.read(Fetch)
        peer.read(Request)
        peer.send(fetched(fetch, position, batch(*payloads)), FetchEnd(fetch.request, 2))
        peer.read_to_end()

    with pytest.raises(RemoteProtocolError, match=complaint):
        list(play(script, mode="read", epoch=7).fetch(0, 2))


def test_a_fetch_given_up_closes_its_connection(play: Play) -> None:
    def script(peer: Peer) -> None:
        welcome(peer)
        fetch = peer.read(Fetch)
        peer.read(Request)
        peer.send(fetched(fetch, 0, batch(b"a")))
        assert peer.read_to_end() == []

    pieces = play(script, mode="read", epoch=7).fetch(0, 2)
    assert next(pieces).position == 0
    pieces.close()  # type: ignore[attr-defined]  # it is a generator
