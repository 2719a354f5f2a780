"""Links between nodes over real sockets: they come to stand, carry messages in order, end, are told of, and come back."""

from __future__ import annotations

import asyncio
import errno
import itertools
import logging
import socket
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from actors.replication import vocabulary as say
from actors.replication.limits import BEAT_SECONDS
from actors.replication.positions import Position
from streams.testkit import settle
from tests.free_ports import free_ports
from tests.transport.cluster.link_messages import plain
from tests.transport.cluster.link_nodes import LinkNode, nodes
from transport.cluster import hello
from transport.cluster.causes import cause_of, why
from transport.cluster.frames import FRAME_BYTES
from transport.cluster.link import SILENT_SECONDS
from transport.cluster.link_settings import LinkKeys, LinkSettings, LinkTls, read_keys
from transport.cluster.links import ClusterLinks
from transport.cluster.records import Record
from transport.errors import LocalProtocolError

if TYPE_CHECKING:
    from tests.transport.certificates import Certificates

pytestmark = pytest.mark.event_loop

Run = Callable[[Callable[[], Coroutine[Any, Any, None]]], None]


def replicate(lsn: int, size: int = 10) -> say.Replicate:
    payload = (b"head of 16 bytes", bytes([lsn % 256]) * size)
    return say.Replicate(3, Position(3, lsn - 1), 0, 0.0, [Record(lsn, 3, 1, 1, payload)])


def test_each_of_three_nodes_has_one_link_to_each_other(run: Run) -> None:
    async def main() -> None:
        async with nodes("a", "b", "c") as three:
            for one, other in itertools.permutations(three, 2):
                assert one.links.connected == {each.directory for each in three if each is not one}
                assert one.links.send(other.directory, say.Follow(ord(one.name)))
            for each in three:
                got = await each.gets(2)
                assert sorted(got) == [(o.name, say.Follow(ord(o.name))) for o in three if o is not each]
                assert each.count("lost", "a") + each.count("lost", "b") + each.count("lost", "c") == 0

    run(main)


def test_only_one_of_two_has_to_be_told_of_the_others_address(run: Run) -> None:
    """And who was told of none it can reach is dialled."""

    async def main() -> None:
        async with nodes("a", "b", join=False) as (a, b):
            a.knows(b=f"127.0.0.1:{free_ports(1)[0]}")
            await a.loses("b")
            b.knows(a)
            await a.connects(b)
            await b.connects(a)
            a.links.send(b.directory, say.Seal(5))
            assert await b.gets(1) == [("a", say.Seal(5))]

    run(main)


def test_messages_of_all_sizes_keep_their_order(run: Run) -> None:
    sizes = [10, 3 * FRAME_BYTES, 0, FRAME_BYTES, 2_000_000, 100] * 3

    async def main() -> None:
        async with nodes("a", "b") as (a, b):
            messages = [replicate(lsn, size) for lsn, size in enumerate(sizes, 1)]
            waiting = iter(messages)

            def more() -> None:
                for message in waiting:
                    if not a.links.ship(b.directory, message, more):
                        return

            more()
            got = await b.gets(len(sizes))
            assert [plain(message) for _, message in got] == [plain(message) for message in messages]

    run(main)


def test_a_large_record_holds_up_neither_side(run: Run) -> None:
    async def main() -> None:
        async with nodes("a", "b") as (a, b):
            shipped = asyncio.Event()
            assert not a.links.ship(b.directory, replicate(1, 20_000_000), shipped.set)
            a.links.send(b.directory, say.Follow(9))
            b.links.send(a.directory, say.Stored(3, 1, 0.5))
            assert await a.gets(1) == [("b", say.Stored(3, 1, 0.5))]
            got = await b.gets(2)
            assert got[0] == ("a", say.Follow(9))
            assert plain(got[1][1]) == plain(replicate(1, 20_000_000))
            await shipped.wait()

    run(main)


def test_what_has_no_connection_is_dropped(run: Run) -> None:
    async def main() -> None:
        async with nodes("a", join=False) as (a,):
            a.knows(b=f"127.0.0.1:{free_ports(1)[0]}")
            assert not a.links.send("b" * 32, say.Follow(1))
            assert not a.links.ship("b" * 32, replicate(1), lambda: pytest.fail("shipped"))
            assert not a.links.send("x" * 32, say.Follow(1))
            assert a.links.figures("b" * 32) is None

    run(main)


def test_what_is_no_message_is_an_error_of_ours(run: Run) -> None:
    async def main() -> None:
        async with nodes("a", "b") as (a, b):
            with pytest.raises(LocalProtocolError, match="no message of a link"):
                a.links.send(b.directory, "hello")
            a.links.send(b.directory, replicate(1))
            a.links.send(b.directory, say.Follow(1))
            assert [type(message) for _, message in await b.gets(2)] == [say.Replicate, say.Follow]

    run(main)


def test_a_node_that_goes_is_lost_at_once_and_found_when_it_is_back(run: Run) -> None:
    async def main() -> None:
        async with nodes("a", "b", "c") as (a, b, c):
            address = b.address
            await b.links.close()
            await a.loses(b)
            await c.loses(b)
            again = LinkNode("b", start=b"another.", address=address)
            await again.links.start()
            again.knows(a, c)
            await a.connects(b, times=2)
            await c.connects(b, times=2)
            assert a.count("connected", c) == 1
            await again.links.close()

    run(main)


def test_a_refused_dial_is_told_each_time(run: Run) -> None:
    """Take-over counts on it: whose machine refuses is not there."""

    async def took() -> float:
        async with nodes("a", join=False) as (a,):
            loop = asyncio.get_running_loop()
            a.knows(b=f"127.0.0.1:{free_ports(1)[0]}")
            begun = loop.time()
            await a.loses("b")
            seconds = loop.time() - begun
            await a.loses("b", times=4)
            return seconds

    async def main() -> None:
        for _ in range(3):  # in any one of them the machine may stand still
            if (seconds := await took()) < 0.5:
                break
        assert seconds < 0.5

    run(main)


def test_attempts_are_at_most_half_a_second_apart(run: Run) -> None:
    async def main() -> None:
        async with nodes("a", join=False) as (a,):
            loop = asyncio.get_running_loop()
            waits: list[float] = []
            call_later = loop.call_later

            def noted(delay: float, callback: Any, *args: Any, **more: Any) -> Any:
                if callback == a.links._dial:
                    waits.append(delay)
                    delay = 0.0
                return call_later(delay, callback, *args, **more)

            loop.call_later = noted  # type: ignore[method-assign]
            a.knows(b=f"127.0.0.1:{free_ports(1)[0]}")
            await a.loses("b", times=20)
            assert waits[0] == 0.0
            assert waits[1] <= 0.05
            assert 0.25 <= max(waits) <= 0.5
            assert waits[-1] >= 0.25

    run(main)


def test_a_connection_on_which_nothing_comes_ends_and_is_made_anew(
    run: Run, cutting: Any, jump: Callable[[float], None]
) -> None:
    """Half of a connection may be there, and nobody at the other end."""

    async def main() -> None:
        async with nodes("a", "b", join=False) as (a, b), cutting(b.address) as proxy:
            a.knows(b=proxy.address)
            b.links.set_peers({a.directory: f"127.0.0.1:{free_ports(1)[0]}"})
            await a.connects(b)
            await b.connects(a)
            for writer in list(proxy._writers):
                writer.transport.pause_reading()
            # No look at the connections is late, or it would be borne with.
            for _ in range(int(SILENT_SECONDS / 0.5) + 2):
                jump(0.5)
                for link in list(a.links._made):
                    link.look(asyncio.get_running_loop().time(), 0.0)
                await asyncio.sleep(0)
            await a.loses(b)
            assert a.count("lost", b) >= 1
            await a.connects(b, times=2)

    run(main)


def test_a_node_that_stood_still_does_not_blame_the_others(run: Run, jump: Callable[[float], None]) -> None:
    async def main() -> None:
        async with nodes("a", "b") as (a, b):
            jump(20.0)
            a.links.send(b.directory, say.Follow(1))
            await b.gets(1)
            for _ in range(3):
                jump(0.6)
                b.links.send(a.directory, say.Stored(1, 1, 0.0))
                await a.gets(len(a.got) + 1)
            assert a.count("lost", b) == b.count("lost", a) == 0

    run(main)


def test_silence_is_filled_with_signs_of_life(
    run: Run, jump: Callable[[float], None], until: Callable[[Callable[[], bool]], Any]
) -> None:
    async def main() -> None:
        async with nodes("a", "b") as (a, b):
            before = a.links.figures(b.directory)
            assert before is not None

            def both_spoke() -> bool:
                now = a.links.figures(b.directory)
                assert now is not None
                return now.bytes_in > before.bytes_in and now.bytes_out > before.bytes_out and now.heard > before.heard

            jump(1.2 * BEAT_SECONDS)
            await until(both_spoke)
            assert a.got == b.got == []

    run(main)


def test_a_peer_that_is_named_no_more_is_let_go_of(run: Run) -> None:
    async def main() -> None:
        async with nodes("a", "b") as (a, b):
            a.links.set_peers({})
            await a.loses(b)
            await b.loses(a)
            await b.loses(a, times=2)
            await a.until(lambda: a.count("unknown", b) > 0)
            assert a.links.connected == frozenset()
            a.knows(b)
            await a.connects(b, times=2)

    run(main)


def test_a_peer_that_has_moved_is_found_at_its_new_address(run: Run) -> None:
    async def main() -> None:
        async with nodes("a", "b", join=False) as (a, b):
            a.knows(b=f"127.0.0.1:{free_ports(1)[0]}")
            b.links.set_peers({a.directory: f"127.0.0.1:{free_ports(1)[0]}"})
            await a.loses("b")
            a.knows(b)
            await a.connects(b)
            await b.connects(a)
            assert a.links.connected == {b.directory}

    run(main)


def test_a_name_is_looked_up(run: Run) -> None:
    async def main() -> None:
        async with nodes("a", "b", join=False) as (a, b):
            b.links.set_peers({a.directory: f"127.0.0.1:{free_ports(1)[0]}"})
            a.knows(b=b.address.replace("127.0.0.1", "localhost"))
            await a.connects(b)
            assert a.links.connected == {b.directory}

    run(main)


def test_a_name_that_nobody_knows_is_told_as_lost(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with nodes("a", join=False) as (a,):
            a.knows(b="no-such-host.invalid:9184")
            await a.loses("b", times=2)

    run(main)
    assert len([each for each in caplog.messages if "no-such-host.invalid" in each]) == 1


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed ('127.0.0.1', 1)"), "Connection refused"),
        (OSError(errno.EHOSTUNREACH, "Connect call failed ('10.0.0.1', 1)"), "No route to host"),
        (TimeoutError(), "nothing answers"),
        (hello.LinkRefusedError("x\x1b", "no", by_peer=True), r"it refuses this node (x\x1b): no"),
        (ValueError(), "ValueError"),
    ],
)
def test_what_went_wrong_is_said_as_the_system_says_it(error: Exception, text: str) -> None:
    assert why(error) == text


def test_reasons_that_a_peer_invents_are_one_cause() -> None:
    assert {cause_of(hello.LinkRefusedError(str(n), "no", by_peer=True)) for n in range(9)} == {"LinkRefusedError"}
    assert cause_of(hello.LinkRefusedError(hello.UNPROVED, "no", by_peer=True)) == hello.UNPROVED


def test_who_is_turned_out_before_it_is_taken_leaves_no_socket_open(run: Run) -> None:
    async def main() -> None:
        ours, theirs = socket.socketpair()
        async with nodes("a", join=False) as (a,):
            door = a.links._door
            door._take(ours, "127.0.0.1")
            door.close()
            await door.closed()
            await settle(0.0)
            assert ours.fileno() == -1
        with theirs:
            assert theirs.recv(1) == b""

    run(main)


def test_an_address_that_is_taken_is_an_error(run: Run) -> None:
    async def main() -> None:
        async with nodes("a", join=False) as (a,):
            other = LinkNode("b", address=a.address)
            with pytest.raises(OSError, match=f"{a.address}, .*in use"):
                await other.links.start()
            await other.links.close()

    run(main)


# Who is not taken


def refusals(caplog: pytest.LogCaptureFixture, *texts: str) -> list[str]:
    return [line for line in caplog.messages if all(text in line for text in texts)]


@pytest.mark.parametrize(
    ("options", "reason", "text"),
    [
        ({"keys": LinkKeys(b"another secret of tests")}, hello.UNPROVED, "different secrets"),
        ({"cluster": "d" * 32}, hello.CLUSTER, "of the cluster"),
    ],
)
def test_who_is_of_another_cluster_or_secret_is_refused_and_both_say_so_once(
    run: Run, caplog: pytest.LogCaptureFixture, options: Any, reason: str, text: str
) -> None:
    async def main() -> None:
        async with nodes("a", "b", join=False, b=options) as (a, b):
            a.knows(b)
            b.links.set_peers({a.directory: f"127.0.0.1:{free_ports(1)[0]}"})
            await a.loses(b, times=5)
            assert a.count("connected", b) == b.count("connected", a) == 0

    with caplog.at_level(logging.WARNING, "penstock.cluster"):
        run(main)
    assert len(refusals(caplog, "no link to the node bbb", "it refuses this node", f"({reason})", text)) == 1
    assert len(refusals(caplog, "a node that connects from 127.0.0.1", "is not taken", text)) == 1


def test_a_directory_that_nobody_has_told_of_is_refused_and_asked_about(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with nodes("a", "b", join=False) as (a, b):
            a.knows(b)
            await b.until(lambda: b.count("unknown", a) >= 3)
            assert b.links.connected == frozenset()
            b.knows(a)
            await a.connects(b)

    run(main)
    assert len(refusals(caplog, "is no member's, as far as b knows")) == 2  # one that is refused, one that refuses


def test_another_directory_at_the_address_is_refused(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with nodes("a", "c", join=False) as (a, c):
            c.knows(a)
            a.knows(b=c.address)
            await a.loses("b", times=3)

    run(main)
    assert refusals(caplog, "no link to the node bbb", "wiped, restored or copied")


def test_a_copy_of_a_directory_is_refused_while_the_other_one_is_there(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with nodes("a", "b") as (a, b):
            copy = LinkNode("b", start=b"the copy")
            await copy.links.start()
            copy.knows(a)
            await copy.loses(a, times=3)
            assert copy.count("connected", a) == 0
            assert a.count("lost", b) == 0
            a.links.send(b.directory, say.Follow(2))
            assert await b.gets(1) == [("a", say.Follow(2))]
            await b.links.close()
            await copy.connects(a)
            await copy.links.close()

    run(main)
    assert len(refusals(caplog, "no link to", "is connected from 127.0.0.1", "an id of its own")) == 1


def test_who_has_lost_its_link_and_dials_is_taken_in_the_place_of_it(run: Run) -> None:
    """One side may know of the end, and the other not yet."""

    async def main() -> None:
        async with nodes("a", "b") as (a, b):
            old = b.links._peers[a.directory].link
            assert old is not None
            b.links.ended(old, ConnectionResetError("as if it were so"))
            await b.connects(a, times=2)
            await a.connects(b, times=2)
            assert (a.count("lost", b), b.count("lost", a)) == (0, 1)
            a.links.send(b.directory, say.Follow(3))
            assert await b.gets(1) == [("a", say.Follow(3))]

    run(main)


def test_both_dial_at_once_and_one_link_stays(run: Run) -> None:
    async def main() -> None:
        for _ in range(20):
            async with nodes("a", "b") as (a, b):
                a.links.send(b.directory, say.Follow(1))
                b.links.send(a.directory, say.Follow(2))
                assert await a.gets(1) == [("b", say.Follow(2))]
                assert await b.gets(1) == [("a", say.Follow(1))]
                assert a.count("lost", b) == b.count("lost", a) == 0
                assert a.count("connected", b) == b.count("connected", a) == 1

    run(main)


@pytest.mark.parametrize(
    ("begun", "start", "reason"),
    [("before", b"b" * 8, hello.CROSSED), ("after", b"b" * 8, None), ("after", b"another.", hello.TAKEN)],
)
def test_who_dials_beside_a_link_that_stands_is_judged_by_when_it_began(
    run: Run, begun: str, start: bytes, reason: str | None
) -> None:
    """Began before the other one stood, both have dialled; behind it, the other side has lost it, or is another one."""

    async def main() -> None:
        async with nodes("a", "b") as (a, b):
            standing = a.links._peers[b.directory].link
            assert standing is not None
            beside = a.links._answering()
            beside._side.peer = replace(b.links.me, start=start)
            if begun == "before":
                beside.begun = standing.opened - 1
            judged = a.links.judge(beside)
            assert (judged and judged.reason) == reason

    run(main)


# TLS


def tls_keys(certificates: Certificates, issued: Any, secret: bytes | None = None) -> LinkKeys:
    keys = read_keys(LinkSettings(tls=LinkTls(certificates.ca, issued.certificate, issued.key)))
    return keys._replace(secret=secret)


@pytest.mark.parametrize("secret", [None, b"and a secret of the tests"])
def test_certificates_prove_who_somebody_is(run: Run, certificates: Certificates, secret: bytes | None) -> None:
    keys = tls_keys(certificates, certificates.server, secret)

    async def main() -> None:
        async with nodes("a", "b", a={"keys": keys}, b={"keys": keys}) as (a, b):
            message = replicate(1, 3_000_000)
            a.links.send(b.directory, message)
            assert plain((await b.gets(1))[0][1]) == plain(message)
            await b.links.close()
            await a.loses(b)

    run(main)


def test_a_certificate_for_another_host_is_refused_by_who_dials(
    run: Run, certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    keys = tls_keys(certificates, certificates.server)
    wrong = tls_keys(certificates, certificates.elsewhere)

    async def main() -> None:
        async with nodes("a", "b", join=False, a={"keys": keys}, b={"keys": wrong}) as (a, b):
            a.knows(b)
            a.links.set_peers({b.directory: b.address}, {b.directory: "the second"})
            b.links.set_peers({a.directory: f"127.0.0.1:{free_ports(1)[0]}"})
            await a.loses(b, times=2)

    run(main)
    assert len(refusals(caplog, "no link to the node the second at", "not valid for '127.0.0.1'")) == 1


def test_a_certificate_for_another_host_is_refused_by_who_is_dialled(
    run: Run, certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    keys = tls_keys(certificates, certificates.server)
    wrong = tls_keys(certificates, certificates.elsewhere)

    async def main() -> None:
        async with nodes("a", "b", join=False, a={"keys": wrong}, b={"keys": keys}) as (a, b):
            a.knows(b)
            b.links.set_peers({a.directory: f"127.0.0.1:{free_ports(1)[0]}"})
            await a.loses(b, times=2)

    run(main)
    assert len(refusals(caplog, "is not taken", "its certificate is not for 127.0.0.1")) == 1


@pytest.mark.parametrize("who", ["a", "b"])
def test_a_certificate_of_a_stranger_is_refused(
    run: Run, certificates: Certificates, caplog: pytest.LogCaptureFixture, who: str
) -> None:
    keys = tls_keys(certificates, certificates.server)
    stranger = tls_keys(certificates, certificates.untrusted)

    async def main() -> None:
        async with nodes(
            "a", "b", join=False, **{"a": {"keys": keys}, "b": {"keys": keys}, who: {"keys": stranger}}
        ) as (a, b):
            a.knows(b)
            b.links.set_peers({a.directory: f"127.0.0.1:{free_ports(1)[0]}"})
            await a.loses(b, times=2)
            assert a.count("connected", b) == b.count("connected", a) == 0

    run(main)
    assert refusals(caplog, "no link to the node bbb")


def test_plain_words_to_a_node_with_tls_are_not_heard(run: Run, certificates: Certificates) -> None:
    keys = tls_keys(certificates, certificates.server)

    async def main() -> None:
        async with nodes("a", "b", join=False, b={"keys": keys}) as (a, b):
            a.knows(b)
            b.links.set_peers({a.directory: f"127.0.0.1:{free_ports(1)[0]}"})
            await a.loses(b, times=2)
            assert b.links.connected == frozenset()

    run(main)


def test_links_have_a_secret_or_tls(run: Run) -> None:
    async def main() -> None:
        node = LinkNode("a")
        with pytest.raises(LocalProtocolError, match="a secret or TLS"):
            ClusterLinks(node.links.me, LinkSettings(secret_file="x"), LinkKeys(None), node, Record)

    run(main)


def test_other_keys_are_for_connections_from_then_on(run: Run, tmp_path: Path) -> None:
    other = LinkKeys(b"a newer secret of the tests")

    async def main() -> None:
        async with nodes("a", "b") as (a, b):
            a.links.use(other)
            b.links.use(other)
            assert a.links.connected == {b.directory}
            late = LinkNode("c", keys=other)
            await late.links.start()
            late.knows(a, b)
            a.knows(b, late)
            await late.connects(a)
            assert a.count("lost", b) == 0
            await late.links.close()

    run(main)
