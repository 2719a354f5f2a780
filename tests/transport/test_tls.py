"""A broker under TLS: who is refused by whom, and that every role does over TLS what it does without; on each event loop."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from tests.transport.broker_helpers import MIB, batch
from transport import Broker, BrokerConfig
from transport.errors import LocalProtocolError, TruncatedFrameError
from transport.security.principal import Grant, Right
from transport.security.subject import subject_of
from transport.security.users import User, Users
from transport.security.users_file import change_users
from transport.shell.ends import LINGER
from transport.wire.codec import encode
from transport.wire.frames import MAX_BODY_BYTES, FrameDecoder
from transport.wire.liveness import ENTRANCE_TIMEOUT
from transport.wire.messages import (
    VERSION,
    Ack,
    Cancel,
    Command,
    Commit,
    Committed,
    CommitTransaction,
    Deliver,
    Demand,
    Enlist,
    Error,
    Fetch,
    Fetched,
    FetchEnd,
    Hello,
    Ping,
    Pong,
    Request,
    Reserve,
    Reserved,
    Result,
    Send,
    Sent,
    TransactionEnded,
)

if TYPE_CHECKING:
    from tests.transport.certificates import Certificates, Issued

pytestmark = pytest.mark.event_loop
ALL = Right.CONFIGURE | Right.WRITE | Right.READ


def context_of(certificates: Certificates, own: Issued | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=certificates.ca)
    if own is not None:
        context.load_cert_chain(own.certificate, own.key)
    return context


def options_of(issued: Issued, **more: Any) -> dict[str, Any]:
    return {"tls_certificate": issued.certificate, "tls_key": issued.key, **more}


@pytest.fixture
def over_tls(serve: Any, peers: Any, certificates: Certificates) -> Callable[..., Any]:
    """A broker under TLS, and what opens peers that trust its certificate."""

    @asynccontextmanager
    async def opened(**options: Any) -> AsyncIterator[tuple[Broker, Any]]:
        own = options.pop("own", None)
        async with (
            serve(**options_of(certificates.server, **options)) as broker,
            peers(context_of(certificates, own)) as all_peers,
        ):
            yield broker, all_peers

    return opened


def wired(*frames: Any) -> bytes:
    return b"".join(bytes(part) for frame in frames for part in encode(frame))


async def command(admin: Any, name: str, **arguments: Any) -> Any:
    admin.send(Command(1, name, arguments))
    return json.loads((await admin.expect(Result)).json)


# What every role does


def test_what_is_sent_is_confirmed_received_and_acknowledged(run: Any, over_tls: Any) -> None:
    async def main() -> None:
        async with over_tls() as (broker, peers):
            sender = await peers.open(broker.send_address, "sender")
            receiver = await peers.open(broker.receive_address, "receiver")
            admin = await peers.open(broker.send_address, "admin", None)
            receiver.send(Request(1000, MIB))
            sent = [b"x" * size for size in range(100)]
            await sender.expect(Demand)
            for number, payload in enumerate(sent):
                sender.send(Send(number, None, batch(payload)))
            received: list[bytes] = []
            while len(received) < len(sent):
                received += (await receiver.expect_later(Deliver)).batch.payloads
            assert received == sent
            receiver.send(Ack([(0, len(sent))]), Cancel())
            assert await receiver.rest() == []
            (row,) = await command(admin, "queue.list")
            assert (row["total_in"], row["total_acknowledged"], row["ready"]) == (100, 100, 0)

    run(main)


def test_a_subscription_reserves_fetches_and_commits(run: Any, over_tls: Any) -> None:
    async def main() -> None:
        async with over_tls() as (broker, peers):
            sender = await peers.open(broker.send_address, "sender")
            await sender.expect(Demand)
            sender.send(Send(0, None, batch(b"a", b"b")))
            await sender.expect_later(Sent)
            reader = await peers.open(broker.receive_address, "subscription", subscription="s", mode="own")
            reader.send(Reserve(1, 0, 2, MIB, 0, None))
            end = (await reader.expect(Reserved)).end
            reader.send(Fetch(2, 0, end), Request(10, MIB))
            fetched = await reader.expect(Fetched)
            assert list(fetched.batch.payloads) == [b"a", b"b"]
            await reader.expect(FetchEnd)
            reader.send(Commit(3, end))
            assert (await reader.expect(Committed)).base == end

    run(main)


def test_a_transaction_publishes_its_stages(run: Any, over_tls: Any) -> None:
    async def main() -> None:
        async with over_tls() as (broker, peers):
            stager = await peers.open(broker.send_address, "sender", writer="w", version=1, stage="s")
            await stager.expect(Demand)
            stager.send(Send(0, None, batch(b"a", b"b")))
            await stager.expect_later(Sent)
            ender = await peers.open(broker.send_address, "transaction", None, writer="w", version=1)
            ender.send(Enlist("orders", "s", 2), CommitTransaction(1))
            assert await ender.expect(TransactionEnded) == TransactionEnded(1, 2)

    run(main)


# The shell


def test_the_largest_frames_go_both_ways_whole(run: Any, over_tls: Any) -> None:
    payloads = [bytes([number]) * (MAX_BODY_BYTES - 64) for number in range(3)]

    async def main() -> None:
        async with over_tls() as (broker, peers):
            sender = await peers.open(broker.send_address, "sender")
            receiver = await peers.open(broker.receive_address, "receiver")
            receiver.send(Request(3, 1 << 30))
            await sender.expect(Demand)
            for number, payload in enumerate(payloads):
                sender.send(Send(number, None, batch(payload)))
                delivered = await receiver.expect_later(Deliver)
                assert list(delivered.batch.payloads) == [payload]

    run(main)


def test_frames_that_come_byte_by_byte_are_whole(run: Any, over_tls: Any) -> None:
    opening = wired(Hello(VERSION, "sender", "orders", "c", {}))
    sending = wired(Send(0, None, batch(b"payload", b"another")), Ping(8))

    async def main() -> None:
        async with over_tls() as (broker, peers):
            sender = await peers.connect(broker.send_address)
            for frames, answer in ((opening, Demand), (sending, Pong)):
                for position in range(len(frames)):
                    # A record of TLS each.
                    sender.send_bytes(frames[position : position + 1])
                    await asyncio.sleep(0)
                await sender.expect_later(answer)
            (row,) = await command(await peers.open(broker.send_address, "admin", None), "queue.list")
            assert row["total_in"] == 2

    run(main)


def test_a_frame_that_trickles_in_is_given_up(run: Any, over_tls: Any) -> None:
    data = wired(Send(0, None, batch(b"x" * 10_000)))

    async def main() -> None:
        async with over_tls(heartbeat=0.1) as (broker, peers):
            sender = await peers.open(broker.send_address, "sender")
            await sender.expect(Demand)
            refusing = asyncio.create_task(sender.refusal())
            for position in range(len(data)):
                if refusing.done():
                    break
                sender.send_bytes(data[position : position + 1])
                await asyncio.wait([refusing], timeout=0.02)
            assert (await refusing).code == "timeout"

    run(main)


@pytest.mark.parametrize("way", ["close", "no close_notify", "reset"])
def test_an_end_in_mid_frame_stores_nothing_and_frees_what_was_begun(
    run: Any, over_tls: Any, until: Any, certificates: Certificates, way: str
) -> None:
    hello = wired(Hello(VERSION, "sender", "orders", "c", {}))
    data = wired(Send(0, None, batch(b"x" * MIB)))[:-1]

    def cut(host: str, port: int) -> None:
        plain = socket.create_connection((host, port), 10.0)
        secured = context_of(certificates).wrap_socket(plain, server_hostname=host)
        secured.sendall(hello)
        assert secured.recv(1 << 16)
        secured.sendall(data)
        if way == "close":
            # Whatever the broker has said meanwhile comes before its own end of TLS.
            with suppress(OSError):
                secured.unwrap()
            secured.close()
        elif way == "reset":
            secured.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            secured.close()
        else:
            # The end of the stream, which TLS was not told: as an attacker on the line would make it.
            secured.shutdown(socket.SHUT_WR)
            while secured.recv(1 << 16):
                continue
            secured.close()

    async def main() -> None:
        async with over_tls() as (broker, peers):
            closed: list[Any] = []
            host, port = broker.send_address.rsplit(":", 1)
            cutting = asyncio.create_task(asyncio.to_thread(cut, host, int(port)))
            await until(lambda: broker.connections)
            (connection,) = broker.connections.values()
            told, connection.connection_closed = connection.connection_closed, closed.append  # type: ignore[method-assign]
            await cutting
            await until(lambda: len(closed) == 1)
            assert isinstance(closed[0], TruncatedFrameError | OSError)
            told(closed[0])
            assert broker.partial.bytes == 0
            admin = await peers.open(broker.send_address, "admin", None)
            (row,) = await command(admin, "queue.list")
            assert (row["name"], row["total_in"]) == ("orders", 0)

    run(main)


def test_who_is_refused_reads_why_however_much_it_had_sent(run: Any, over_tls: Any) -> None:
    async def main() -> None:
        async with over_tls() as (broker, peers):
            sender = await peers.open(broker.send_address, "sender")
            # A receiver's frame, and much more behind it that nobody looks at.
            sender.send(Request(1, 1))
            for _ in range(20):
                sender.send_bytes(b"\xff" * (1 << 16))
            while not isinstance(frame := await sender.frame(), Error):
                assert frame is not None, "the end came before the reason"
            assert frame.code == "protocol-error"

    run(main)


def test_a_client_that_does_not_read_is_read_no_further_and_others_are_served(
    run: Any, over_tls: Any, until: Any
) -> None:
    async def main() -> None:
        async with over_tls() as (broker, peers):
            sender = await peers.open(broker.send_address, "sender")
            await sender.expect(Demand)
            deaf = await peers.open(broker.receive_address, "receiver", "orders", "deaf")
            deaf.send(Request(1000, 1 << 30))
            stopped = deaf._reader._transport
            stopped.pause_reading()
            number = 0
            (connection,) = [each for each in broker.connections.values() if each.client_id == "deaf"]
            assert connection.connection is not None
            while not connection.connection._blocked:
                sender.send(Send(number, None, batch(b"x" * MIB)))
                await sender.expect_later(Sent)
                number += 1
                assert number < 200
            assert connection.connection._transport is not None
            assert connection.connection._transport.get_write_buffer_size() < 48 * MIB
            other = await peers.open(broker.send_address, "admin", None, None)
            assert await command(other, "queue.list")
            stopped.resume_reading()
            received = 0
            while received < number:
                received += len((await deaf.expect_later(Deliver)).batch)
            await until(lambda: not connection.connection._blocked)

    run(main)


def test_the_buffer_that_is_received_into_is_a_view_for_tls_would_lose_what_it_copies() -> None:
    # CPython's issue 156275: of a bytearray its slices are copies, into which TLS then receives.
    decoder = FrameDecoder()
    assert type(decoder.get_buffer()) is memoryview
    data = wired(Send(0, None, batch(b"x" * 3000)))
    decoder.get_buffer()[: len(data) - 1] = data[:-1]
    decoder.received(len(data) - 1)
    assert decoder.next_frame() is None
    assert type(decoder.get_buffer()) is memoryview


def test_signs_of_life_are_kept(run: Any, over_tls: Any, until: Any) -> None:
    async def main() -> None:
        async with over_tls(heartbeat=0.1) as (broker, peers):
            peer = await peers.open(broker.send_address, "admin", None)
            (connection,) = broker.connections.values()
            shell = connection.connection
            assert shell is not None
            listening = asyncio.create_task(peer.expect(Pong))
            several = shell.bytes_in + 10 * len(wired(Pong(0)))
            await until(lambda: shell.bytes_in >= several)
            peer.send(Ping(7))
            assert await listening == Pong(7)
            peer.answers_pings = False
            assert (await peer.refusal()).code == "timeout"

    run(main)


def test_a_broker_that_stops_tells_everybody_and_waits_for_no_one_for_long(run: Any, over_tls: Any) -> None:
    async def main() -> None:
        async with over_tls() as (broker, peers):
            peer = await peers.open(broker.send_address, "admin", None)
            stopping = asyncio.create_task(broker.__aexit__())
            said = await peer.expect(Error)
            assert said.code == "shutting-down"
            await peer.close()
            async with asyncio.timeout(LINGER + 3.0):
                await stopping

    run(main)


# Who is refused, and by whom


async def refused_by_tls(broker: Broker, context: ssl.SSLContext) -> Exception:
    """What a client sees that is not let in; in TLS 1.3 it may think that it was, until it reads."""
    host, port = broker.send_address.rsplit(":", 1)

    async def read() -> None:
        reader, writer = await asyncio.open_connection(host, int(port), ssl=context)
        try:
            writer.write(wired(Hello(VERSION, "admin", None, None, {})))
            await reader.readexactly(1)
        finally:
            writer.transport.abort()

    with pytest.raises((OSError, asyncio.IncompleteReadError)) as caught:
        await read()
    return caught.value


def reasons(caplog: pytest.LogCaptureFixture) -> str:
    """Why the broker has refused, in the words of OpenSSL, which have changed from capitals and underscores."""
    return caplog.text.lower().replace("_", " ")


@pytest.mark.parametrize(
    ("which", "why"), [("expired", "expired"), ("elsewhere", "mismatch"), ("untrusted", "local issuer")]
)
def test_a_certificate_that_is_wrong_is_refused_by_the_client_and_the_broker_lives(
    run: Any, serve: Any, until: Any, certificates: Certificates, which: str, why: str
) -> None:
    async def main() -> None:
        async with serve(**options_of(getattr(certificates, which))) as broker:
            error = await refused_by_tls(broker, context_of(certificates))
            assert isinstance(error, ssl.SSLCertVerificationError)
            assert why in str(error)
            await until(lambda: broker._entrance.unopened.count == 0 and not broker._connections._accepted)

    run(main)


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1:DeprecationWarning")
def test_tls_1_1_is_refused_by_the_broker(
    run: Any, over_tls: Any, until: Any, certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    context = context_of(certificates)
    context.set_ciphers("DEFAULT@SECLEVEL=0")
    context.minimum_version = ssl.TLSVersion.TLSv1
    context.maximum_version = ssl.TLSVersion.TLSv1_1

    async def main() -> None:
        async with over_tls() as (broker, _):
            assert broker._certificates.context is not None
            assert broker._certificates.context.minimum_version == ssl.TLSVersion.TLSv1_2
            await refused_by_tls(broker, context)
            await until(lambda: broker._entrance.unopened.count == 0)

    with caplog.at_level(logging.INFO, "penstock.broker"):
        run(main)
    assert "unsupported protocol" in reasons(caplog)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_without_a_client_certificate_where_one_is_required_the_broker_refuses(
    run: Any,
    over_tls: Any,
    until: Any,
    certificates: Certificates,
    version: ssl.TLSVersion,
    caplog: pytest.LogCaptureFixture,
) -> None:
    context = context_of(certificates)
    context.minimum_version = context.maximum_version = version

    async def main() -> None:
        async with over_tls(tls_client_ca=certificates.ca, tls_client_certificates="required") as (broker, _):
            await refused_by_tls(broker, context)
            await until(lambda: broker._entrance.unopened.count == 0)
            assert not broker.connections

    with caplog.at_level(logging.INFO, "penstock.broker"):
        run(main)
    assert "peer did not return a certificate" in reasons(caplog)


def test_a_client_certificate_of_another_authority_is_refused_by_the_broker(
    run: Any, over_tls: Any, until: Any, certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with over_tls(tls_client_ca=certificates.ca) as (broker, _):
            await refused_by_tls(broker, context_of(certificates, certificates.untrusted))
            await until(lambda: broker._entrance.unopened.count == 0)

    with caplog.at_level(logging.INFO, "penstock.broker"):
        run(main)
    assert "certificate verify failed" in reasons(caplog)


def test_whoever_speaks_plainly_to_a_broker_under_tls_is_closed_and_takes_no_place(
    run: Any, over_tls: Any, peers: Any, until: Any
) -> None:
    async def main() -> None:
        async with over_tls() as (broker, _), peers() as plain:
            peer = await plain.connect(broker.send_address)
            peer.send(Hello(VERSION, "admin", None, None, {}))
            while await peer._reader.read(1024):
                continue
            await until(lambda: broker._entrance.unopened.count == 0)
            assert not broker._connections._accepted

    run(main)


def test_a_handshake_that_does_not_go_on_does_not_hold_up_the_brokers_end(
    run: Any, over_tls: Any, peers: Any, until: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Who waited for so long would be told from a machine that stands still.
    for user in ("broker.acceptor", "shell.connection"):
        monkeypatch.setattr(f"transport.{user}.LINGER", 2 * ENTRANCE_TIMEOUT)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with over_tls() as (broker, _), peers() as plain:
            silent = await plain.connect(broker.send_address)
            await until(lambda: broker._entrance.unopened.count == 1)
            began = loop.time()
            await broker.drain(0.0)
        assert loop.time() - began < ENTRANCE_TIMEOUT - 1.0
        assert await silent._reader.read() == b""

    run(main)


def test_a_handshake_that_is_not_begun_takes_a_place_of_those_that_are_not_let_in(
    run: Any, over_tls: Any, peers: Any, until: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with over_tls(max_unauthenticated=1) as (broker, secured), peers() as plain:
            with monkeypatch.context() as patched:
                patched.setattr("transport.broker.acceptor.ENTRANCE_TIMEOUT", 0.3)
                await plain.connect(broker.send_address)
                await until(lambda: broker._entrance.unopened.full)
            admin = await secured.open(broker.send_address, "admin", None)
            assert await command(admin, "queue.list") == []

    run(main)


# Client certificates

NAMES: dict[str, tuple[x509.Name, str]] = {
    "plain": (
        x509.Name(
            [
                x509.NameAttribute(NameOID.COUNTRY_NAME, "DE"),
                x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Example"),
                x509.NameAttribute(NameOID.COMMON_NAME, "alice"),
            ]
        ),
        "CN=alice,O=Example,C=DE",
    ),
    "special": (
        x509.Name(
            [
                x509.NameAttribute(NameOID.ORGANIZATION_NAME, '#Müller, "Söhne" + <Co>; \\ '),
                x509.NameAttribute(NameOID.COMMON_NAME, " a=b\n"),
            ]
        ),
        'CN=\\ a=b\\0A,O=\\#Müller\\, \\"Söhne\\" \\+ \\<Co\\>\\; \\\\\\ ',
    ),
    "several values": (
        x509.Name(
            [
                x509.RelativeDistinguishedName([x509.NameAttribute(NameOID.DOMAIN_COMPONENT, "org")]),
                x509.RelativeDistinguishedName([x509.NameAttribute(NameOID.DOMAIN_COMPONENT, "example")]),
                x509.RelativeDistinguishedName(
                    [
                        x509.NameAttribute(NameOID.COMMON_NAME, "alice"),
                        x509.NameAttribute(NameOID.USER_ID, "4711"),
                    ]
                ),
            ]
        ),
        "UID=4711+CN=alice,DC=example,DC=org",
    ),
    "other parts": (
        x509.Name(
            [
                x509.NameAttribute(NameOID.STATE_OR_PROVINCE_NAME, "S"),
                x509.NameAttribute(NameOID.LOCALITY_NAME, "L"),
                x509.NameAttribute(NameOID.STREET_ADDRESS, "T"),
                x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, "U"),
                x509.NameAttribute(NameOID.EMAIL_ADDRESS, "a@example.org"),
            ]
        ),
        "emailAddress=a@example.org,OU=U,street=T,L=L,ST=S",
    ),
}


def test_without_a_certificate_there_is_no_subject() -> None:
    assert [subject_of(each) for each in (None, {}, {"subject": ()})] == [None] * 3


@pytest.mark.parametrize("case", sorted(NAMES))
def test_the_subject_of_a_clients_certificate_names_the_user(
    run: Any, over_tls: Any, certificates: Certificates, tmp_path: Path, case: str
) -> None:
    name, subject = NAMES[case]
    users = Users([User("alice", None, Right.MONITOR, (Grant("orders", ALL),), certificates=(subject,))])
    change_users(tmp_path / "users.toml", lambda _: users)
    options = {"users_file": str(tmp_path / "users.toml"), "tls_client_ca": certificates.ca}

    async def main() -> None:
        async with over_tls(own=certificates.client(name), **options) as (broker, peers):
            admin = await peers.open(broker.send_address, "admin", None)
            assert [row["user"] for row in await command(admin, "connection.list")] == ["alice"]
            change_users(tmp_path / "users.toml", lambda users: Users([replace(one, certificates=()) for one in users]))
            assert await broker.reload_users()
            assert (await admin.expect(Error)).code == "authentication-failed"

    run(main)


def test_a_certificate_that_is_nobodys_is_told_to_the_log_as_it_can_be_given_to_a_user(
    run: Any, over_tls: Any, certificates: Certificates, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    change_users(tmp_path / "users.toml", lambda _: Users([User("alice")]))
    options = {"users_file": str(tmp_path / "users.toml"), "tls_client_ca": certificates.ca}

    async def main() -> None:
        async with over_tls(own=certificates.client(NAMES["plain"][0]), **options) as (broker, peers):
            peer = await peers.connect(broker.send_address)
            peer.send(Hello(VERSION, "admin", None, None, {}))
            assert (await peer.expect(Error)).code == "authentication-failed"

    with caplog.at_level(logging.WARNING, "penstock.broker"):
        run(main)
    assert NAMES["plain"][1] in caplog.text


# Certificates that change


def serial_of(peer: Any) -> str:
    return str(peer._writer.get_extra_info("peercert")["serialNumber"])


def test_a_new_certificate_is_for_those_who_connect_from_then_on_and_a_broken_one_for_nobody(
    run: Any, serve: Any, peers: Any, certificates: Certificates, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def install(issued: Issued) -> None:
        (tmp_path / "broker.pem").write_bytes(Path(issued.certificate).read_bytes() + Path(issued.key).read_bytes())

    install(certificates.server)

    async def main() -> None:
        context = context_of(certificates)
        async with serve(tls_certificate=str(tmp_path / "broker.pem")) as broker, peers(context) as all_peers:
            before = await all_peers.open(broker.send_address, "admin", None)
            install(certificates.issue("localhost", "127.0.0.1"))
            assert await broker.reload_certificates()
            after = await all_peers.open(broker.send_address, "admin", None)
            assert serial_of(before) != serial_of(after)
            spoil(tmp_path / "broker.pem")
            with caplog.at_level(logging.ERROR, "penstock.broker"):
                assert not await broker.reload_certificates()
            assert "certificates: not read again, and as before: " in caplog.text
            assert serial_of(await all_peers.open(broker.send_address, "admin", None)) == serial_of(after)
            for peer in (before, after):
                assert await command(peer, "queue.list") == []

    run(main)


def spoil(path: Path) -> None:
    path.write_text("-----BEGIN CERTIFICATE-----\n")


def test_a_start_with_a_key_that_others_may_read_warns(
    run: Any, serve: Any, until: Any, certificates: Certificates, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    key = tmp_path / "broker.key"
    key.write_bytes(Path(certificates.server.key).read_bytes())
    key.chmod(0o644)

    async def main() -> None:
        async with serve(tls_certificate=certificates.server.certificate, tls_key=str(key)):
            await until(lambda: caplog.records)

    run(main)
    [record] = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage().endswith(f"mode 0644, so others may read it: chmod 600 {key}")


# What may be reached from elsewhere


def test_a_broker_without_its_certificate_does_not_start(run: Any, serve: Any, tmp_path: Path) -> None:
    async def main() -> None:
        with pytest.raises(LocalProtocolError, match=r"TLS cannot be set up with .*missing\.pem"):
            await serve(tls_certificate=str(tmp_path / "missing.pem")).__aenter__()

    run(main)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"tls_key": "k"}, "tls_key is of no use without tls_certificate"),
        ({"tls_client_ca": "c"}, "tls_client_ca is of no use without tls_certificate"),
        ({"tls_certificate": "c", "tls_client_certificates": "required"}, "verified by tls_client_ca"),
    ],
)
def test_settings_of_tls_that_need_another_are_refused(
    run: Any, serve: Any, options: dict[str, str], said: str
) -> None:
    async def main() -> None:
        with pytest.raises(LocalProtocolError, match=said):
            await serve(**options).__aenter__()

    run(main)


def test_an_unknown_word_for_client_certificates_is_refused() -> None:
    with pytest.raises(LocalProtocolError, match="not one of optional, required"):
        BrokerConfig(tls_client_certificates="maybe")
