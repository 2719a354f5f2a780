"""The two ends of a queue over AMQP with as little of a client as there can be: prepared frames on blocking sockets.

What is published is the same bytes again and again, and what is delivered is always as long as the first: so messages are counted by bytes,
and checked by their delivery tags. A confirm, and an acknowledgement, is a frame of 21 bytes.
"""

from __future__ import annotations

import select
import selectors
import socket
import struct
import time
from array import array
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Self

from benchmarks._paced import FIRST_DELAY, STAMP, spread
from benchmarks._processes import BenchmarkError
from benchmarks._worker import Parent
from transport.gateways.amqp import basic_methods as basic
from transport.gateways.amqp import connection_methods as connection
from transport.gateways.amqp import entity_methods as entity
from transport.gateways.amqp.layout import EMPTY_FRAME_BYTES, PROTOCOL_HEADER
from transport.gateways.amqp.method import Method
from transport.gateways.amqp.method_codec import decode_method
from transport.gateways.amqp.properties import Properties
from transport.gateways.amqp.tables import Table
from transport.gateways.amqp.writing import content_frames, method_frame

HOST: Final = "127.0.0.1"
FRAME_MAX: Final = 131_072
SECONDS: Final = 120.0
"""In which something must come."""
SETTLING: Final = 10.0
"""Seconds in which acknowledgements have to come about."""
RECEIVE_BYTES: Final = 1 << 18
PIECE: Final = 100
"""Messages that are written as one, where they need not be apart."""
SETTLED: Final = struct.Struct(">BHIIQBB")
"""A frame of ``basic.ack`` or ``basic.nack``: type, channel, size, method, tag, bits, end."""
_HEAD: Final = struct.Struct(">BHI")
_PERSISTENT: Final = Properties.of(delivery_mode=2).raw


def message_frames(queue: str, body: bytes) -> bytes:
    """A persistent message to a queue, as a client publishes it."""
    method = basic.BasicPublish(routing_key=queue)
    return b"".join(map(bytes, content_frames(1, method, _PERSISTENT, body, FRAME_MAX)))


class Confirmed:
    """Which messages are confirmed, in whatever order a broker tells."""

    def __init__(self, messages: int) -> None:
        self.count = 0
        self._told = bytearray(messages + 1)
        self._next = 1

    def hear(self, tag: int, multiple: bool) -> None:
        """One is, or all up to it."""
        if multiple:
            for each in range(self._next, tag + 1):
                self.count += not self._told[each]
                self._told[each] = 1
            self._next = max(self._next, tag + 1)
        elif not self._told[tag]:
            self._told[tag] = 1
            self.count += 1


class RawConnection:
    """A connection with one open channel.

    Args:
        port: the broker's.

    Attributes:
        socket: as it is; what it has received is `rest`.
        rest: received, and not looked at.
    """

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection((HOST, port), SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.rest = b""
        self._poll = select.poll()
        self._poll.register(self.socket, select.POLLIN)
        start = connection.ConnectionStartOk(
            client_properties=Table.of({}), mechanism="PLAIN", response=b"\0guest\0guest", locale="en_US"
        )
        self.socket.sendall(PROTOCOL_HEADER)
        self.expect(connection.ConnectionStart)
        self.say(start, 0)
        self.expect(connection.ConnectionTune)
        self.say(connection.ConnectionTuneOk(channel_max=100, frame_max=FRAME_MAX, heartbeat=0), 0)
        self.say(connection.ConnectionOpen(virtual_host="/"), 0)
        self.expect(connection.ConnectionOpenOk)
        self.ask(connection.ChannelOpen(), connection.ChannelOpenOk)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def close(self) -> None:
        """Go when all is done that was said."""
        self.say(connection.ConnectionClose(reply_code=200, reply_text="", class_id=0, method_id=0), 0)
        self.expect(connection.ConnectionCloseOk)

    def say(self, method: Method, channel: int = 1) -> None:
        """Write a method."""
        self.socket.sendall(method_frame(channel, method))

    def ask(self, method: Method, answer: type[Method]) -> Any:
        """Write one, and hear its answer."""
        self.say(method)
        return self.expect(answer)

    def expect(self, kind: type[Method]) -> Any:
        """The next method; BenchmarkError if it is of another kind."""
        while len(self.rest) < _HEAD.size or len(self.rest) < self._frame_bytes(0):
            self.rest += self.receive()
        size = self._frame_bytes(0)
        payload, self.rest = self.rest[_HEAD.size : size - 1], self.rest[size:]
        method = decode_method(payload)
        if not isinstance(method, kind):
            raise BenchmarkError(f"{kind.NAME} was to come, and {method} came")
        return method

    def receive(self) -> bytes:
        """What comes next; BenchmarkError at the end of the stream."""
        data = self.socket.recv(RECEIVE_BYTES)
        if not data:
            raise BenchmarkError("the broker has closed the connection")
        return data

    def has_come(self) -> bool:
        """Whether something is there to be received: with a deadline, a socket waits for it whatever a call of its own says."""
        return bool(self._poll.poll(0))

    def first_delivery(self) -> tuple[int, int]:
        """How long a delivery is, method, header and body, and where in it its tag begins; it stays in `rest`."""
        ends = [0]
        while len(ends) < 4:
            if len(self.rest) - ends[-1] < _HEAD.size or len(self.rest) < ends[-1] + self._frame_bytes(ends[-1]):
                self.rest += self.receive()
            else:
                ends.append(ends[-1] + self._frame_bytes(ends[-1]))
        # Behind the frame's head and the method's number, a consumer tag with its length.
        return ends[-1], _HEAD.size + 4 + 1 + self.rest[_HEAD.size + 4]

    def _frame_bytes(self, at: int) -> int:
        return int(_HEAD.unpack_from(self.rest, at)[2]) + EMPTY_FRAME_BYTES


def declare(port: int, queue: str, kind: str, members: int = 1) -> None:
    """A durable queue, of RabbitMQ's ``kind``, empty; on so many nodes, where it is of a kind that is on several."""
    with RawConnection(port) as opened:
        arguments = Table.of({"x-queue-type": kind} | ({"x-quorum-initial-group-size": members} if members > 1 else {}))
        opened.ask(entity.QueueDeclare(queue=queue, durable=True, arguments=arguments), entity.QueueDeclareOk)
        opened.ask(entity.QueuePurge(queue=queue), entity.QueuePurgeOk)
        opened.close()


def left_in(port: int, queue: str) -> int:
    """Messages that are there, once nobody holds any and what was acknowledged has come about."""
    count, until = 1, time.monotonic() + SETTLING
    with RawConnection(port) as opened:
        while count and time.monotonic() < until:
            found = opened.ask(entity.QueueDeclare(queue=queue, passive=True), entity.QueueDeclareOk)
            count = found.message_count
        opened.close()
    return count


def delete(port: int, queue: str) -> None:
    """The queue is gone, with what is in it."""
    with RawConnection(port) as opened:
        opened.ask(entity.QueueDelete(queue=queue), entity.QueueDeleteOk)
        opened.close()


def confirms_in(data: bytes, confirmed: Confirmed) -> bytes:
    """Hears what whole frames say; returns the rest."""
    whole = len(data) - len(data) % SETTLED.size
    for _, _, _, index, tag, bits, _ in SETTLED.iter_unpack(memoryview(data)[:whole]):
        if index != basic.BasicAck.INDEX:
            raise BenchmarkError(f"message {tag} was not confirmed, or the broker said something else: {index:#x}")
        confirmed.hear(tag, bool(bits & 1))
    return data[whole:]


# Roles


def publish(parent: Parent, port: int, queue: str, messages: int, size: int, window: int) -> None:
    """Publish, so many unconfirmed at most; over when all is confirmed."""
    frames = message_frames(queue, bytes(size))
    piece = memoryview(frames * PIECE)
    confirmed, sent, rest = Confirmed(messages), 0, b""
    with RawConnection(port) as opened:
        opened.ask(basic.ConfirmSelect(), basic.ConfirmSelectOk)
        parent.say(ready=True)
        parent.wait()
        started, cpu = time.monotonic(), time.process_time()
        while confirmed.count < messages:
            count = min(PIECE, messages - sent)
            if count and sent + count - confirmed.count <= window:
                opened.socket.sendall(piece[: count * len(frames)])
                sent += count
                if not opened.has_come():
                    continue
            rest = confirms_in(rest + opened.receive(), confirmed)
        ended = time.monotonic()
        cpu = time.process_time() - cpu
        opened.close()
    parent.say(started=started, ended=ended, messages=confirmed.count, cpu_s=cpu)


def publish_awaiting(parent: Parent, port: int, queue: str, messages: int, size: int, publishers: int) -> None:
    """So many connections, each with one message at a time, which waits for its confirm."""
    frames = message_frames(queue, bytes(size))
    opened = [RawConnection(port) for _ in range(publishers)]
    selector = selectors.EpollSelector()
    for each in opened:
        each.ask(basic.ConfirmSelect(), basic.ConfirmSelectOk)
        selector.register(each.socket, selectors.EVENT_READ)
    parent.say(ready=True)
    parent.wait()
    latencies, since = array("q"), {each.socket: 0 for each in opened}
    started, cpu = time.monotonic(), time.process_time()
    sent = done = 0
    for each in opened[:messages]:
        since[each.socket] = time.monotonic_ns()
        each.socket.sendall(frames)
        sent += 1
    while done < messages:
        ready = selector.select(SECONDS)
        if not ready:
            raise BenchmarkError(f"nothing was confirmed for {SECONDS:g} s")
        for key, _ in ready:
            told: Any = key.fileobj
            data = told.recv(SETTLED.size, socket.MSG_WAITALL)
            _, _, _, index, _, _, _ = SETTLED.unpack(data)
            if index != basic.BasicAck.INDEX:
                raise BenchmarkError("a message was not confirmed")
            now = time.monotonic_ns()
            latencies.append(now - since[told])
            done += 1
            if sent < messages:
                since[told] = now
                told.sendall(frames)
                sent += 1
    ended, cpu = time.monotonic(), time.process_time() - cpu
    for each in opened:
        each.close()
        each.socket.close()
    parent.say(started=started, ended=ended, messages=done, cpu_s=cpu, latency_us=spread(latencies))


def consume(parent: Parent, port: int, queue: str, messages: int, window: int) -> None:
    """Take messages, and acknowledge what came together as one."""
    count = 0
    with RawConnection(port) as opened:
        opened.ask(basic.BasicQos(prefetch_count=window), basic.BasicQosOk)
        opened.ask(basic.BasicConsume(queue=queue, consumer_tag="c"), basic.BasicConsumeOk)
        parent.say(ready=True)
        size, place = opened.first_delivery()
        cpu = time.process_time()
        left = len(opened.rest)
        data, opened.rest = opened.rest, b""
        while True:
            came, left = divmod(left, size)
            if came:
                count += came
                # The last that is whole ends where the rest begins.
                (tag,) = (
                    struct.unpack_from(">Q", data, len(data) - left - size + place)
                    if len(data) - left >= size
                    else (count,)
                )
                if tag != count:
                    raise BenchmarkError(f"delivery {count} has the tag {tag}")
                opened.socket.sendall(SETTLED.pack(1, 1, 13, basic.BasicAck.INDEX, count, 1, 0xCE))
                if count == messages:
                    break
            data = opened.receive()
            left += len(data)
        ended, cpu = time.monotonic(), time.process_time() - cpu
        opened.close()
    parent.say(ended=ended, messages=count, cpu_s=cpu)


def publish_paced(parent: Parent, port: int, queue: str, rate: float, count: int, size: int, skip: int) -> None:
    """Publish on schedule, and time the confirms; ``skip`` first ones do not count."""
    frames = bytearray(message_frames(queue, bytes(size)))
    place = len(frames) - 1 - size
    latencies, lateness = array("q"), array("q")
    with RawConnection(port) as opened, ThreadPoolExecutor(1) as thread:
        opened.ask(basic.ConfirmSelect(), basic.ConfirmSelectOk)
        parent.say(ready=True)
        parent.wait()
        start = time.monotonic() + FIRST_DELAY

        def take_confirms() -> None:
            confirmed, rest = Confirmed(count), b""
            while confirmed.count < count:
                before = confirmed.count
                rest = confirms_in(rest + opened.receive(), confirmed)
                now = time.monotonic()
                # Confirms out of order are counted as if they were in order: the spread is the same.
                latencies.extend(int((now - start - number / rate) * 1e9) for number in range(before, confirmed.count))

        confirms = thread.submit(take_confirms)
        for number in range(count):
            due = start + number / rate
            wait = due - time.monotonic()
            if wait > 0:
                time.sleep(wait)
            lateness.append(int((time.monotonic() - due) * 1e9))
            STAMP.pack_into(frames, place, int(due * 1e9))
            opened.socket.sendall(frames)
        confirms.result()
        opened.close()
    parent.say(messages=len(latencies), lateness_us=spread(lateness[skip:]), latency_us=spread(latencies[skip:]))


def consume_timed(parent: Parent, port: int, queue: str, count: int, skip: int, window: int, size: int) -> None:
    """Take messages, and time them; what came together is acknowledged as one; ``skip`` first ones do not count."""
    latencies = array("q")
    with RawConnection(port) as opened:
        opened.ask(basic.BasicQos(prefetch_count=window), basic.BasicQosOk)
        opened.ask(basic.BasicConsume(queue=queue, consumer_tag="c"), basic.BasicConsumeOk)
        parent.say(ready=True)
        delivery, _ = opened.first_delivery()
        while True:
            now = time.monotonic_ns()
            came = len(opened.rest) // delivery
            for number in range(came):
                stamp = STAMP.unpack_from(opened.rest, (number + 1) * delivery - 1 - size)[0]
                latencies.append(now - stamp)
            if came:
                opened.rest = opened.rest[came * delivery :]
                opened.socket.sendall(SETTLED.pack(1, 1, 13, basic.BasicAck.INDEX, len(latencies), 1, 0xCE))
            if len(latencies) == count:
                break
            opened.rest += opened.receive()
        opened.close()
    parent.say(messages=len(latencies), latency_us=spread(latencies[skip:]))
