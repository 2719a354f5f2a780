"""TLS in clients: it carries all that they do, they speak with nobody whose certificate is wrong, and say what was wrong."""

from __future__ import annotations

import asyncio
import logging
import os
import select
import socket
import ssl
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from streams import Source
from tests.decoding import FrameDecoder
from tests.transport.proving_peers import (
    ANN,
    ANSWER,
    CLIENTS,
    PASSWORD,
    USER,
    VERIFIER,
    Client,
    hear_it_go,
    proved,
    serve,
    welcome,
)
from tests.transport.scripted_peers import Peer, Play, refused_within_tls
from transport import (
    Access,
    Administration,
    AuthenticationError,
    Backoff,
    ConnectionLostError,
    EnlistedStage,
    MessageBatch,
    Receiver,
    RemoteProtocolError,
    Sender,
    StageClient,
    Tls,
    TransactionClient,
)
from transport.clients.blocking_connection import BlockingConnection
from transport.clients.subscription_client import SubscriptionClient
from transport.security.scram import ServerExchange
from transport.wire.codec import decode, encode
from transport.wire.frames import MAX_BODY_BYTES, MAX_FRAME_BYTES
from transport.wire.messages import VERSION, Auth, Demand, Frame, Hello, Ping, Send, Sent, Welcome

if TYPE_CHECKING:
    from tests.transport.certificates import Certificates

pytestmark = pytest.mark.event_loop

LARGE = MAX_BODY_BYTES - 64


@pytest.fixture(params=CLIENTS.values(), ids=CLIENTS.keys())
def ask(request: pytest.FixtureRequest) -> Client:
    client: Client = request.param
    return client


@pytest.fixture
def trusting(certificates: Certificates) -> Access:
    return Access(tls=Tls(ca=certificates.ca))


def open_and_serve(peer: Peer) -> None:
    peer.read(Hello)
    welcome(peer)
    serve(peer)


# What goes well


def test_a_client_speaks_with_a_broker_whose_certificate_is_good(
    ask: Client, play: Play, certificates: Certificates, trusting: Access
) -> None:
    broker = play(open_and_serve, tls=certificates.server_context())
    assert ask(broker.address, trusting) == ANSWER


def test_a_name_is_good_as_well_as_an_address(
    ask: Client, play: Play, certificates: Certificates, trusting: Access
) -> None:
    broker = play(open_and_serve, tls=certificates.server_context())
    assert ask(broker.address.replace("127.0.0.1", "localhost"), trusting) == ANSWER


def test_the_name_that_is_asked_for_may_be_another_than_the_hosts(
    ask: Client, play: Play, certificates: Certificates
) -> None:
    broker = play(open_and_serve, tls=certificates.server_context(certificates.elsewhere))
    assert ask(broker.address, Access(tls=Tls(ca=certificates.ca, server_name="broker.example"))) == ANSWER


def test_a_password_is_proved_within_tls(ask: Client, play: Play, certificates: Certificates) -> None:
    broker = play(proved, tls=certificates.server_context())
    assert ask(broker.address, Access(USER, PASSWORD, tls=Tls(ca=certificates.ca))) == ANSWER


def test_a_client_shows_a_certificate_where_it_is_asked_for_one(
    ask: Client, play: Play, certificates: Certificates
) -> None:
    own = certificates.client(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "till 7")]))
    broker = play(open_and_serve, tls=certificates.server_context(client_ca=certificates.ca))
    assert ask(broker.address, Access(tls=Tls(certificates.ca, own.certificate, own.key))) == ANSWER


# What does not: each is told once, and not tried again


@pytest.mark.parametrize(
    ("which", "why"),
    [
        ("expired", "certificate has expired"),
        ("elsewhere", "not valid for '127.0.0.1'; give the name that the certificate has as the server name"),
        ("untrusted", "issuer certificate; give the file of the authority"),
    ],
)
def test_a_certificate_that_is_wrong_is_refused_by_the_client(
    ask: Client, play: Play, certificates: Certificates, trusting: Access, which: str, why: str
) -> None:
    broker = play(refused_within_tls, tls=certificates.server_context(getattr(certificates, which)))
    with pytest.raises(AuthenticationError, match=f"{broker.address} has not proved itself: .*{why}"):
        ask(broker.address, trusting)


def test_who_trusts_the_system_alone_trusts_no_authority_of_ours(
    ask: Client, play: Play, certificates: Certificates
) -> None:
    broker = play(refused_within_tls, tls=certificates.server_context())
    with pytest.raises(AuthenticationError, match="give the file of the authority"):
        ask(broker.address, Access(tls=Tls()))


def test_a_broker_that_speaks_no_tls_is_told_as_that(ask: Client, play: Play, trusting: Access) -> None:
    def plain(peer: Peer) -> None:
        # As a broker answers bytes that are no frame of its: with a frame.
        peer._socket.recv(1000)
        peer._socket.sendall(b"\0\0\0\x20\0\x1e\x94\x03\xaeprotocol-error" + b"." * 16)
        hear_it_go(peer)

    broker = play(plain)
    with pytest.raises(RemoteProtocolError, match=f"{broker.address} does not speak TLS there"):
        ask(broker.address, trusting)


def test_a_broker_that_speaks_tls_is_told_to_who_does_not(ask: Client, play: Play) -> None:
    def alerts(peer: Peer) -> None:
        peer._socket.recv(1000)
        # What TLS of any version says of bytes that are none of its own: protocol_version, or unexpected_message.
        peer._socket.sendall(bytes.fromhex("15030100020246"))
        hear_it_go(peer)

    broker = play(alerts)
    with pytest.raises(RemoteProtocolError, match="an alert of TLS: this address speaks it, so this side must as well"):
        ask(broker.address, Access())


def test_a_broker_that_just_closes_may_want_tls(ask: Client, play: Play) -> None:
    with pytest.raises(ConnectionLostError, match="before it said anything; if it speaks TLS there, this client must"):
        ask(play(lambda peer: None, again=True).address, Access(), patience=2.0)


def test_a_client_that_tries_for_ever_tells_once_a_run_of_failures_what_may_be_the_matter(
    run: Any, play: Play, until: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def says_nothing(peer: Peer) -> None:
        peer.read(Hello)

    def lets_in_and_goes(peer: Peer) -> None:
        peer.read(Hello)
        welcome(peer)

    closing = [says_nothing] * 3
    broker = play(*closing, lets_in_and_goes, *closing, says_nothing, again=True)
    patient = Backoff(minimum=0.01, maximum=0.01, give_up_after=None)

    async def main() -> None:
        receiver = Receiver(broker.address, queue="orders", reconnect=patient, access=Access())
        running = asyncio.ensure_future(anext(aiter(receiver)))
        await until(lambda: len(caplog.records) == 2)
        running.cancel()
        await asyncio.wait([running])

    with caplog.at_level(logging.WARNING, "penstock.transport"):
        run(main)
    for record in caplog.records:
        assert record.getMessage().startswith(f"the broker at {broker.address}: ")
        assert "before it said anything; if it speaks TLS there, this client must as well" in record.getMessage()


def test_only_old_tls_is_too_old(ask: Client, play: Play, certificates: Certificates, trusting: Access) -> None:
    old = certificates.server_context()
    with pytest.warns(DeprecationWarning, match="TLSv1"):
        old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    old.set_ciphers("ALL:@SECLEVEL=0")
    broker = play(refused_within_tls, tls=old)
    with pytest.raises(RemoteProtocolError, match=r"no version of TLS that this client does; it takes 1\.2 and later"):
        ask(broker.address, trusting)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_broker_that_wants_a_certificate_is_told_as_that(
    ask: Client, play: Play, certificates: Certificates, trusting: Access, version: ssl.TLSVersion
) -> None:
    context = certificates.server_context(client_ca=certificates.ca)
    context.minimum_version = context.maximum_version = version
    broker = play(refused_within_tls, tls=context, again=True)
    # Where its alert is lost to the reset behind it, the client says what may be.
    with pytest.raises((AuthenticationError, ConnectionLostError), match="certificate"):
        ask(broker.address, trusting, patience=2.0)


def test_a_broker_that_is_not_believed_within_tls_is_told_so(
    ask: Client, play: Play, certificates: Certificates
) -> None:
    def script(peer: Peer) -> None:
        peer.read(Hello)
        server = ServerExchange(lambda _: VERIFIER)
        peer.send(Auth(server.challenge(peer.read(Auth).data)))
        peer.read(Auth)
        peer.send(Auth(b"v=" + b"A" * 43 + b"="))
        hear_it_go(peer)

    broker = play(script, tls=certificates.server_context())
    with pytest.raises(AuthenticationError, match="does not know the password's record"):
        ask(broker.address, Access(USER, PASSWORD, tls=Tls(ca=certificates.ca)))


# All that clients do, through TLS, with a broker of ours behind


def test_senders_and_receivers_work_through_tls_up_to_the_largest_frames(
    run: Any, serve: Any, cutting: Any, certificates: Certificates, trusting: Access
) -> None:
    payloads = [b"small", os.urandom(LARGE), b"", os.urandom(1 << 20)]

    async def main() -> None:
        async with serve() as broker:
            tls = certificates.server_context()
            async with cutting(broker.send_address, tls) as sending, cutting(broker.receive_address, tls) as receiving:
                sender = Sender(sending.address, queue="orders", access=trusting)
                assert (await Source.from_iterable(payloads).to(sender).run()).messages == 4
                receiver = Receiver(receiving.address, queue="orders", limit=4, access=trusting)
                came: list[bytes] = []
                async for delivery in receiver:
                    came.append(bytes(delivery.payload))
                    delivery.acknowledge()
                assert came == payloads
                async with Administration(sending.address, access=trusting) as administration:
                    assert [queue["ready"] for queue in await administration.queues()] == [0]

    run(main)


def test_connections_under_tls_that_are_cut_anywhere_are_made_again(
    run: Any, serve: Any, cutting: Any, certificates: Certificates, trusting: Access
) -> None:
    async def main() -> None:
        async with serve() as broker:
            tls = certificates.server_context()
            async with cutting(broker.send_address, tls) as sending:
                sending.up = [10, 100, 5000, 40_000]
                sending.down = [None, None, 60]
                sender = Sender(sending.address, queue="orders", access=trusting)
                summary = await Source.from_iterable([b"x" * 1000] * 200).to(sender).run()
                assert summary.messages == 200
                assert sending.connections > 4

    run(main)


def test_blocking_clients_work_through_tls_up_to_the_largest_frames(
    run: Any, serve: Any, cutting: Any, certificates: Certificates, trusting: Access
) -> None:
    payloads = [b"small", os.urandom(LARGE), b"", *(b"%d" % number for number in range(1000))]

    def write(address: str) -> None:
        with (
            StageClient(address, queue="orders", writer="w", version=1, stage="s", access=trusting) as stage,
            TransactionClient(address, writer="w", version=1, access=trusting) as transaction,
        ):
            for payload in payloads:
                stage.send(MessageBatch.from_payloads([payload]))
            transaction.commit([stage.finish()])

    def read(address: str) -> list[bytes]:
        came: list[bytes] = []
        with SubscriptionClient(
            address, queue="orders", subscription="lake", mode="own", access=trusting
        ) as subscription:
            end = 0
            while end < len(payloads):
                start, end = end, subscription.reserve(end, 5000, 1 << 30).end
                for fetched in subscription.fetch(start, end):
                    came += [bytes(payload) for payload in fetched.batch.payloads.tolist()]
            subscription.commit(end)
        return came

    async def main() -> None:
        async with serve() as broker:
            tls = certificates.server_context()
            async with cutting(broker.send_address, tls) as sending, cutting(broker.receive_address, tls) as receiving:
                await asyncio.to_thread(write, sending.address)
                assert await asyncio.to_thread(read, receiving.address) == payloads

    run(main)


class PiecewiseBroker:
    """TLS over memory, so that a test says when which bytes leave."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out, server_side=True)
        self._decoder = FrameDecoder(MAX_FRAME_BYTES)
        self._frames: list[Frame] = []

    def accept(self) -> None:
        with self._listener:
            self._socket, _ = self._listener.accept()
        self._socket.settimeout(20)
        self._until(self._tls.do_handshake)
        self._socket.sendall(self._out.read())

    def read(self) -> Frame:
        while not self._frames:
            self._frames += [
                decode(raw) for raw in self._decoder.receive_data(self._until(lambda: self._tls.read(1 << 16)))
            ]
        return self._frames.pop(0)

    def record(self, *frames: Frame) -> bytes:
        self._tls.write(b"".join(part for frame in frames for part in encode(frame)))
        return self._out.read()

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def close(self) -> None:
        self._socket.close()

    def _until(self, act: Callable[[], Any]) -> Any:
        while True:
            try:
                return act()
            except ssl.SSLWantReadError:
                self._socket.sendall(self._out.read())
                came = self._socket.recv(1 << 16)
                assert came, "the client has gone"
                self._in.write(came)


def test_a_part_of_a_record_is_no_end_of_a_connection_that_writes(
    monkeypatch: pytest.MonkeyPatch, certificates: Certificates, trusting: Access
) -> None:
    """Poll shows that there is something to read, and there is nothing yet: while the broker takes nothing, and speaks."""
    waits, saw_part, took_nothing = threading.Event(), threading.Event(), threading.Event()
    wait_for = BlockingConnection._wait_for

    def noting(connection: BlockingConnection, events: int, seconds: float) -> int:
        # Called where nothing could be written, and only there.
        waits.set()
        if saw_part.is_set():
            # It has tried to read the part, and waits again.
            took_nothing.set()
        happened = wait_for(connection, events, seconds)
        if happened & select.POLLIN:
            saw_part.set()
        return happened

    monkeypatch.setattr(BlockingConnection, "_wait_for", noting)
    broker = PiecewiseBroker(certificates.server_context())
    batch = MessageBatch.from_payloads([os.urandom(LARGE)])
    answered: list[EnlistedStage] = []

    def write() -> None:
        once = Backoff(minimum=1.0, give_up_after=0.0)
        with StageClient(
            broker.address, queue="q", writer="w", version=1, stage="s", access=trusting, retry=once
        ) as stage:
            stage.send(batch)
            answered.append(stage.finish())

    client = threading.Thread(target=write)
    client.start()
    broker.accept()
    assert isinstance(broker.read(), Hello)
    options = {"heartbeat_ms": 5000, "committed": False, "last_sequence": None}
    broker.send(broker.record(Welcome(VERSION, 1, options)))
    broker.send(broker.record(Demand(10, 1 << 26)))
    part = broker.record(Ping(7))
    # Nothing is read from here on, and the frame is more than the system holds: the client waits until it may write.
    assert waits.wait(20)
    broker.send(part[:9])
    assert took_nothing.wait(20)
    broker.send(part[9:])
    sent = broker.read()
    assert isinstance(sent, Send)
    assert sent.batch.payloads.tolist() == batch.payloads.tolist()
    broker.send(broker.record(Sent(1, 0)))
    client.join(20)
    assert answered == [EnlistedStage("q", "s", 1)]
    broker.close()


def test_a_secret_is_in_no_log_of_a_connection_under_tls(
    ask: Client, play: Play, certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    broker = play(refused_within_tls, tls=certificates.server_context(certificates.expired))
    with pytest.raises(AuthenticationError) as caught:
        ask(broker.address, Access(ANN.user, ANN.password, tls=Tls(ca=certificates.ca)))
    assert PASSWORD not in caplog.text + str(caught.value) + repr(caught.value)
