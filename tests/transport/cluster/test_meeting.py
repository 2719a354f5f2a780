"""A node that is of no cluster yet says who it is, to whoever has the cluster's secret and to nobody else."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import msgpack
import pytest

from actors.replication.document import Member
from actors.replication.forming import Here
from transport.cluster.here_message import pack_here, unpack_here
from transport.cluster.link_settings import LinkKeys
from transport.cluster.meeting import Meeting, ask, stranger
from transport.errors import RemoteProtocolError, TransportError
from transport.wire.address import Address

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

KEYS = LinkKeys(b"a secret of the cluster")
HERE = Here("b", "", 7, Member("b" * 32, "10.0.0.2:9181", "10.0.0.2:9182", "10.0.0.2:9184", "10.0.0.2:9180"))


@asynccontextmanager
async def met(here: Here = HERE, keys: LinkKeys = KEYS) -> AsyncIterator[Address]:
    """Where a node waits to be met."""
    meeting = Meeting(stranger(here.name, here.member.directory, here.member.replication), lambda: here, keys)
    await meeting.open(Address("127.0.0.1", 0))
    try:
        yield meeting.addresses[0]
    finally:
        meeting.close()


def test_it_says_who_it_is_as_often_as_it_is_asked() -> None:
    async def body() -> None:
        async with met() as address:
            for _ in range(3):
                assert await ask(stranger("a", "a" * 32, "10.0.0.1:9184"), address, KEYS) == HERE

    asyncio.run(body())


@pytest.mark.parametrize("more", [{}, {"amqp": "10.0.0.2:5672"}, {"amqps": "10.0.0.2:5671"}])
def test_addresses_of_amqp_stand_behind_what_an_older_program_knows(more: dict[str, str]) -> None:
    here = HERE._replace(member=replace(HERE.member, **more))
    packed = pack_here(here)
    assert unpack_here(packed) == here
    assert len(msgpack.unpackb(packed)) == (10 if more else 8)


@pytest.mark.parametrize("count", [7, 9, 11])
def test_one_that_says_more_or_less_is_refused(count: int) -> None:
    fields = [*msgpack.unpackb(pack_here(HERE)), None, None, None][:count]
    with pytest.raises(RemoteProtocolError, match="no node does"):
        unpack_here(msgpack.packb(fields))


def test_who_has_another_secret_hears_nothing() -> None:
    async def body() -> None:
        async with met() as address:
            with pytest.raises(TransportError, match="secret"):
                await ask(stranger("a", "a" * 32, "10.0.0.1:9184"), address, LinkKeys(b"another secret of it"))
            assert await ask(stranger("a", "a" * 32, "10.0.0.1:9184"), address, KEYS) == HERE

    asyncio.run(body())


def test_a_node_that_says_to_be_another_directory_is_not_believed() -> None:
    async def body() -> None:
        meeting = Meeting(stranger("b", "c" * 32, "10.0.0.2:9184"), lambda: HERE, KEYS)
        await meeting.open(Address("127.0.0.1", 0))
        try:
            with pytest.raises(TransportError, match="does not say who it is"):
                await ask(stranger("a", "a" * 32, "10.0.0.1:9184"), meeting.addresses[0], KEYS)
        finally:
            meeting.close()

    asyncio.run(body())


def test_where_nobody_listens_is_said_at_once() -> None:
    async def body() -> None:
        async with met() as address:
            pass
        with pytest.raises(TransportError, match="cannot be reached"):
            await ask(stranger("a", "a" * 32, "10.0.0.1:9184"), address, KEYS)

    asyncio.run(body())


@pytest.mark.parametrize("here", [HERE, HERE._replace(cluster="c" * 32, end=1), HERE._replace(name="n1")])
def test_what_it_says_comes_back(here: Here) -> None:
    assert unpack_here(pack_here(here)) == here


@pytest.mark.parametrize("flipped", range(len(pack_here(HERE))))
def test_what_cannot_be_is_refused_and_never_anything_else(flipped: int) -> None:
    data = bytearray(pack_here(HERE))
    for bit in range(8):
        data[flipped] ^= 1 << bit
        try:
            found = unpack_here(bytes(data))
        except RemoteProtocolError:
            pass
        else:
            assert isinstance(found, Here)
        data[flipped] ^= 1 << bit
    with pytest.raises(RemoteProtocolError):
        unpack_here(bytes(data[:flipped]))


def test_whether_a_node_may_be_filled_anew_by_itself_is_said_where_it_may_and_older_ones_need_not_know() -> None:
    assert unpack_here(pack_here(HERE._replace(heals=True))).heals
    assert not unpack_here(pack_here(HERE)).heals
    assert len(msgpack.unpackb(pack_here(HERE))) == 8
    for more in ([False], ["yes"], [True, True]):
        with pytest.raises(RemoteProtocolError):
            unpack_here(msgpack.packb([*msgpack.unpackb(pack_here(HERE)), *more]))
