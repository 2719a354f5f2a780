"""The secret of a cluster's links is changed while its nodes run: each of them takes both for a while."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from actors.replication.document import Member
from actors.replication.forming import Here
from tests.transport.cluster.link_nodes import nodes
from tests.transport.cluster.test_link_handshake import identity, nonce, shake
from tests.transport.cluster.test_link_settings import secret_file
from transport.cluster import hello
from transport.cluster.hello import Answering, Dialing, LinkRefusedError
from transport.cluster.link_settings import LEAST_SECRET_BYTES, LinkKeys, LinkSettings, read_keys
from transport.cluster.meeting import Meeting, ask, stranger
from transport.errors import LocalProtocolError
from transport.wire.address import Address

pytestmark = pytest.mark.event_loop

Run = Callable[[Callable[[], Coroutine[Any, Any, None]]], None]

OLD, NEW = b"the former secret of tests", b"the next secret of the tests"
BEFORE, ROLLING, TURNED, AFTER = LinkKeys(OLD), LinkKeys(OLD, also=NEW), LinkKeys(NEW, also=OLD), LinkKeys(NEW)


def test_a_file_of_two_lines_holds_two_secrets(tmp_path: Path) -> None:
    text = f"{OLD.decode()}\n{NEW.decode()}"
    for end in ("", "\n"):
        assert read_keys(LinkSettings(secret_file=secret_file(tmp_path, text + end))) == ROLLING


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a" * 16 + "\n" + "b" * 16 + "\n" + "c" * 16 + "\n", "has more"),
        ("a" * 16 + "\n\n" + "b" * 16, "has more"),
        ("\n" + "b" * 16, "is empty"),
        ("a" * 16 + "\n\n", "is empty"),
        ("a" * 16 + "\n" + "b" * 15, f"has {LEAST_SECRET_BYTES - 1} bytes, and could be guessed"),
    ],
)
def test_each_of_two_secrets_is_one(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(LocalProtocolError, match=why):
        read_keys(LinkSettings(secret_file=secret_file(tmp_path, text)))


@pytest.mark.parametrize("proved", [OLD, NEW])
def test_who_has_two_takes_whoever_proves_either_and_answers_with_that(proved: bytes) -> None:
    dials = Dialing(identity("a"), "b" * 32, proved, nonce("1"))
    mine, theirs = shake(dials, Answering(identity("b"), OLD, nonce("2"), NEW))
    assert (mine.seed_out, mine.seed_in) == (theirs.seed_in, theirs.seed_out)


def test_a_third_secret_is_refused() -> None:
    with pytest.raises(LinkRefusedError) as refused:
        shake(
            Dialing(identity("a"), "b" * 32, b"a third secret of tests", nonce("1")),
            Answering(identity("b"), OLD, nonce("2"), NEW),
        )
    assert refused.value.reason == hello.UNPROVED


STEPS = [(BEFORE, ROLLING), (ROLLING, ROLLING), (ROLLING, TURNED), (ROLLING, AFTER), (TURNED, BEFORE), (AFTER, AFTER)]


@pytest.mark.parametrize("keys", [*STEPS, *(step[::-1] for step in STEPS)])
@pytest.mark.parametrize("dials", [0, 1])
def test_at_each_step_of_a_change_new_links_come_to_stand_whoever_dials(
    run: Run, caplog: pytest.LogCaptureFixture, keys: tuple[LinkKeys, LinkKeys], dials: int
) -> None:
    async def main() -> None:
        async with nodes("a", "b", join=False, a={"keys": keys[0]}, b={"keys": keys[1]}) as both:
            one, other = both[dials], both[1 - dials]
            # An address at which nobody is: only the one side gets through.
            other.links.set_peers({one.directory: "127.0.0.1:1"})
            one.knows(other)
            await one.connects(other)
            await other.connects(one)
            assert one.count("lost", other) == 0

    with caplog.at_level(logging.WARNING, "penstock.cluster"):
        run(main)
    assert not [line for line in caplog.messages if "no link to the node" in line and ":1:" not in line]


@pytest.mark.parametrize("asked", [OLD, NEW])
def test_a_node_that_is_met_may_have_either(run: Run, asked: bytes) -> None:
    here = Here("b", "", 7, Member("b" * 32, "10.0.0.2:9181", "10.0.0.2:9182", "10.0.0.2:9184", None))

    async def main() -> None:
        meeting = Meeting(stranger("b", "b" * 32, "10.0.0.2:9184"), lambda: here, LinkKeys(asked))
        await meeting.open(Address("127.0.0.1", 0))
        me = stranger("a", "a" * 32, "10.0.0.1:9184")
        try:
            assert await ask(me, meeting.addresses[0], ROLLING) == here
            meeting.use(LinkKeys(os.urandom(16), also=OLD))
            assert await ask(me, meeting.addresses[0], LinkKeys(OLD)) == here
            with pytest.raises(LinkRefusedError, match="secret"):
                await ask(me, meeting.addresses[0], LinkKeys(NEW, also=os.urandom(16)))
        finally:
            meeting.close()

    run(main)


def test_a_link_that_stands_outlives_the_secret_that_it_was_made_with(run: Run) -> None:
    async def main() -> None:
        async with nodes("a", "b", a={"keys": BEFORE}, b={"keys": BEFORE}) as (a, b):
            for keys in (ROLLING, AFTER):
                a.links.use(keys)
                b.links.use(keys)
                await asyncio.sleep(0)
            assert a.links.connected == {b.directory}
            assert a.count("lost", b) == 0

    run(main)
