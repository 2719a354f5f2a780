"""``python -m tests.transport.leaks``: streams over the network, started and cancelled at random moments, leave nothing behind.

Connections to an echo, senders and receivers; with a broker in this process, with one in another, with a peer that never answers and
with none at all. What is counted afterwards, besides what is left of streams without a network: connections, actors, what the brokers
hold for receivers that are gone, and objects of the packages transport, actors and journal. The brokers stand all the while, and
what they own is compared with what they owned before.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import re
import socket
import sys
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any, Final

from actors.runtime.loop_registry import LoopActorRegistry
from streams import Flow, RunnableGraph, Running, Sink, Source
from streams.testkit import settle
from streams.testkit.virtual_time import pass_time
from tests.streams.generated.leaks import AT_ONCE, Remains, numbers, start_and_cancel, unhurried
from tests.streams.generated.pacing import finish
from tests.transport.programs import BrokerProcess
from tests.transport.scripted_peers import unused_address
from transport import Administration, Broker, BrokerConfig, Receiver, Sender
from transport.tcp import IncomingConnection, bind, outgoing_connection

STREAMS: Final = 2_000
LONGEST: Final = 0.3
"""Seconds after which the last of those that run side by side is cancelled; they share a processor with two brokers and the echo."""
MOST_ROUNDS: Final = 20
"""Rounds more in which each kind of stream runs once, at most, until something has moved; then none has, for whatever reason."""
DEADLINE: Final = 15.0
"""Seconds within which the other ends have seen that a connection is gone."""
FREE_PORT: Final = "127.0.0.1:0"
CHUNK: Final = bytes(64 * 1024)
FULL: Final = 10
"""Messages that the queue named full takes."""
OURS: Final = frozenset({"actors", "journal", "reactivex", "streams", "transport"})
QUEUES: Final = {"q": None, "full": FULL}
"""What streams send to and receive from, and how many messages each takes."""
QUEUES_OWN: Final = Counter({"timer <TimerHandle TimerHandle._fire()>": len(QUEUES)})
"""A queue waits for the deadline of what was once in flight, with one timer, whether it was answered since or not."""
PLACES: Final = re.compile(r" (when=\S+|at 0x\w+)|0x\w+")
"""What differs between two timers that are the same but for their time."""


@dataclass(frozen=True, slots=True)
class Network:
    """Addresses to run streams against.

    Attributes:
        echo: gives back what it gets.
        brokers: the sending and the receiving address of each broker.
        silent: takes connections and never says a word.
        nobody: nobody listens.
    """

    echo: str
    brokers: tuple[tuple[str, str], ...]
    silent: str
    nobody: str


def graphs(network: Network) -> list[tuple[str, Callable[[], RunnableGraph[Any]]]]:
    """What is run: each kind as an endless stream."""
    found: list[tuple[str, Callable[[], RunnableGraph[Any]]]] = [
        ("listen", lambda: bind(FREE_PORT).to(Sink.ignore())),
        ("echo", lambda: payloads().via(outgoing_connection(network.echo)).to(unhurried())),
        ("echo that stands still", lambda: chunks().via(outgoing_connection(network.echo)).to(unhurried())),
        ("echo, two ways", lambda: both_ways(network.echo)),
    ]
    for where in (network.silent, network.nobody):
        found += [
            (f"connection to {where}", lambda where=where: chunks().via(outgoing_connection(where)).to(unhurried())),
            (f"sender to {where}", lambda where=where: payloads().to(Sender(where, queue="q"))),
            (f"confirmations of {where}", lambda where=where: payloads().via(Sender(where, queue="q")).to(unhurried())),
            (f"receiver from {where}", lambda where=where: Receiver(where, queue="q").to(Sink.acknowledge())),
        ]
    for number, (sending, receiving) in enumerate(network.brokers):
        found += [(f"{name}, broker {number}", make) for name, make in with_broker(sending, receiving, network.echo)]
    return found


def with_broker(sending: str, receiving: str, echo: str) -> list[tuple[str, Callable[[], RunnableGraph[Any]]]]:
    """Senders and receivers of one broker."""
    receiver = partial(Receiver, receiving, queue="q")
    return [
        ("sender", lambda: payloads().to(Sender(sending, queue="q"))),
        ("sender in a hurry", lambda: chunks().to(Sender(sending, queue="q"))),
        ("sender to a full queue", lambda: payloads().to(Sender(sending, queue="full"))),
        ("confirmations", lambda: payloads().via(Sender(sending, queue="q")).to(unhurried())),
        ("receiver", lambda: receiver().to(Sink.acknowledge())),
        ("receiver that forgets", lambda: receiver(max_in_flight=20).to(unhurried())),
        ("receiver of batches", lambda: receiver().batches().to(Sink.foreach_async(1, acknowledge))),
        ("receiver with a limit", lambda: receiver(limit=3).to(Sink.acknowledge())),
        ("queue to queue", lambda: receiver().map(payload_of).to(Sender(sending, queue="full"))),
        ("queue to echo", lambda: receiver().map(payload_of).via(outgoing_connection(echo)).to(unhurried())),
    ]


def payloads() -> Source[bytes]:
    """Small messages without end, now and then late."""
    return numbers().map(lambda number: b"message %d" % number)


def chunks() -> Source[bytes]:
    """Large ones, as fast as they are taken."""
    return Source.repeat(CHUNK)


def both_ways(echo: str) -> RunnableGraph[Any]:
    """Two connections, one behind the other."""
    return payloads().via(outgoing_connection(echo)).via(outgoing_connection(echo)).to(unhurried())


async def acknowledge(batch: Any) -> None:
    """Answers a whole batch."""
    batch.acknowledge()


def payload_of(delivery: Any) -> bytes:
    """Answers a message and gives what is in it."""
    delivery.acknowledge()
    payload: bytes = delivery.payload
    return payload


class NetworkRemains(Remains):
    """What is left, with the objects of the packages under the network."""

    def __init__(self) -> None:
        gc.collect()
        gc.collect()
        kinds = (type(found) for found in gc.get_objects())
        # As text: where a class describes its instances' module, what the class answers is the description.
        named = Counter((str(kind.__module__), kind.__qualname__) for kind in kinds)
        self.objects = Counter(
            {f"{module}.{name}": n for (module, name), n in named.items() if module.split(".", 1)[0] in OURS}
        )
        self.threads = {thread.name for thread in threading.enumerate()}
        self.files = len(os.listdir("/proc/self/fd"))


@asynccontextmanager
async def echoing() -> AsyncIterator[tuple[str, list[Running[Any]]]]:
    """A server that sends back what it gets: its address, and the connections it has had."""
    handled: list[Running[Any]] = []

    def handle(connection: IncomingConnection) -> None:
        handled.append(connection.handle_with(Flow[bytes, bytes].identity()))

    listening = bind(FREE_PORT).run_with(Sink.foreach(handle))
    try:
        yield str(await listening.value.address()), handled
    finally:
        listening.abandon()
        await finish(listening)


async def start_and_cancel_over_the_network(streams: int | None, seed: int, other: BrokerProcess) -> list[str]:
    """Runs ``streams`` of them, or one of each kind, and returns what they left on the loop and in the brokers."""
    async with AsyncExitStack() as standing:
        silent = standing.enter_context(socket.create_server(("127.0.0.1", 0)))
        broker = await standing.enter_async_context(
            Broker(BrokerConfig(send_address=FREE_PORT, receive_address=FREE_PORT))
        )
        echo, echoes = await standing.enter_async_context(echoing())
        brokers = ((broker.send_address, broker.receive_address), (other.sending, other.receiving))
        for sending, _ in brokers:
            await make_queues(sending)
        makers = graphs(Network(echo, brokers, "{}:{}".format(*silent.getsockname()), unused_address()))
        before = await on_the_loop()
        await at_random(makers, len(makers) if streams is None else streams, seed)
        for more in range(1, MOST_ROUNDS):
            # A busy machine may have cancelled all of them before anything was acknowledged.
            if not await never_moved(broker.send_address):
                break
            await at_random(makers, len(makers), seed + more)
        left = [text for sending, _ in brokers for text in await still_held(sending)]
        left += await still_echoing(echoes)
        left += (await on_the_loop() - before - QUEUES_OWN).elements()
        left += await never_moved(broker.send_address)
    return left + await start_and_cancel([], 0, seed)


async def at_random(makers: list[tuple[str, Callable[[], RunnableGraph[Any]]]], streams: int, seed: int) -> None:
    """Runs ``streams`` of them, and cancels each while it connects, soon after, or well under way."""
    random = Random(seed)

    async def one(number: int) -> None:
        _name, make = makers[number % len(makers)]
        await pass_time(asyncio.get_running_loop(), random.uniform(0, LONGEST / 4))
        running = make().run()
        longest = random.choice([0, LONGEST / 100, LONGEST / 10, LONGEST])
        await pass_time(asyncio.get_running_loop(), random.uniform(0, longest))
        running.abandon()
        await finish(running)

    for first in range(0, streams, AT_ONCE):
        await asyncio.gather(*(one(number) for number in range(first, min(first + AT_ONCE, streams))))


async def never_moved(sending: str) -> list[str]:
    """What the queues should have seen and have not: a run that moves nothing shows nothing."""
    async with Administration(sending) as administration:
        rows = await administration.queues()
    figures = ("total_in", "total_out", "total_acknowledged")
    return [f"{name} is 0: the streams have done nothing" for name in figures if not sum(row[name] for row in rows)]


async def make_queues(sending: str) -> None:
    """The queues, so that they are there before anything is counted."""
    async with Administration(sending) as administration:
        there = {row["name"] for row in await administration.queues()}
        for name, most in QUEUES.items():
            if name not in there:
                await administration.create_queue(name, max_messages=most)


async def on_the_loop() -> Counter[str]:
    """Tasks, timers and runs, as `start_and_cancel` counts them, actors, and open files: who still writes may have nothing else."""
    found = await start_and_cancel([], 0, 0)
    found += [f"actor {ref.actor_class.__name__}" for ref in LoopActorRegistry.get_all()]
    return Counter(PLACES.sub("", text) for text in found) + Counter({"open file": len(os.listdir("/proc/self/fd"))})


async def still_held(sending: str) -> list[str]:
    """Connections, and messages in flight, that a broker still has; asks until there are none, or the deadline has passed."""
    left: list[str] = []
    loop = asyncio.get_running_loop()
    until = loop.time() + DEADLINE
    async with Administration(sending) as administration:
        while True:
            facts = await administration.statistics()
            left = [f"connection of a {row['role']}" for row in facts["connections"] if row["role"] != "admin"]
            left += [f"{row['in_flight']} messages in flight" for row in facts["queues"] if row["in_flight"]]
            if not left or loop.time() > until:
                return left


async def still_echoing(echoes: list[Running[Any]]) -> list[str]:
    """Connections that the echo still has."""
    if not echoes:
        return []
    _, late = await asyncio.wait([asyncio.ensure_future(finish(running)) for running in echoes], timeout=DEADLINE)
    for waiting in late:
        waiting.cancel()
    await settle()
    return ["echoing connection"] * len(late)


def leaks(streams: int, seed: int, other: BrokerProcess) -> list[str]:
    """What ``streams`` streams leave behind, as text; nothing, if all is well."""
    asyncio.run(start_and_cancel_over_the_network(None, seed, other))  # first, for what is made once and kept
    before = NetworkRemains()
    left = asyncio.run(start_and_cancel_over_the_network(streams, seed + 1, other))
    return left + NetworkRemains().since(before)


def main() -> int:
    """Runs what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=STREAMS)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with BrokerProcess() as other:
        left = leaks(options.streams, options.seed, other)
    kinds = len(graphs(Network("127.0.0.1:1", (("127.0.0.1:1", "127.0.0.1:1"),) * 2, "127.0.0.1:1", "127.0.0.1:1")))
    print(f"{options.streams} streams of {kinds} kinds, {AT_ONCE} at once: {Counter(left) or 'nothing left'}")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
