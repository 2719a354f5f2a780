"""The two ends of a JetStream with as little of a client as there can be: prepared lines on blocking sockets.

The protocol is lines of text (docs.nats.io, "NATS Protocol"): ``PUB subject reply bytes``, ``MSG subject sid reply bytes``, a payload
behind each. What a publisher is answered is a message to its inbox, and an acknowledgement is an empty message to what a delivery names.
"""

from __future__ import annotations

import json
import re
import select
import socket
import time
from secrets import token_hex
from typing import Any, Final, Self

from benchmarks._processes import BenchmarkError
from benchmarks._worker import Parent

HOST: Final = "127.0.0.1"
SECONDS: Final = 60.0
RECEIVE_BYTES: Final = 1 << 18
PIECE_BYTES: Final = 64 * 1024
END: Final = b"\r\n"
STORED: Final = re.compile(rb'"seq":\s*\d+')
"""In each answer to what was stored."""


class NatsConnection:
    """A connection, which hears its inbox.

    Attributes:
        inbox: where answers go.
        socket: as it is; what it has received is `rest`.
        rest: received, and not looked at.
        version: the server's.
    """

    def __init__(self, port: int, seconds: float = SECONDS) -> None:
        """``seconds`` is how long something may take to come."""
        self.socket = socket.create_connection((HOST, port), seconds)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.rest = b""
        self._poll = select.poll()
        self._poll.register(self.socket, select.POLLIN)
        self.version = ""
        self.version = str(json.loads(self.line().removeprefix(b"INFO "))["version"])
        self.say(b'CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true}')
        self.inbox = f"_INBOX.{token_hex(8)}"
        self.say(f"SUB {self.inbox} 1".encode())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def say(self, line: bytes) -> None:
        """Write a line."""
        self.socket.sendall(line + END)

    def receive(self) -> bytes:
        """What comes next; BenchmarkError at the end of the stream."""
        data = self.socket.recv(RECEIVE_BYTES)
        if not data:
            raise BenchmarkError("the server has closed the connection")
        return data

    def has_come(self) -> bool:
        """Whether something is there to be received."""
        return bool(self._poll.poll(0))

    def line(self) -> bytes:
        """The next line; a question whether this side is there is answered."""
        while True:
            while END not in self.rest:
                self.rest += self.receive()
            line, _, self.rest = self.rest.partition(END)
            if line == b"PING":
                self.say(b"PONG")
            elif line.startswith(b"INFO ") and self.version:
                continue  # the servers of the cluster have changed
            elif line.startswith(b"-ERR"):
                raise BenchmarkError(f"the server says {line.decode()}")
            else:
                return line

    def message(self) -> tuple[bytes, bytes]:
        """The next message: its line, and its payload."""
        line = self.line()
        if not line.startswith((b"MSG ", b"HMSG ")):
            raise BenchmarkError(f"a message was to come, and {line.decode()} came")
        size = int(line.rpartition(b" ")[2])
        while len(self.rest) < size + len(END):
            self.rest += self.receive()
        payload, self.rest = self.rest[:size], self.rest[size + len(END) :]
        return line, payload

    def ask(self, subject: str, question: dict[str, Any]) -> dict[str, Any]:
        """What JetStream answers; BenchmarkError where it refuses."""
        body = json.dumps(question).encode()
        self.say(f"PUB {subject} {self.inbox} {len(body)}".encode() + END + body)
        line, payload = self.message()
        if line.startswith(b"HMSG"):
            raise BenchmarkError(f"nobody answers to {subject}")
        answer: dict[str, Any] = json.loads(payload)
        if "error" in answer:
            raise BenchmarkError(f"{subject}: {answer['error']}")
        return answer


# Roles


def publish(parent: Parent, port: int, stream: str, messages: int, size: int, window: int) -> None:
    """Publish, so many unconfirmed at most; over when all is stored."""
    with NatsConnection(port) as opened:
        one = f"PUB {stream} {opened.inbox} {size}".encode() + END + bytes(size) + END
        most = max(1, min(window, PIECE_BYTES // len(one)))
        piece = memoryview(one * most)
        parent.say(ready=True)
        parent.wait()
        started, cpu = time.monotonic(), time.process_time()
        sent = stored = 0
        rest = opened.rest
        while stored < messages:
            count = min(most, messages - sent, window - (sent - stored))
            if count == min(most, messages - sent) and count:
                opened.socket.sendall(piece[: count * len(one)])
                sent += count
                if not opened.has_come():
                    continue
            rest, more = _stored(rest + opened.receive(), opened)
            stored += more
        ended, cpu = time.monotonic(), time.process_time() - cpu
    parent.say(started=started, ended=ended, messages=stored, cpu_s=cpu)


def _stored(data: bytes, opened: NatsConnection) -> tuple[bytes, int]:
    """What is left behind whole answers, and how many of them say that a message is stored."""
    end = data.rfind(b"}" + END)
    if end < 0:
        return data, 0
    whole, rest = data[: end + 1], data[end + 1 + len(END) :]
    count = len(STORED.findall(whole))
    if b'"error"' in whole or b"-ERR" in whole:
        raise BenchmarkError(f"a message was not stored: {whole[-300:]!r}")
    if b"\nPING" in whole or whole.startswith(b"PING"):
        opened.say(b"PONG")
    return rest, count


def consume(parent: Parent, port: int, stream: str, messages: int, size: int) -> None:
    """Take messages; what came together is acknowledged as one."""
    with NatsConnection(port) as opened:
        opened.say(f"SUB to.{stream} 2".encode())
        parent.say(ready=True)
        began, count = 0.0, 0
        while count < messages:
            more, reply = _take(opened, size)
            count += more
            if more:
                began = began or time.process_time()
                opened.socket.sendall(b"PUB " + reply + b" 0\r\n\r\n")
            if count < messages:
                opened.rest += opened.receive()
        ended = time.monotonic()
        # The server answers this behind what was acknowledged.
        opened.say(b"PING")
        while b"PONG" not in opened.rest:
            opened.rest += opened.receive()
    parent.say(ended=ended, messages=count, cpu_s=time.process_time() - began)


def _take(opened: NatsConnection, size: int) -> tuple[int, bytes]:
    """How many whole deliveries have come, and what the last is acknowledged by; they are received no more."""
    data, at, count, reply = opened.rest, 0, 0, b""
    while (end := data.find(END, at)) >= 0:
        if data.startswith(b"MSG ", at):
            stop = end + size + 2 * len(END)
            if len(data) < stop:
                break
            reply = data[at:end].split(b" ")[3]
            count += 1
            at = stop
            continue
        if data.startswith(b"PING", at):
            opened.say(b"PONG")
        elif not data.startswith((b"PONG", b"INFO"), at):
            raise BenchmarkError(f"a delivery was to come, and {data[at:end]!r} came")
        at = end + len(END)
    opened.rest = data[at:]
    return count, reply
