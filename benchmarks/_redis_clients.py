"""The two ends of a queue in Redis: a stream with one consumer group, through redis-py's blocking connection.

They do what `_paced`'s do with ours: an absolute schedule, a message sent by itself, each acknowledged and forgotten. A connection is used
as redis-py's own client and pipelines use it, without what these add to a command.
"""

from __future__ import annotations

import time
from array import array
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from redis import Redis

from benchmarks._paced import FIRST_DELAY, STAMP, spread
from benchmarks._processes import Facts
from benchmarks._redis_server import HOST
from benchmarks._worker import Parent

STREAM = "benchmark"
GROUP = "receivers"
CONSUMER = "receiver"
FIELD = "payload"
BLOCK_MS = 60_000
"""How long Redis holds an XREADGROUP for which there is nothing."""
ANSWER_TIMEOUT = 90.0
"""Seconds until a silent Redis is an error; more than it may hold an XREADGROUP."""


def connect(port: int) -> Redis:
    """A client of the Redis that listens there; the older form of the protocol, whose answers are plain lists."""
    return Redis(host=HOST, port=port, protocol=2, socket_timeout=ANSWER_TIMEOUT)


def make_group(port: int) -> str:
    """Make the stream and its group; Redis's version."""
    with connect(port) as client:
        client.xgroup_create(STREAM, GROUP, id="0", mkstream=True)
        return str(client.info("server")["redis_version"])


def books(port: int) -> Facts:
    """What is left: entries of the stream, those of them that were delivered and not acknowledged, and how Redis syncs."""
    with connect(port) as client:
        return {
            "entries": client.xlen(STREAM),
            "pending": client.xpending(STREAM, GROUP)["pending"],
            "syncs": client.config_get("appendfsync")["appendfsync"],
            "appends": client.info("persistence")["aof_enabled"],
        }


# Roles


def add_paced(parent: Parent, port: int, rate: float, count: int, size: int, skip: int, one_at_a_time: bool) -> None:
    """XADD on schedule, and time the answers; ``skip`` first ones do not count.

    A second thread takes the answers, so that a late one does not hold up the next message, unless ``one_at_a_time``.
    """
    latencies, lateness = array("q"), array("q")
    padding = bytes(max(0, size - STAMP.size))
    with connect(port) as client, ThreadPoolExecutor(1) as thread:
        connection: Any = client.connection_pool.get_connection()
        parent.say(ready=True)
        parent.wait()
        start = time.monotonic() + FIRST_DELAY

        def take_answers(first: int, after: int) -> None:
            for number in range(first, after):
                connection.read_response()
                latencies.append(int((time.monotonic() - start - number / rate) * 1e9))

        answers = None if one_at_a_time else thread.submit(take_answers, 0, count)
        for number in range(count):
            due = start + number / rate
            wait = due - time.monotonic()
            if wait > 0:
                time.sleep(wait)
            lateness.append(int((time.monotonic() - due) * 1e9))
            connection.send_command("XADD", STREAM, "*", FIELD, STAMP.pack(int(due * 1e9)) + padding)
            if answers is None:
                take_answers(number, number + 1)
        if answers is not None:
            answers.result()
        client.connection_pool.release(connection)
    parent.say(messages=len(latencies), lateness_us=spread(lateness[skip:]), latency_us=spread(latencies[skip:]))


def take_timed(parent: Parent, port: int, count: int, skip: int, max_in_flight: int) -> None:
    """Read as a member of the group, and acknowledge and delete what was read; ``skip`` first ones do not count.

    Both go out in one write with the next XREADGROUP, so Redis is woken once for the three and syncs once.
    """
    latencies = array("q")
    read = ("XREADGROUP", "GROUP", GROUP, CONSUMER, "COUNT", max_in_flight, "BLOCK", BLOCK_MS, "STREAMS", STREAM, ">")
    with connect(port) as client:
        connection: Any = client.connection_pool.get_connection()
        parent.say(ready=True)
        commands: list[tuple[Any, ...]] = [read]
        while commands:
            connection.send_packed_command(connection.pack_commands(commands))
            answers = [connection.read_response() for _ in commands]
            if commands[-1] is not read:
                break
            # None where nothing came while Redis waited.
            entries = answers[-1][0][1] if answers[-1] else []
            for _, fields in entries:
                latencies.append(time.monotonic_ns() - STAMP.unpack_from(fields[1])[0])
            names = [name for name, _ in entries]
            commands = [("XACK", STREAM, GROUP, *names), ("XDEL", STREAM, *names)] if names else []
            if len(latencies) < count:
                commands.append(read)
        client.connection_pool.release(connection)
    parent.say(messages=len(latencies), latency_us=spread(latencies[skip:]))
