"""How clients prove who they are, and know the broker: each rule for both kinds of clients, against brokers that follow a script."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.transport.proving_peers import (
    ANN,
    ANSWER,
    CLIENTS,
    PASSWORD,
    USER,
    VERIFIER,
    WRONG,
    Client,
    challenging,
    hear_it_go,
    prove,
    proved,
    serve,
    welcome,
)
from tests.transport.scripted_peers import Peer, Play
from transport import Access, AuthenticationError, BrokerError, LocalProtocolError, RemoteProtocolError
from transport.security import verifier as verifiers
from transport.security.proofs import make_token
from transport.security.scram import ScramError, ServerExchange
from transport.security.verifier import LEAST_ITERATIONS, MOST_ITERATIONS, Keys, Verifier
from transport.wire.messages import Auth, Error, Hello, Welcome

pytestmark = pytest.mark.event_loop


@pytest.fixture(params=CLIENTS.values(), ids=CLIENTS.keys())
def ask(request: pytest.FixtureRequest) -> Client:
    client: Client = request.param
    return client


@pytest.fixture
def derived(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of iterations for which keys were made."""
    counted: list[int] = []
    real = verifiers.derive

    def counting(password: str, salt: bytes, iterations: int) -> Keys:
        counted.append(iterations)
        return real(password, salt, iterations)

    monkeypatch.setattr(verifiers, "derive", counting)
    return counted


@pytest.fixture(autouse=True)
def canary(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """No log of any test holds the password."""
    caplog.set_level(logging.DEBUG)
    yield
    assert PASSWORD not in caplog.text


# Proofs


def test_a_password_is_proved_and_never_sent(ask: Client, play: Play) -> None:
    hellos: list[Hello] = []

    def script(peer: Peer) -> None:
        assert prove(peer, hellos=hellos) == USER
        welcome(peer)
        serve(peer)

    assert ask(play(script).address, ANN) == ANSWER
    assert PASSWORD not in repr(hellos)
    assert "token" not in hellos[0].options


def test_a_token_goes_with_hello(ask: Client, play: Play) -> None:
    token = make_token()

    def script(peer: Peer) -> None:
        hello = peer.read(Hello)
        assert hello.options["token"] == token
        assert "mechanism" not in hello.options
        welcome(peer)
        serve(peer)

    assert ask(play(script).address, Access(token=token)) == ANSWER


def test_what_the_environment_says_is_the_access_of_who_gives_none(
    ask: Client, play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_USER", USER)
    monkeypatch.setenv("PENSTOCK_PASSWORD", PASSWORD)
    assert ask(play(proved).address, None) == ANSWER


def test_an_environment_that_cannot_be_is_told_before_anything_is_connected(
    ask: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_PASSWORD", PASSWORD)
    with pytest.raises(LocalProtocolError, match="a user and a password go together") as caught:
        ask("127.0.0.1:1", None)
    assert PASSWORD not in str(caught.value)


def test_a_password_that_cannot_be_is_told_before_anything_is_connected(ask: Client) -> None:
    with pytest.raises(LocalProtocolError, match="control character") as caught:
        ask("127.0.0.1:1", Access(user=USER, password="canary\x01"))
    assert "canary" not in str(caught.value)


# Refusals, which are final: each script plays once, and nobody listens behind it


def test_a_wrong_password_is_refused_once_and_not_tried_again(ask: Client, play: Play) -> None:
    def script(peer: Peer) -> None:
        with pytest.raises(ScramError):
            prove(peer, Verifier.of("another", LEAST_ITERATIONS))

    with pytest.raises(BrokerError, match=WRONG) as caught:
        ask(play(script).address, ANN)
    assert caught.value.code == "authentication-failed"
    assert PASSWORD not in str(caught.value)


@pytest.mark.parametrize("code", ["authentication-required", "authentication-failed", "forbidden"])
def test_a_refusal_at_hello_is_final(ask: Client, play: Play, code: str) -> None:
    def script(peer: Peer) -> None:
        peer.read(Hello)
        peer.send(Error(code, "no", close=True))
        hear_it_go(peer)

    with pytest.raises(BrokerError) as caught:
        ask(play(script).address, Access())
    assert caught.value.code == code


# Brokers that do not prove themselves


def test_a_broker_that_does_not_know_the_password_is_not_believed(ask: Client, play: Play) -> None:
    def script(peer: Peer) -> None:
        peer.read(Hello)
        server = ServerExchange(lambda _: VERIFIER)
        peer.send(Auth(server.challenge(peer.read(Auth).data)))
        peer.read(Auth)
        # Its signature is not one of the password's.
        peer.send(Auth(b"v=" + b"A" * 43 + b"="), Welcome(1, 1, {"heartbeat_ms": 5000}))
        hear_it_go(peer)

    with pytest.raises(AuthenticationError, match="does not know the password's record") as caught:
        ask(play(script).address, ANN)
    assert PASSWORD not in str(caught.value)


def test_a_broker_that_says_welcome_at_once_has_not_proved_itself(ask: Client, play: Play) -> None:
    def script(peer: Peer) -> None:
        peer.read(Hello)
        peer.send(Welcome(1, 1, {"heartbeat_ms": 5000}))
        hear_it_go(peer)

    with pytest.raises(AuthenticationError, match=r"has not proved .* older than this client, or has no users"):
        ask(play(script).address, ANN)


@pytest.mark.parametrize("iterations", [1, LEAST_ITERATIONS - 1, MOST_ITERATIONS + 1, 999_999_999])
def test_no_key_is_made_for_a_number_of_iterations_that_no_honest_broker_has(
    ask: Client, play: Play, derived: list[int], iterations: int
) -> None:
    def data(first: bytes) -> bytes:
        nonce = first.partition(b",r=")[2]
        return b"r=" + nonce + b"more,s=QSXCR+Q6sek8bf92,i=%d" % iterations

    with pytest.raises(AuthenticationError, match=f"{iterations} iterations, outside 4096-10000000"):
        ask(play(challenging(data)).address, ANN)
    assert derived == []


def test_an_answer_of_another_exchange_is_refused(ask: Client, play: Play, derived: list[int]) -> None:
    recorded = ServerExchange(lambda _: VERIFIER).challenge(b"n,,n=ann,r=another")
    with pytest.raises(AuthenticationError, match="belongs to another exchange"):
        ask(play(challenging(lambda _: recorded)).address, ANN)
    assert derived == []


@pytest.mark.parametrize("data", [b"", b"\xff", b"r=x", b"x" * 2048], ids=["nothing", "no text", "cut", "other text"])
def test_what_is_no_challenge_is_refused(ask: Client, play: Play, data: bytes) -> None:
    with pytest.raises(AuthenticationError, match="has not proved itself"):
        ask(play(challenging(lambda _: data)).address, ANN)


def test_a_broker_that_does_not_wait_for_the_answer_breaks_the_protocol(ask: Client, play: Play) -> None:
    def script(peer: Peer) -> None:
        peer.read(Hello)
        challenge = Auth(ServerExchange(lambda _: VERIFIER).challenge(peer.read(Auth).data))
        peer.send(challenge, challenge)
        hear_it_go(peer)

    with pytest.raises(RemoteProtocolError, match="AUTH came before the broker's AUTH was answered"):
        ask(play(script).address, ANN)


# Connections that break


def cut_before_the_answer(peer: Peer) -> None:
    peer.read(Hello)
    peer.send(Auth(ServerExchange(lambda _: VERIFIER).challenge(peer.read(Auth).data)))
    peer.read(Auth)


def test_an_exchange_that_is_cut_begins_anew_and_no_key_is_made_again(
    ask: Client, play: Play, derived: list[int]
) -> None:
    assert ask(play(cut_before_the_answer, cut_before_the_answer, proved).address, ANN) == ANSWER
    assert derived == [LEAST_ITERATIONS]


def test_another_salt_or_number_needs_other_keys(ask: Client, play: Play, derived: list[int]) -> None:
    other = Verifier.of(PASSWORD, 5000)
    derived.clear()

    def changed(peer: Peer) -> None:
        prove(peer, other)
        welcome(peer)
        serve(peer)

    assert ask(play(cut_before_the_answer, changed).address, ANN) == ANSWER
    assert derived == [LEAST_ITERATIONS, 5000]


def test_a_connection_that_is_cut_before_the_exchange_is_made_again(ask: Client, play: Play) -> None:
    assert ask(play(lambda peer: None, proved).address, ANN) == ANSWER


# On a loop


def test_keys_are_made_in_a_thread_and_one_at_a_time(monkeypatch: pytest.MonkeyPatch, play: Play, run: Any) -> None:
    """The broker cuts the first connection while its keys are made: the second waits for them, and makes none of its own."""
    import asyncio

    from transport import Administration

    may_go_on, both_asked = threading.Event(), threading.Event()
    threads: list[threading.Thread] = []
    real = verifiers.derive

    def slow(password: str, salt: bytes, iterations: int) -> Keys:
        threads.append(threading.current_thread())
        assert may_go_on.wait(20)
        return real(password, salt, iterations)

    monkeypatch.setattr(verifiers, "derive", slow)

    def cut(peer: Peer) -> None:
        peer.read(Hello)
        peer.send(Auth(ServerExchange(lambda _: VERIFIER).challenge(peer.read(Auth).data)))

    def second(peer: Peer) -> None:
        peer.read(Hello)
        server = ServerExchange(lambda _: VERIFIER)
        peer.send(Auth(server.challenge(peer.read(Auth).data)))
        both_asked.set()
        peer.send(Auth(server.conclude(peer.read(Auth).data)))
        welcome(peer)
        serve(peer)

    async def main() -> None:
        broker = play(cut, second)

        async def ask() -> None:
            async with Administration(broker.address, access=ANN) as administration:
                await administration.delete_queue("orders")

        asking = asyncio.create_task(ask())
        # The loop goes on meanwhile, or this would never be set.
        await asyncio.to_thread(both_asked.wait, 20)
        may_go_on.set()
        await asking

    run(main)
    assert len(threads) == 1
    assert threads[0] is not threading.main_thread()
