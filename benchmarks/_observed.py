"""The roles of ``observed``: a broker with many queues that watches its loop, and one who looks as a console and Prometheus do."""

from __future__ import annotations

import asyncio
import contextlib
import cProfile
import http.client
import json
import socket
import threading
import time
from collections.abc import AsyncIterator, Sequence
from itertools import count
from typing import Any

from actors.batch import MessageBatch
from benchmarks._links import raise_file_limit
from benchmarks._worker import Parent, run_loop
from transport import Broker, BrokerConfig, parse_address
from transport.broker.asked_to_publish import Piece
from transport.broker.memory import collect_rarely
from transport.gateways.listeners import configured_listeners

ANY_PORT = "127.0.0.1:0"
ASK_SECONDS = 1.0
"""From one question of Prometheus's to the next."""
STEPS = 100
"""In which the changes of a second are made."""
PAGES = ("/metrics", "/metrics/queues")
TIMEOUT = 60.0


class LoopWatch:
    """The processor time of the loop's longest turn, its own clock's reading included; the loop does not wait meanwhile."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._longest = self._before = 0.0
        self._going = False

    def begin(self) -> None:
        """Watch from now on."""
        self._longest, self._before, self._going = 0.0, time.thread_time(), True
        self._loop.call_soon(self._tick)

    def end(self) -> float:
        """The longest turn since the beginning, seconds."""
        self._going = False
        return self._longest

    def _tick(self) -> None:
        now = time.thread_time()
        self._longest, self._before = max(self._longest, now - self._before), now
        if self._going:
            self._loop.call_soon(self._tick)


def serve(parent: Parent, uvloop: bool, queues: int, listens: bool, profile: str | None = None) -> None:
    """A broker in memory with so many queues; with HTTP or without.

    It is told ``change``, how many queues change each second until it is told the next, and ``watch``, whether to watch the loop; it
    answers with the longest turn since it was told before, and with who looks and what timers there are, where the loop says.
    """
    raise_file_limit()
    profiler = None if profile is None else cProfile.Profile()
    if profiler is not None:
        profiler.enable()
    try:
        run_loop(_serve(parent, queues, listens), uvloop)
    finally:
        if profiler is not None:
            profiler.disable()
            profiler.dump_stats(str(profile))


async def _serve(parent: Parent, queues: int, listens: bool) -> None:
    collect_rarely()
    loop = asyncio.get_running_loop()
    config = BrokerConfig(ANY_PORT, ANY_PORT, http=ANY_PORT if listens else None, max_queues=queues + 1_000)
    async with Broker(config, listeners=configured_listeners(config)) as broker:
        for number in range(queues):
            broker.queues.get_or_create(f"orders.of.shop.{number:05}")
            if number % 100 == 0:
                await asyncio.sleep(0)
        address = str(broker.addresses("http")[0]) if listens else None
        parent.say(send_address=broker.send_address, receive_address=broker.receive_address, http=address)
        watch = LoopWatch()
        while (told := await loop.run_in_executor(None, parent.wait)) is not None:
            if told["watch"]:
                watch.begin()
            async with _changing(broker, min(queues, told["change"])):
                if told["watch"] and await loop.run_in_executor(None, parent.wait) is None:
                    return
            longest = watch.end()
            timers = [repr(each) for each in getattr(loop, "_scheduled", ()) if not each.cancelled()]
            parent.say(longest=longest, looks=broker._sampler.running, timers=timers)


@contextlib.asynccontextmanager
async def _changing(broker: Broker, queues: int) -> AsyncIterator[None]:
    """So many queues are sent a message each second, by the actors that send for requests, a part of them at a time."""
    if not queues:
        yield
        return
    task = asyncio.ensure_future(_change(broker, queues))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _change(broker: Broker, queues: int) -> None:
    loop = asyncio.get_running_loop()
    names = [f"orders.of.shop.{number:05}" for number in range(queues)]
    publishers, batch = broker._publishers, MessageBatch.from_payloads([b"x" * 100])
    each, due = max(1, queues // STEPS), loop.time()
    for step in count():
        start = step * each % queues
        for name in names[start : start + each]:
            await publishers.of("benchmark", broker.queues.get(name), name).publish(Piece(batch))
        due += each / queues
        await asyncio.sleep(max(0.0, due - loop.time()))


def look(parent: Parent, address: str) -> None:
    """Look at a queue as a console does, and ask for the metrics each second, from a ``go`` that names it to the next, over and over.

    It says when the first picture and the first answers have come, and at the end how many there were of each.
    """
    place = parse_address(address)
    while (told := parent.wait()) is not None:
        watching = _Looking(place.host, place.port, told["queue"], told.get("pages", PAGES))
        watching.begin()
        parent.say(ready=True)
        parent.wait()
        parent.say(**watching.end())


class _Looking:
    """A console's stream and Prometheus's questions, each on a thread of its own."""

    def __init__(self, host: str, port: int, queue: str, pages: Sequence[str]) -> None:
        self._host, self._port, self._queue, self._pages = host, port, queue, pages
        self._over = threading.Event()
        self._counts = {"events": 0, "answers": 0, "bytes": 0}
        self._stream = http.client.HTTPConnection(host, port, timeout=TIMEOUT)
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._read, self._ask)]

    def begin(self) -> None:
        self._stream.connect()
        # The connection forgets it when the answer has begun, which has no end.
        self._socket = self._stream.sock
        self._stream.request("GET", f"/api/v1/events?queue={self._queue}&journal=true")
        self._events = self._stream.getresponse()
        while not self._events.readline().startswith(b"data: "):
            pass
        self._scrape()
        for thread in self._threads:
            thread.start()

    def end(self) -> dict[str, Any]:
        self._over.set()
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(TIMEOUT)
        self._events.close()
        self._stream.close()
        return self._counts

    def _read(self) -> None:
        with contextlib.suppress(OSError, http.client.HTTPException):
            while line := self._events.readline():
                if line.startswith(b"data: "):
                    json.loads(line[6:])
                    self._counts["events"] += 1

    def _ask(self) -> None:
        while not self._over.wait(ASK_SECONDS):
            self._scrape()

    def _scrape(self) -> None:
        connection = http.client.HTTPConnection(self._host, self._port, timeout=TIMEOUT)
        try:
            for page in self._pages:
                connection.request("GET", page)
                self._counts["bytes"] += len(connection.getresponse().read())
                self._counts["answers"] += 1
        finally:
            connection.close()
