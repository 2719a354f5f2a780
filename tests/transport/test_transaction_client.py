"""The blocking client that ends transactions against a broker that follows a script, frame by frame, on a real socket."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from actors import EnlistedStage
from tests.transport.scripted_peers import AT_ONCE, Peer, Script, ScriptedBroker, unused_address
from transport import BrokerError, ConnectionLostError, LocalProtocolError, RemoteProtocolError
from transport.clients.backoff import Backoff
from transport.clients.transaction_client import TransactionClient
from transport.errors import InvalidNameError
from transport.security.proofs import make_token
from transport.wire.messages import (
    AbortTransaction,
    CommitTransaction,
    Enlist,
    Error,
    Hello,
    Ping,
    Pong,
    TransactionEnded,
)

TOKEN = make_token()
Play = Callable[..., TransactionClient]
STAGES = [EnlistedStage("a", "0-0", 5), EnlistedStage("b", "0-0", 2)]


@pytest.fixture
def play() -> Iterator[Play]:
    """``play(*scripts, **options)`` starts a scripted broker and makes a client of it; every script must have been played."""
    made: list[tuple[ScriptedBroker, TransactionClient]] = []

    def make(*scripts: Script, **options: Any) -> TransactionClient:
        broker = ScriptedBroker(*scripts)
        given: dict[str, Any] = {"writer": "w", "version": 3, "retry": AT_ONCE}
        client = TransactionClient(broker.address, **(given | options))
        made.append((broker, client))
        return client

    yield make
    for broker, client in made:
        client.close()
        broker.finish()


def commit(peer: Peer, *stages: EnlistedStage, last_version: int | None = None) -> CommitTransaction:
    """Welcome the client and read its commit of ``stages``."""
    peer.welcome({"last_version": last_version})
    for stage in stages:
        assert peer.read(Enlist) == Enlist(*stage)
    return peer.read(CommitTransaction)


def test_a_commit_enlists_its_stages_and_returns_what_was_published(play: Play) -> None:
    hellos: list[Hello] = []

    def script(peer: Peer) -> None:
        peer.welcome({"last_version": 2}, hellos)
        assert [peer.read(Enlist), peer.read(Enlist)] == [Enlist("a", "0-0", 5), Enlist("b", "0-0", 2)]
        peer.send(TransactionEnded(peer.read(CommitTransaction).request, 7))

    client = play(script, token=TOKEN)
    assert client.commit(STAGES) == 7
    assert (hellos[0].role, hellos[0].queue) == ("transaction", None)
    assert hellos[0].options == {"writer": "w", "version": 3, "token": TOKEN, "sign_ms": 2500}


def test_a_commit_whose_answer_was_lost_is_asked_for_again_with_its_stages(play: Play) -> None:
    def lose_the_answer(peer: Peer) -> None:
        commit(peer, *STAGES)

    def answer(peer: Peer) -> None:
        # The version is committed; only the answer to a commit says that this is durable.
        peer.send(TransactionEnded(commit(peer, *STAGES, last_version=3).request, 0))

    assert play(lose_the_answer, answer).commit(STAGES) == 0


def test_a_stage_named_twice_is_enlisted_once_and_an_empty_one_not_at_all(play: Play) -> None:
    def script(peer: Peer) -> None:
        peer.send(TransactionEnded(commit(peer, *STAGES).request, 7))

    assert play(script).commit([*STAGES, EnlistedStage("a", "1-0", 0), *STAGES]) == 7


def test_a_commit_of_nothing_is_a_commit(play: Play) -> None:
    def script(peer: Peer) -> None:
        peer.send(TransactionEnded(commit(peer).request, 0))

    assert play(script).commit([]) == 0


def test_thousands_of_stages_arrive_in_order(play: Play) -> None:
    stages = [EnlistedStage("q", f"{number}-0", number + 1) for number in range(3000)]

    def script(peer: Peer) -> None:
        peer.send(TransactionEnded(commit(peer, *stages).request, 1))

    assert play(script).commit(iter(stages)) == 1


def test_more_stages_than_the_limit_are_refused_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transport.clients.transaction_client.MAX_ENLISTED", 1)
    client = TransactionClient(unused_address(), writer="w", version=0)
    with pytest.raises(LocalProtocolError, match="2 stages exceed the 1"):
        client.commit(STAGES)


def test_a_refused_commit_is_raised_and_the_next_one_enlists_anew(play: Play) -> None:
    def refuse(peer: Peer) -> None:
        commit(peer, *STAGES)
        peer.send(Error("transaction-incomplete", "stage '0-0' holds 4", close=False))
        peer.read_to_end()

    def accept(peer: Peer) -> None:
        peer.send(TransactionEnded(commit(peer, STAGES[0]).request, 5))

    client = play(refuse, accept)
    with pytest.raises(BrokerError, match="holds 4") as caught:
        client.commit(STAGES)
    assert caught.value.code == "transaction-incomplete"
    assert client.commit(STAGES[:1]) == 5


def test_a_refusal_that_may_pass_is_tried_again(play: Play) -> None:
    def refuse(peer: Peer) -> None:
        commit(peer, *STAGES)
        peer.send(Error("shutting-down", "later", close=True))
        peer.read_to_end()

    def accept(peer: Peer) -> None:
        peer.send(TransactionEnded(commit(peer, *STAGES).request, 7))

    assert play(refuse, accept).commit(STAGES) == 7


def test_an_abort_says_how_much_was_discarded_and_is_repeated_too(play: Play) -> None:
    def lose_the_answer(peer: Peer) -> None:
        peer.welcome({"last_version": None})
        peer.read(AbortTransaction)

    def answer(peer: Peer) -> None:
        peer.welcome({"last_version": None})
        request = peer.read(AbortTransaction).request
        peer.send(Ping(5))
        assert peer.read(Pong) == Pong(5)
        peer.send(TransactionEnded(request, 9))

    assert play(lose_the_answer, answer).abort() == 9


def test_an_answer_to_another_request_is_an_error(play: Play) -> None:
    def script(peer: Peer) -> None:
        peer.send(TransactionEnded(commit(peer).request + 1, 0))
        peer.read_to_end()

    with pytest.raises(RemoteProtocolError, match="was answered by TRANSACTIONENDED"):
        play(script).commit([])


def test_a_broker_that_stays_away_is_given_up_and_named() -> None:
    seconds = iter(range(100))
    client = TransactionClient(
        unused_address(),
        writer="spark-1",
        version=7,
        retry=Backoff(minimum=0.0, maximum=0.0, give_up_after=3.0),
        clock=lambda: float(next(seconds)),
    )
    with pytest.raises(ConnectionLostError, match=r"transaction 7 of 'spark-1' could not be reached.*refused"):
        client.commit(STAGES)


def test_a_closed_client_refuses() -> None:
    with TransactionClient(unused_address(), writer="w", version=0) as client:
        pass
    with pytest.raises(LocalProtocolError, match="closed"):
        client.abort()


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"version": -1}, LocalProtocolError),
        ({"version": 1.0}, LocalProtocolError),
        ({"writer": ""}, InvalidNameError),
    ],
)
def test_options_that_cannot_be_are_refused_here(options: dict[str, Any], error: type[Exception]) -> None:
    given: dict[str, Any] = {"writer": "w", "version": 0}
    with pytest.raises(error):
        TransactionClient("127.0.0.1:1", **(given | options))
