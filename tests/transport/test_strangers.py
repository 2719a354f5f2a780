"""What those may take of a broker who have not shown yet who they are: connections, and guesses."""

from __future__ import annotations

import asyncio
import logging
import socket
from pathlib import Path
from typing import Any

import pytest

from streams.testkit import settle
from tests.transport.line_protocol import echo_listener
from transport import Broker, BrokerConfig
from transport.broker import passwords, strangers
from transport.broker.broker_connection import native_listeners
from transport.broker.strangers import (
    FAILURES_SECONDS,
    MOST_FAILURES,
    MOST_OF_ONE,
    WAIT_SECONDS,
    Failures,
    Unopened,
    network_of,
)
from transport.errors import LimitExceededError
from transport.security.principal import Proof
from transport.security.proofs import TokenRecord, make_token, token_hash
from transport.security.users import User, Users
from transport.security.users_file import change_users
from transport.security.verifier import LEAST_ITERATIONS, Verifier
from transport.wire.liveness import ENTRANCE_TIMEOUT
from transport.wire.messages import VERSION, Error, Hello, Ping, Pong, Welcome

FREE = "127.0.0.1:0"
TOKEN = make_token()
HOME = "127.0.0.1"


@pytest.mark.parametrize(
    ("host", "network"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::1", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::1", "2001:db8:1:3::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("::1", "::1"),
        ("?", "?"),
    ],
)
def test_an_address_of_ipv6_is_its_network(host: str, network: str) -> None:
    assert network_of(host) == network


def test_there_are_so_many_in_all_and_so_many_of_one_address_but_of_this_machine() -> None:
    unopened = Unopened(most=40)
    entered = [unopened.enter("192.0.2.1") for _ in range(MOST_OF_ONE)]
    assert None not in entered
    assert unopened.enter("192.0.2.1") is None
    assert unopened.enter("::ffff:192.0.2.1") is None
    assert unopened.enter("192.0.2.2") is not None
    assert entered[0] is not None
    entered[0].leave()
    entered[0].leave()
    assert unopened.count == MOST_OF_ONE
    assert unopened.enter("192.0.2.1") is not None
    while not unopened.full:
        assert unopened.enter(HOME) is not None
    assert unopened.count == 40


def test_whoever_waits_for_room_is_told_once_when_there_is_some() -> None:
    unopened, told = Unopened(most=1), []
    entrant = unopened.enter(HOME)
    assert entrant is not None
    assert unopened.full

    def resume() -> None:
        told.append(unopened.full)

    unopened.when_room(resume)
    unopened.when_room(resume)
    entrant.leave()
    assert told == [False]
    again = unopened.enter(HOME)
    assert again is not None
    again.leave()
    assert told == [False]


def test_after_five_failures_of_an_address_within_a_minute_it_waits_and_no_other_does() -> None:
    seconds = [0.0]
    failures = Failures(lambda: seconds[0])
    for number in range(MOST_FAILURES):
        assert failures.wait("192.0.2.1") == 0.0
        seconds[0] = float(number)
        assert failures.note("192.0.2.1") == number + 1
    assert failures.wait("192.0.2.1") == WAIT_SECONDS
    assert failures.wait("192.0.2.2") == 0.0
    seconds[0] = FAILURES_SECONDS - 0.1
    assert failures.wait("192.0.2.1") == WAIT_SECONDS
    seconds[0] = FAILURES_SECONDS
    assert failures.wait("192.0.2.1") == 0.0, "the first of them is a minute ago"


def test_the_addresses_that_failed_are_bounded_and_the_oldest_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strangers, "MOST_ADDRESSES", 2)
    failures = Failures(lambda: 0.0)
    for host in ("192.0.2.1", "192.0.2.2", "192.0.2.1", "192.0.2.3"):
        for _ in range(MOST_FAILURES):
            failures.note(host)
    assert [failures.wait(f"192.0.2.{last}") for last in (1, 2, 3)] == [WAIT_SECONDS, 0.0, WAIT_SECONDS]


# Over sockets


@pytest.fixture
def users_file(tmp_path: Path) -> str:
    path = tmp_path / "users.toml"
    change_users(path, lambda _: Users([User("alice", None, tokens=(TokenRecord(token_hash(TOKEN)),))]))
    return str(path)


@pytest.mark.event_loop
def test_while_it_is_full_nobody_is_accepted_and_when_one_is_let_in_or_ends_the_next_is(
    run: Any, serve: Any, peers: Any, until: Any
) -> None:
    async def main() -> None:
        async with serve(max_unauthenticated=2) as broker, peers() as opened:
            unopened = broker._entrance.unopened
            first, second = [await opened.connect(broker.send_address) for _ in range(2)]
            await until(lambda: unopened.full)
            # On the other address too: the limit is of all together. It waits, and is not refused.
            third = await opened.connect(broker.receive_address)
            fourth = await opened.connect(broker.send_address)
            third.send(Hello(VERSION, "receiver", "orders", "c", {}))
            await settle()
            assert len(broker.connections) == 2
            # Room for one of the two, and by the end of another for both.
            await first.hello("sender")
            await until(lambda: broker._connections.numbers == 3)
            await second.close()
            await third.expect(Welcome)
            await fourth.hello("sender", client_id="other")
            await until(lambda: unopened.count == 0)

    run(main)


def test_silent_connections_make_room_for_others_after_five_seconds(
    run: Any, serve: Any, peers: Any, jump: Any, until: Any
) -> None:
    async def main() -> None:
        async with serve(max_unauthenticated=1) as broker, peers() as opened:
            silent = await opened.connect(broker.send_address)
            await until(lambda: broker._entrance.unopened.full)
            waiting = await opened.connect(broker.send_address)
            jump(ENTRANCE_TIMEOUT)
            assert (await silent.refusal()).code == "timeout"
            await silent.close()
            await waiting.hello("sender")

    run(main)


def test_of_one_address_the_seventeenth_is_told_why_and_one_that_was_let_in_does_not_count(
    run: Any, serve: Any, peers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strangers, "_is_loopback", lambda _: False)

    async def main() -> None:
        async with serve() as broker, peers() as opened:
            await opened.open(broker.send_address, "sender")
            silent = [await opened.connect(broker.send_address) for _ in range(MOST_OF_ONE)]
            refused = await opened.connect(broker.receive_address)
            said = await refused.refusal()
            assert (said.code, f"{MOST_OF_ONE} connections of your address" in said.text) == ("limit-exceeded", True)
            await silent[0].hello("sender", client_id="another")
            await opened.open(broker.receive_address, "receiver")

    run(main)


def test_a_protocol_that_asks_nobody_lets_in_at_once(run: Any, until: Any) -> None:
    async def main() -> None:
        config = BrokerConfig(max_unauthenticated=1)
        async with Broker(config, listeners=[*native_listeners(FREE, FREE), echo_listener()]) as broker:
            address = broker.addresses("echo")[0]
            writers = []
            for _ in range(3):
                reader, writer = await asyncio.open_connection(address.host, address.port)
                writer.write(b"on\n")
                assert await reader.readline() == b"on\n"
                writers.append(writer)
            assert broker._entrance.unopened.count == 0
            for writer in writers:
                writer.close()

    run(main)


async def guess(peers: Any, broker: Broker, token: str = "x") -> Any:
    stranger = await peers.connect(broker.send_address)
    stranger.send(Hello(VERSION, "sender", "orders", "c", {"token": token}))
    return stranger


def test_a_guesser_waits_a_second_for_each_answer_and_so_does_whoever_is_right_from_there(
    run: Any, serve: Any, peers: Any, jump: Any, users_file: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with serve(users_file=users_file) as broker, peers() as opened:
            for _ in range(MOST_FAILURES):
                assert (await (await guess(opened, broker)).refusal()).code == "authentication-failed"
            for token, code in (("x", "authentication-failed"), (TOKEN, "forbidden")):
                waiting = await guess(opened, broker, token)
                answer = asyncio.create_task(waiting.refusal())
                # What others ask is answered meanwhile, so this one was heard, and waits.
                await settle(0.05)
                assert not answer.done()
                jump(WAIT_SECONDS)
                assert (await answer).code == code
            broker._entrance._failures._clock = lambda: broker.now() + FAILURES_SECONDS
            assert (await (await guess(opened, broker, TOKEN)).refusal()).code == "forbidden"

    with caplog.at_level(logging.WARNING, "penstock.broker"):
        run(main)
    told = [text for text in caplog.messages if "has not shown who they are" in text]
    assert len(told) == MOST_FAILURES, "a guesser does not fill the log"
    assert TOKEN not in caplog.text


def test_a_password_of_another_protocol_waits_as_well_and_its_failures_count(
    run: Any, serve: Any, jump: Any, tmp_path: Path
) -> None:
    users = Users([User(name, Verifier.of("pencil", LEAST_ITERATIONS)) for name in ("alice", "bob")])
    change_users(tmp_path / "users.toml", lambda _: users)

    async def main() -> None:
        async with serve(users_file=str(tmp_path / "users.toml")) as broker:
            entrance = broker._host().entrance
            found = await entrance.authenticate("alice", "pencil", "192.0.2.1:1")
            assert found is not None
            assert (found.name, found.proof) == ("alice", Proof.PASSWORD)
            for number in range(MOST_FAILURES):
                assert await entrance.authenticate("alice", f"pen{number}", "192.0.2.1:1") is None
            waiting = asyncio.create_task(entrance.authenticate("bob", "pencil", "192.0.2.1:2"))
            # Who was right before is no guesser, wherever they ask from.
            for peer in ("192.0.2.1:3", "192.0.2.2:1"):
                assert await entrance.authenticate("alice", "pencil", peer) is not None
            assert not waiting.done()
            jump(WAIT_SECONDS)
            assert await waiting is not None

    run(main)


def test_a_password_that_finds_no_place_in_the_line_counts_as_a_guess(
    run: Any, serve: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(passwords, "MOST_WAITING", 0)
    users = Users([User("alice", Verifier.of("pencil", LEAST_ITERATIONS))])
    change_users(tmp_path / "users.toml", lambda _: users)

    async def main() -> None:
        async with serve(users_file=str(tmp_path / "users.toml")) as broker:
            entrance = broker._host().entrance
            for _ in range(MOST_FAILURES):
                assert entrance.wait("192.0.2.1:1") == 0
                with pytest.raises(LimitExceededError):
                    await entrance.authenticate("mallory", "x", "192.0.2.1:1")
            assert entrance.wait("192.0.2.1:1") == WAIT_SECONDS
            assert entrance.wait("192.0.2.2:1") == 0

    run(main)


def test_one_who_goes_while_the_answer_waits_leaves_nothing(
    run: Any, serve: Any, peers: Any, jump: Any, until: Any, users_file: str
) -> None:
    async def main() -> None:
        async with serve(users_file=users_file) as broker, peers() as opened:
            for _ in range(MOST_FAILURES):
                broker._entrance.failed(f"{HOME}:1", None)
            gone = await guess(opened, broker)
            await until(lambda: any(each._waits is not None for each in broker.connections.values()))
            gone.abort()
            jump(ENTRANCE_TIMEOUT + WAIT_SECONDS)
            await until(lambda: not broker.connections)
            assert broker._entrance.unopened.count == 0

    run(main)


def test_who_was_let_in_has_more_than_five_seconds_until_its_queue_has_answered(
    run: Any, serve: Any, peers: Any, jump: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened:
            greeted: list[Any] = []
            monkeypatch.setattr(
                "transport.broker.port.Client.welcome", lambda self, options: greeted.append((self, options))
            )
            peer = await opened.connect(broker.send_address)
            peer.send(Hello(VERSION, "admin", None, None, {}), Ping(7))
            await peer.expect(Pong)
            jump(ENTRANCE_TIMEOUT + 1.0)
            peer.send(Ping(8))
            assert (await peer.expect(Pong)).token == 8
            jump(10.0)
            assert isinstance(await peer.frame(), Error)

    run(main)


def test_a_connection_above_the_limit_of_all_leaves_its_place_when_it_ends(
    run: Any, serve: Any, peers: Any, until: Any
) -> None:
    async def main() -> None:
        async with serve(max_connections=1) as broker, peers() as opened:
            await opened.open(broker.send_address, "sender")
            refused = await opened.connect(broker.send_address)
            assert (await refused.refusal()).code == "limit-exceeded"
            await refused.close()
            await until(lambda: broker._entrance.unopened.count == 0)

    run(main)


def test_a_socket_that_breaks_before_it_stands_leaves_its_place(run: Any, serve: Any, until: Any) -> None:
    async def main() -> None:
        async with serve() as broker:
            address = broker.addresses("send")[0]
            for _ in range(20):
                one = socket.create_connection(address)
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
                one.close()
            await until(lambda: broker._connections.numbers == 20)
            await until(lambda: broker._entrance.unopened.count == 0)
            assert not broker._connections._accepted

    run(main)
