"""Whoever reaches the address of the links and has no secret can do nothing there, hold little, and not for long."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import ssl
import tracemalloc
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from actors.replication import vocabulary as say
from streams.testkit import settle
from tests.transport.cluster.link_nodes import CLUSTER, SECRET, LinkNode, nodes
from transport.cluster import door, hello
from transport.cluster.frames import FrameReader, FrameWriter
from transport.cluster.hello import Dialing, HandshakeReader, Identity
from transport.cluster.link import HANDSHAKE_SECONDS, LINGER_SECONDS
from transport.cluster.link_codec import LinkCodec
from transport.cluster.link_settings import LinkSettings, LinkTls, read_keys
from transport.wire.address import parse_address

if TYPE_CHECKING:
    from tests.transport.certificates import Certificates

pytestmark = pytest.mark.event_loop

Run = Callable[[Callable[[], Coroutine[Any, Any, None]]], None]
CODEC = LinkCodec()


class Stranger:
    """One raw connection to a node."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._hand = HandshakeReader()
        self.out: FrameWriter | None = None
        self.seed_in = 0

    def say(self, data: bytes) -> None:
        self._writer.write(data)

    async def rest(self) -> bytes:
        """What comes until the end."""
        try:
            return await self._reader.read()
        except ConnectionError:
            return b""

    async def message(self) -> tuple[int, bytes]:
        """The next one of the handshake."""
        while (message := self._hand.next_message()) is None:
            data = await self._reader.read(4096)
            assert data, "the end came before a message"
            self._hand.add(data)
        return message

    async def shake(self, secret: bytes | None = SECRET.secret, wanted: str = "a" * 32, letter: str = "e") -> None:
        """As a member does it."""
        me = Identity(CLUSTER, letter * 32, letter, "127.0.0.1:1", letter.encode() * 8)
        side = Dialing(me, wanted, secret, os.urandom(hello.NONCE_BYTES))
        self.say(side.begin())
        while True:
            answer = side.received(*await self.message())
            if answer is None:
                break
            self.say(answer)
        agreed = side.agreed(dials=True)
        self.out, self.seed_in = FrameWriter(agreed.seed_out), agreed.seed_in

    def send(self, message: Any) -> None:
        assert self.out is not None
        for frame in self.out.cut(*CODEC.encode(message)):
            self.say(b"".join(frame))

    def close(self) -> None:
        self._writer.transport.abort()


@asynccontextmanager
async def strangers(node: LinkNode, count: int = 1) -> AsyncIterator[list[Stranger]]:
    made = []
    try:
        for _ in range(count):
            streams = await asyncio.open_connection(*parse_address(node.address))
            made.append(Stranger(*streams))
        yield made
    finally:
        for each in made:
            each.close()


def held(node: LinkNode) -> int:
    """Connections on which nobody has proved anything yet."""
    return len(node.links._door._strangers)


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await settle(0.001)


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"\0" * 100,
        b"PLNK\x01\xff\xff" + b"x" * 100_000,
        b"PLNK\x01\x04\x00" + b"x" * 1_024,
        hello.pack(hello.PROOF, b"p" * 32),
        hello.pack(hello.READY, b""),
        hello.pack(hello.REFUSED, b"\x01xwhy"),
        hello.pack(99, b""),
    ],
)
def test_garbage_ends_its_own_connection_and_no_other(run: Run, data: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with nodes("a", "b") as (a, b), strangers(a) as (stranger,):
            stranger.say(data)
            await stranger.rest()
            await until(lambda: held(a) == 0)
            a.links.send(b.directory, say.Follow(1))
            assert await b.gets(1) == [("a", say.Follow(1))]
            assert a.told == [("connected", "b")]

    run(main)
    assert len([line for line in caplog.messages if "is not taken" in line]) == 1


def test_the_same_fault_of_one_host_is_logged_once(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with nodes("a") as (a,):
            for _ in range(20):
                async with strangers(a) as (stranger,):
                    stranger.say(b"garbage\x1b[31m\n")
                    await stranger.rest()

    run(main)
    assert len(caplog.messages) == 1
    assert caplog.messages[0].isprintable()


def test_a_hello_that_was_recorded_opens_nothing(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with nodes("a", "b") as (a, _):
            side = Dialing(
                Identity(CLUSTER, "b" * 32, "b", "127.0.0.1:1", b"recorded"), "a" * 32, SECRET.secret, bytes(32)
            )
            begin = side.begin()
            async with strangers(a) as (first,):
                first.say(begin)
                proof = side.received(*await first.message())
                assert proof is not None
            async with strangers(a) as (second,):
                second.say(begin + proof)
                rest = await second.rest()
                assert b"different secrets" in rest
                assert rest.count(hello.MARK) == 2  # a CHALLENGE, and a refusal
            await until(lambda: held(a) == 0)
            assert a.told == [("connected", "b")]

    with caplog.at_level(logging.WARNING, "penstock.cluster"):
        run(main)
    (line,) = caplog.messages
    assert "a node that connects from 127.0.0.1 (b) is not taken: the two have different secrets" in line


def test_what_comes_before_the_proof_is_answered_is_not_read(run: Run) -> None:
    async def main() -> None:
        async with nodes("a") as (a,), strangers(a) as (stranger,):
            a.links.set_peers({"e" * 32: "127.0.0.1:1"})
            side = Dialing(
                Identity(CLUSTER, "e" * 32, "e", "127.0.0.1:1", b"12345678"), "a" * 32, SECRET.secret, bytes(32)
            )
            stranger.say(side.begin())
            proof = side.received(*await stranger.message())
            assert proof is not None
            early = FrameWriter(side.agreed(dials=True).seed_out).whole(*CODEC.encode(say.Follow(9)))
            stranger.say(proof + b"".join(early))
            await stranger.rest()
            assert a.got == []
            assert a.count("connected", "e") == 0

    run(main)


def test_who_says_nothing_or_little_is_not_waited_for(run: Run, jump: Callable[[float], None]) -> None:
    async def main() -> None:
        async with nodes("a") as (a,), strangers(a, 3) as (silent, slow, half):
            slow.say(b"PLN")
            me = Identity(CLUSTER, "e" * 32, "e", "127.0.0.1:1", b"12345678")
            half.say(Dialing(me, "a" * 32, SECRET.secret, bytes(32)).begin())
            await half.message()
            await until(lambda: held(a) == 3)
            jump(HANDSHAKE_SECONDS)
            assert [await each.rest() for each in (silent, slow, half)] == [b""] * 3
            assert held(a) == 0

    run(main)


def test_a_refused_one_that_stays_is_not_waited_for(run: Run, jump: Callable[[float], None]) -> None:
    async def main() -> None:
        async with nodes("a") as (a,), strangers(a) as (stranger,):
            me = Identity("d" * 32, "e" * 32, "e", "127.0.0.1:1", b"12345678")
            stranger.say(Dialing(me, "a" * 32, SECRET.secret, bytes(32)).begin())
            assert (await stranger.message())[0] == hello.REFUSED
            assert held(a) == 1
            jump(LINGER_SECONDS)
            await until(lambda: held(a) == 0)

    run(main)


def test_many_who_connect_and_say_nothing_keep_no_member_out(run: Run) -> None:
    async def main() -> None:
        async with nodes("a", "b", join=False) as (a, b), strangers(a, 100):
            b.knows(a)
            a.knows(b)
            await b.connects(a)
            await a.connects(b)
            assert held(a) <= door.MAX_STRANGERS_OF_ONE
            async with strangers(a, 100):
                a.links.send(b.directory, say.Follow(1))
                assert await b.gets(1) == [("a", say.Follow(1))]
                assert held(a) <= door.MAX_STRANGERS_OF_ONE

    run(main)


def test_strangers_of_many_hosts_are_few_together(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "MAX_STRANGERS", 5)
    monkeypatch.setattr(door, "MAX_STRANGERS_OF_ONE", 100)

    async def main() -> None:
        async with nodes("a") as (a,), strangers(a, 40) as crowd:
            # Each makes room when the fifth behind it has come.
            for each in crowd[:35]:
                assert await each.rest() == b""
            assert held(a) == 5

    run(main)


def test_a_stranger_has_a_node_hold_a_few_kibibytes(run: Run) -> None:
    many = door.MAX_STRANGERS_OF_ONE

    async def main() -> None:
        async with nodes("a") as (a,):
            async with strangers(a, many):
                await until(lambda: held(a) == many)
            await until(lambda: held(a) == 0)
            async with contextlib.AsyncExitStack() as stack:
                tracemalloc.start()
                for _ in range(many):
                    (each,) = await stack.enter_async_context(strangers(a))
                    each.say(hello.pack(hello.HELLO, b"")[:-2] + b"\x00\x04" + b"x" * 1_000)
                await until(lambda: held(a) == many)
                await until(lambda: all(link._bytes_in > 1_000 for link in a.links._door._strangers))
                snapshot = tracemalloc.take_snapshot().filter_traces(
                    [tracemalloc.Filter(True, "*/transport/cluster/*"), tracemalloc.Filter(True, "*/asyncio/*")]
                )
                tracemalloc.stop()
                # Both ends are here, and the other one's stream has a buffer too.
                assert sum(each.size for each in snapshot.statistics("filename")) < many * 16 * 1024

    run(main)


def test_who_begins_no_tls_is_not_waited_for(
    run: Run, certificates: Certificates, jump: Callable[[float], None]
) -> None:
    own = certificates.server
    keys = read_keys(LinkSettings(tls=LinkTls(certificates.ca, own.certificate, own.key)))

    async def main() -> None:
        async with nodes("a", a={"keys": keys}) as (a,), strangers(a, 2) as (silent, plain):
            plain.say(hello.pack(hello.HELLO, b"x" * 200))
            await plain.rest()
            await until(lambda: held(a) == 1)
            jump(HANDSHAKE_SECONDS)
            assert await silent.rest() == b""
            await until(lambda: held(a) == 0)

    run(main)


def test_who_shows_no_certificate_gets_no_further(run: Run, certificates: Certificates) -> None:
    own = certificates.server
    keys = read_keys(LinkSettings(tls=LinkTls(certificates.ca, own.certificate, own.key)))

    async def main() -> None:
        async with nodes("a", a={"keys": keys}) as (a,):
            a.links.set_peers({"e" * 32: "127.0.0.1:1"})
            trusting = ssl.create_default_context(cafile=certificates.ca)
            try:
                reader, writer = await asyncio.open_connection(
                    *parse_address(a.address), ssl=trusting, server_hostname="127.0.0.1"
                )
                writer.write(hello.pack(hello.HELLO, b"x" * 200))
                assert await reader.read() == b""
                writer.close()
            except (ssl.SSLError, ConnectionError):
                pass
            assert a.count("connected", "e") == 0
            await until(lambda: held(a) == 0)

    run(main)


# Members with a defect


def test_a_member_that_sends_garbage_loses_its_link_and_nothing_else_happens(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with nodes("a", "b") as (a, b), strangers(a) as (member,):
            a.links.set_peers({"e" * 32: "127.0.0.1:1", b.directory: b.address})
            await member.shake()
            await a.until(lambda: a.count("connected", "e") == 1)
            member.send(say.Follow(3))
            member.say(b"\0" * 50)
            await member.rest()
            await a.until(lambda: a.count("lost", "e") >= 1)
            assert a.got == [("e", say.Follow(3))]
            assert a.count("lost", b) == 0

    run(main)
    assert len([line for line in caplog.messages if "checksum of frame 1 does not hold" in line]) == 1


def test_a_member_that_sends_what_cannot_be_loses_its_link(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with nodes("a") as (a,), strangers(a) as (member,):
            a.links.set_peers({"e" * 32: "127.0.0.1:1"})
            await member.shake()
            assert member.out is not None
            member.say(b"".join(member.out.whole(0, 200, (b"?",), 1)))
            await member.rest()
            await a.until(lambda: a.count("connected", "e") == 1 and a.count("lost", "e") >= 1)

    run(main)
    assert [line for line in caplog.messages if "a message of kind 200" in line]


def test_what_comes_with_the_end_of_a_handshake_is_heard(run: Run) -> None:
    """A node may say something in the same breath with READY."""

    async def main() -> None:
        async with nodes("a") as (a,), strangers(a) as (member,):
            a.links.set_peers({"e" * 32: "127.0.0.1:1"})
            connected = a.connected

            def speaks(peer: str) -> None:
                connected(peer)
                a.links.send(peer, say.Follow(8))

            a.connected = speaks  # type: ignore[method-assign]
            await member.shake()
            reader = FrameReader(member.seed_in)
            data = member._hand.rest()
            found: list[Any] = []
            while not found:
                found += [CODEC.decode(whole) for whole in reader.feed(data)]
                data = b"" if found else await member._reader.read(4096)
            assert found[0] == say.Follow(8)

    run(main)
