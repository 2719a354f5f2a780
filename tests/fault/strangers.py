"""Attackers that have not said who they are, or not the truth: silence, slowness, guesses, and bytes that are nearly frames."""

from __future__ import annotations

import random
import struct
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from actors.batch import MessageBatch
from streams.testkit import settle
from transport.security.proofs import make_token
from transport.security.scram import ClientExchange
from transport.security.verifier import Keys
from transport.wire import messages as wire

if TYPE_CHECKING:
    from tests.fault.attacks import Raw

    Connect = Callable[..., Awaitable[Raw]]

PAUSE = 0.2
"""Seconds between two bytes of a slow one."""
FLIPS = 8
"""Bytes that a fuzzer changes in a frame, at most."""


def _encoded(*frames: wire.Frame) -> bytes:
    from tests.fault.attacks import encoded

    return encoded(*frames)


def hello(role: str, **options: Any) -> wire.Hello:
    """What opens a connection of a role."""
    queue = None if role in ("admin", "transaction") else "attacked.fuzz"
    return wire.Hello(wire.VERSION, role, queue, "stranger", options)


async def silent(connect: Connect) -> None:
    """Connects, and says nothing."""
    raw = await connect(None, port="send")
    await raw.until_cut()


async def half_open(connect: Connect) -> None:
    """Says the beginning of HELLO, and then nothing."""
    raw = await connect(None, port="receive")
    await raw.send(_encoded(hello("receiver"))[:5])
    await raw.until_cut()


async def slow(connect: Connect) -> None:
    """Says HELLO a byte at a time."""
    raw = await connect(None, port="send")
    for byte in _encoded(hello("sender")):
        await raw.send(bytes([byte]))
        await settle(PAUSE)
    await raw.until_cut()


async def guesser_of_tokens(connect: Connect) -> None:
    """A token that is nobody's, again and again."""
    raw = await connect(None, port="send")
    await raw.send(_encoded(hello("sender", token=make_token())))
    await raw.until_cut()


async def guesser_of_passwords(connect: Connect) -> None:
    """A whole exchange with wrong keys: names that exist, and names that do not."""
    raw = await connect(None, port="receive")
    name = random.choice(("honest", "nobody"))
    exchange = ClientExchange(name, lambda _salt, _iterations: Keys(bytes(32), bytes(32)))
    await raw.send(_encoded(hello("receiver", mechanism="SCRAM-SHA-256"), wire.Auth(exchange.first())))
    challenge = await raw.next(wire.Auth)
    await raw.send(_encoded(wire.Auth(exchange.answer(challenge.data))))
    await raw.until_cut()


def mutated(data: bytes, chance: random.Random) -> bytes:
    """``data`` with some bytes changed, left out, doubled, or cut off."""
    changed = bytearray(data)
    for _ in range(chance.randint(1, FLIPS)):
        at = chance.randrange(len(changed)) if changed else 0
        kind = chance.randrange(4)
        if kind == 0 and changed:
            changed[at] = chance.randrange(256)
        elif kind == 1:
            changed[at:at] = chance.randbytes(chance.randrange(1, 9))
        elif kind == 2:
            del changed[at : at + chance.randrange(1, 9)]
        else:
            changed[at:at] = changed[at : at + chance.randrange(1, 64)]
    return bytes(changed)


async def fuzzer_before_hello(connect: Connect) -> None:
    """Nearly HELLO, or nearly an exchange, or noise."""
    chance = random.Random()
    raw = await connect(None, port=chance.choice(("send", "receive")))
    role = chance.choice(("sender", "receiver", "subscription", "admin", "transaction"))
    said = _encoded(hello(role, mechanism="SCRAM-SHA-256", writer="w", version=1), wire.Auth(b"n,,n=a,r=b"))
    await raw.send(chance.choice((mutated(said, chance), chance.randbytes(200), b"GET / HTTP/1.1\r\n\r\n")))
    raw.blind()
    await settle(PAUSE)


def fuzzer_after_hello(role: str) -> Callable[[Connect], Awaitable[None]]:
    """Nearly frames of an open connection in a role."""
    options: dict[str, dict[str, Any]] = {
        "subscription": {"subscription": "ledger"},
        "transaction": {"writer": "w", "version": 1},
    }

    async def attack(connect: Connect) -> None:
        chance = random.Random()
        raw = await connect(role, **options.get(role, {}))
        raw.blind()
        for _ in range(100):
            frame = chance.choice(_FRAMES[role])(chance)
            data = _encoded(frame)
            # Mostly right, so that it stands for a while; the length is put right so that the header is looked at.
            if chance.random() < 0.2:
                body = mutated(data[4:], chance)
                data = struct.pack(">I", 4 + len(body)) + body
            await raw.send(data)

    return attack


def _number(chance: random.Random) -> int:
    return chance.choice((0, 1, 2, 5, 255, 2**31, 2**63 - 1))


_FRAMES: dict[str, tuple[Callable[[random.Random], wire.Frame], ...]] = {
    "sender": (
        lambda chance: wire.Send(_number(chance), None, MessageBatch.from_payloads([b"x"] * chance.randint(1, 9))),
        lambda chance: wire.Send(0, {"delay_ms": _number(chance)}, MessageBatch.from_payloads([b""])),
        lambda chance: wire.Ping(_number(chance)),
    ),
    "receiver": (
        lambda chance: wire.Request(_number(chance), _number(chance)),
        lambda chance: wire.Ack([(_number(chance) % 100, 1)]),
        lambda chance: wire.Nack([(_number(chance) % 100, 2)], _number(chance) % 1000),
        lambda chance: wire.Extend([(0, 1)], _number(chance) % 1000),
    ),
    "subscription": (
        lambda chance: wire.Reserve(1, _number(chance), _number(chance), _number(chance), 0, None),
        lambda chance: wire.Commit(2, _number(chance)),
        lambda chance: wire.Fetch(3, _number(chance), _number(chance)),
        lambda chance: wire.Request(_number(chance), _number(chance)),
    ),
    "admin": (
        lambda chance: wire.Command(
            1, chance.choice(("queue.list", "stats", "connection.list")), {"limit": _number(chance)}
        ),
        lambda chance: wire.Command(1, "queue.create", {"name": "attacked.fuzz", "max_messages": _number(chance)}),
        lambda chance: wire.Command(1, "queue.purge", {"name": "attacked.fuzz"}),
    ),
    "transaction": (
        lambda chance: wire.Enlist("attacked.fuzz", "stage", _number(chance)),
        lambda chance: wire.CommitTransaction(_number(chance)),
        lambda chance: wire.AbortTransaction(_number(chance)),
    ),
}

SILENT = frozenset({"silent", "half-open", "slow"})
"""Kinds that keep a place for as long as they may."""
GUESSING = frozenset({"guesser-of-tokens", "guesser-of-passwords", "fuzzer-before-hello"})
"""Kinds that show proofs that are none."""
KINDS: dict[str, Callable[[Connect], Awaitable[None]]] = {
    "silent": silent,
    "half-open": half_open,
    "slow": slow,
    "guesser-of-tokens": guesser_of_tokens,
    "guesser-of-passwords": guesser_of_passwords,
    "fuzzer-before-hello": fuzzer_before_hello,
    **{f"fuzzer-{role}": fuzzer_after_hello(role) for role in _FRAMES},
}
"""Every kind by its name."""
