"""A client of the wire protocol written from docs/protocol.md and nothing else: plain sockets and msgpack.

It imports nothing of the product, so that what the page does not say, or says wrongly, is found by the tests that use it.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import socket
import ssl
import struct
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import msgpack

HELLO, WELCOME, ERROR, PING, PONG, AUTH = 1, 2, 3, 4, 5, 6
DEMAND, SEND, SENT = 16, 17, 18
REQUEST, DELIVER, ACK, NACK, EXTEND, CANCEL = 32, 33, 34, 35, 36, 37
RESERVE, RESERVED, COMMIT, COMMITTED, FETCH, FETCHED, FETCH_END = 48, 49, 50, 51, 52, 53, 54
COMMAND, RESULT = 64, 65
ENLIST, COMMIT_TRANSACTION, ABORT_TRANSACTION, TRANSACTION_ENDED = 80, 81, 82, 83

VERSION = 1
PREFIX = struct.Struct(">IH")
SECONDS = 10.0
"""Longest wait for an answer."""


class Refused(Exception):  # noqa: N818 - the protocol's word
    """The broker sent ERROR."""

    def __init__(self, code: str, text: str, close: bool) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code
        self.text = text
        self.close = close


@dataclass
class Message:
    """One message as it was delivered."""

    payload: bytes
    sequence: int
    enqueued_us: int
    delivery_count: int
    possibly_replayed: bool
    id: bytes | None = None
    key: bytes | None = None
    headers: dict[str, Any] | None = None
    position: int | None = None


@dataclass
class Outgoing:
    """One message to send."""

    payload: bytes
    id: bytes | None = None
    key: bytes | None = None
    headers: dict[str, Any] | None = None


def column(values: list[bytes]) -> tuple[bytes, bytes]:
    """Offsets and data."""
    offsets = [0]
    for value in values:
        offsets.append(offsets[-1] + len(value))
    return struct.pack(f"<{len(offsets)}i", *offsets), b"".join(values)


def pack_batch(messages: list[Outgoing]) -> tuple[list[Any], bytes]:
    """The five header fields and the body."""
    offsets, data = column([message.payload for message in messages])
    parts = [offsets, data]
    has_ids = any(message.id is not None for message in messages)
    if has_ids:
        parts.append(b"".join(message.id or b"" for message in messages))
    sizes: list[int | None] = []
    for values in (
        [message.key or b"" for message in messages],
        [msgpack.packb(message.headers) if message.headers else b"" for message in messages],
    ):
        if any(values):
            offsets, column_data = column(values)
            parts += [offsets, column_data]
            sizes.append(len(column_data))
        else:
            sizes.append(None)
    return [len(messages), len(data), has_ids, *sizes], b"".join(parts)


def unpack_column(body: memoryview, at: int, count: int, size: int) -> tuple[list[bytes], int]:
    """The values of a column that begins at ``at``, and where it ends."""
    offsets = struct.unpack_from(f"<{count + 1}i", body, at)
    data_at = at + 4 * (count + 1)
    data = bytes(body[data_at : data_at + size])
    values = [data[start - offsets[0] : end - offsets[0]] for start, end in pairwise(offsets)]
    return values, data_at + size


def unpack_batch(
    described: list[Any], body: memoryview
) -> tuple[list[bytes], list[bytes] | None, list[bytes] | None, list[bytes] | None]:
    """Payloads, ids, keys and packed headers."""
    count, data_bytes, has_ids, keys_bytes, headers_bytes = described[:5]
    payloads, at = unpack_column(body, 0, count, data_bytes)
    ids = keys = headers = None
    if has_ids:
        ids = [bytes(body[at + 16 * index : at + 16 * index + 16]) for index in range(count)]
        at += 16 * count
    if keys_bytes is not None:
        keys, at = unpack_column(body, at, count, keys_bytes)
    if headers_bytes is not None:
        headers, at = unpack_column(body, at, count, headers_bytes)
    assert at == len(body), "the body is longer than the header says"
    return payloads, ids, keys, headers


class Scram:
    """One exchange of SCRAM-SHA-256, from RFC 5802 and RFC 7677 alone; for names of ASCII without `=` and `,`."""

    def __init__(self, user: str, password: str, nonce: str | None = None) -> None:
        self.nonce = nonce or base64.b64encode(os.urandom(18)).decode()
        self._password = password.encode()
        self._bare = f"n={user},r={self.nonce}"
        self._signature = b""

    def first(self) -> bytes:
        """The client-first-message."""
        return b"n,," + self._bare.encode()

    def final(self, challenge: bytes) -> bytes:
        """The client-final-message."""
        fields = dict(part.split("=", 1) for part in challenge.decode().split(","))
        assert fields["r"].startswith(self.nonce)
        assert len(fields["r"]) > len(self.nonce)
        assert 4096 <= int(fields["i"]) <= 10_000_000
        salted = hashlib.pbkdf2_hmac("sha256", self._password, base64.b64decode(fields["s"]), int(fields["i"]))
        client_key = hmac.digest(salted, b"Client Key", "sha256")
        bare = f"c=biws,r={fields['r']}"
        message = f"{self._bare},{challenge.decode()},{bare}".encode()
        signature = hmac.digest(hashlib.sha256(client_key).digest(), message, "sha256")
        proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
        self._signature = hmac.digest(hmac.digest(salted, b"Server Key", "sha256"), message, "sha256")
        return f"{bare},p={base64.b64encode(proof).decode()}".encode()

    def check(self, final: bytes) -> None:
        """The server-final-message is of a broker that knows the password's record."""
        assert final == b"v=" + base64.b64encode(self._signature), "the broker cannot prove itself"


class Connection:
    """One connection in one role; PING is answered wherever it comes.

    With a ``login``, a user and a password, both sides prove themselves. A ``context`` is of TLS.
    """

    def __init__(
        self,
        address: str,
        role: str,
        queue: str | None,
        client_id: str | None = None,
        options: dict[str, Any] | None = None,
        login: tuple[str, str] | None = None,
        context: ssl.SSLContext | None = None,
    ) -> None:
        host, port = address.rsplit(":", 1)
        self._socket = socket.create_connection((host.strip("[]"), int(port)), timeout=SECONDS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = b""
        try:
            if context is not None:
                self._socket = context.wrap_socket(self._socket, server_hostname=host.strip("[]"))
            self.write([HELLO, VERSION, role, queue, client_id, (options or {}) | self._mechanism(login)])
            if login is not None:
                exchange = Scram(*login)
                self.write([AUTH, exchange.first()])
                self.write([AUTH, exchange.final(self.read(AUTH)[0][1])])
                exchange.check(self.read(AUTH)[0][1])
            header, _ = self.read(WELCOME)
        except BaseException:
            self._socket.close()
            raise
        self.version: int = header[1]
        self.epoch: int = header[2]
        self.options: dict[str, Any] = header[3]

    @staticmethod
    def _mechanism(login: tuple[str, str] | None) -> dict[str, Any]:
        return {} if login is None else {"mechanism": "SCRAM-SHA-256"}

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connection."""
        self._socket.close()

    def crash(self) -> None:
        """End it as a dying process does that has unread data."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()

    def write(self, header: list[Any], body: bytes = b"") -> None:
        """Send one frame."""
        packed = msgpack.packb(header)
        self._socket.sendall(PREFIX.pack(PREFIX.size + len(packed) + len(body), len(packed)) + packed + body)

    def next(self) -> tuple[list[Any], memoryview] | None:
        """The next frame whatever it is; None at the end of the stream."""
        head = self._take(PREFIX.size)
        if head is None:
            return None
        length, header_length = PREFIX.unpack(head)
        rest = self._take(length - PREFIX.size)
        assert rest is not None, "the stream ended inside a frame"
        header = msgpack.unpackb(rest[:header_length])
        return header, memoryview(rest)[header_length:]

    def read(self, *kinds: int) -> tuple[list[Any], memoryview]:
        """The next frame but PING and PONG, which must be of one of these types; ERROR raises `Refused`."""
        while True:
            frame = self.next()
            assert frame is not None, f"the broker closed; frame {kinds} was awaited"
            header, body = frame
            if header[0] == PING:
                self.write([PONG, header[1]])
            elif header[0] == ERROR:
                raise Refused(header[1], header[2], header[3])
            elif header[0] != PONG:
                assert header[0] in kinds, f"frame {header} came where {kinds} was awaited"
                return header, body

    def ping(self, token: int) -> int:
        """Ask whether the broker is there; returns the token that it answers with."""
        self.write([PING, token])
        while True:
            frame = self.next()
            assert frame is not None
            if frame[0][0] == PONG:
                answer: int = frame[0][1]
                return answer

    def _take(self, size: int) -> bytes | None:
        while len(self._buffer) < size:
            data = self._socket.recv(65536)
            if not data:
                assert not self._buffer, "the stream ended inside a frame"
                return None
            self._buffer += data
        taken, self._buffer = self._buffer[:size], self._buffer[size:]
        return taken


class Sender(Connection):
    """Role ``sender``: sends within the demand that it was granted."""

    def __init__(self, address: str, queue: str, client_id: str, login: Any = None, **options: Any) -> None:
        self.messages = self.bytes = 0
        self.sent_messages = self.sent_bytes = 0
        self.confirmed: int | None = None
        self.firsts: list[int | None] = []
        self.rejections: list[str] = []
        self.under_way: list[int] = []
        self.rejected_at: int | None = None
        super().__init__(address, "sender", queue, client_id, options, login)
        self.last_sequence: int | None = self.options["last_sequence"]
        self.sequence = self.last_sequence or 0

    def send(self, messages: list[Outgoing], **properties: int) -> None:
        """Send one batch as soon as demand allows; the confirmation is not awaited."""
        described, body = pack_batch(messages)
        while self.rejected_at is not None:
            self.listen()
        while self.sent_messages + len(messages) > self.messages or self.sent_bytes + len(body) > self.bytes:
            if len(messages) == 1 and self.messages > self.sent_messages and self.bytes > self.sent_bytes:
                break
            self.listen()
        self.write([SEND, self.sequence, properties or None, *described], body)
        self.under_way.append(self.sequence)
        self.sequence += len(messages)
        self.sent_messages += len(messages)
        self.sent_bytes += len(body)

    def send_payloads(self, *payloads: bytes) -> None:
        """Send one batch of bare payloads."""
        self.send([Outgoing(payload) for payload in payloads])

    def listen(self) -> None:
        """Take one frame of the broker."""
        header, _ = self.read(DEMAND, SENT)
        if header[0] == DEMAND:
            self.messages, self.bytes = max(self.messages, header[1]), max(self.bytes, header[2])
            return
        _, up_to, first, rejected = header[:4]
        sequence = self.under_way.pop(0)
        if rejected is None:
            self.confirmed = up_to
            self.firsts.append(first)
            return
        self.rejections.append(rejected)
        if self.rejected_at is None:
            self.rejected_at = sequence
        if not self.under_way:
            self.sequence, self.rejected_at = self.rejected_at, None

    def listen_for_ever(self) -> None:
        """Take whatever comes, until the broker refuses something or closes."""
        while True:
            self.listen()

    def answered(self) -> None:
        """Wait until everything sent is answered for, stored or rejected."""
        while self.under_way:
            self.listen()

    def confirm(self) -> None:
        """Wait until everything sent is stored."""
        self.answered()
        assert not self.rejections, self.rejections


class Receiver(Connection):
    """Role ``receiver``."""

    def __init__(
        self, address: str, queue: str, client_id: str | None = None, login: Any = None, **options: Any
    ) -> None:
        super().__init__(address, "receiver", queue, client_id, options, login)
        self.waits_in_line: bool = self.options["waiting"]
        self._waiting: list[Message] = []
        self._messages = self._bytes = 0

    def request(self, messages: int, size: int = 1 << 20) -> None:
        """Ask for so much more."""
        self._messages += messages
        self._bytes += size
        self.write([REQUEST, self._messages, self._bytes])

    def receive(self, count: int) -> list[Message]:
        """The next ``count`` messages, which must have been requested."""
        while len(self._waiting) < count:
            header, body = self.read(DELIVER)
            self._waiting += self.unpack(header[1:5], header[5:10], body)
        taken, self._waiting = self._waiting[:count], self._waiting[count:]
        return taken

    def unpack(self, facts: list[Any], described: list[Any], body: memoryview) -> list[Message]:
        """The messages of one DELIVER or FETCHED."""
        first, enqueued_us, delivery_count, replayed = facts
        payloads, ids, keys, headers = unpack_batch(described, body)
        prefix: bytes = self.options["id_prefix"]
        return [
            Message(
                payload,
                first + index,
                enqueued_us,
                delivery_count,
                replayed,
                ids[index] if ids else prefix + struct.pack(">Q", first + index),
                (keys[index] or None) if keys else None,
                msgpack.unpackb(headers[index]) if headers and headers[index] else {},
            )
            for index, payload in enumerate(payloads)
        ]

    def acknowledge(self, *messages: Message) -> None:
        """They are done."""
        self.write([ACK, self.ranges(messages)])

    def reject(self, *messages: Message, delay_ms: int = 0) -> None:
        """They are to come again."""
        self.write([NACK, self.ranges(messages), delay_ms])

    def extend(self, *messages: Message, ms: int) -> None:
        """They need so much longer from now."""
        self.write([EXTEND, self.ranges(messages), ms])

    def cancel(self) -> list[Message]:
        """Say the last word and read to the end of the stream; returns what came meanwhile."""
        self.write([CANCEL])
        late, self._waiting = self._waiting, []
        while (frame := self.next()) is not None:
            header, body = frame
            if header[0] == DELIVER:
                late += self.unpack(header[1:5], header[5:10], body)
        return late

    @staticmethod
    def ranges(messages: tuple[Message, ...]) -> list[int]:
        """Flat pairs of first and count, runs joined."""
        flat: list[int] = []
        for sequence in sorted(message.sequence for message in messages):
            if flat and flat[-2] + flat[-1] == sequence:
                flat[-1] += 1
            else:
                flat += [sequence, 1]
        return flat


class Subscription(Receiver):
    """Role ``subscription``."""

    def __init__(self, address: str, queue: str, name: str, **options: Any) -> None:
        Connection.__init__(self, address, "subscription", queue, None, {"subscription": name, **options})
        self.subscription_epoch: int = self.options["epoch"]
        self.base: int = self.options["base"]
        self.high: int = self.options["high"]
        self._request = 0
        self._messages = self._bytes = 0
        self._waiting = []

    def reserve(
        self, start: int, messages: int, size: int = 1 << 20, wait_ms: int = 0, below: int | None = None
    ) -> tuple[int, dict[str, Any]]:
        """Returns the end of what is reserved, and the facts."""
        self._request += 1
        self.write([RESERVE, self._request, start, messages, size, wait_ms, below])
        header, _ = self.read(RESERVED)
        assert header[1] == self._request
        return header[2], header[3]

    def commit(self, position: int) -> int:
        """Returns the base."""
        self._request += 1
        self.write([COMMIT, self._request, position])
        header, _ = self.read(COMMITTED)
        assert header[1] == self._request
        base: int = header[2]
        return base

    def fetch(self, start: int, stop: int) -> list[Message]:
        """The messages at start <= p < stop, in order, a few at a time under demand."""
        self._request += 1
        self.write([FETCH, self._request, start, stop])
        self.request(2)
        found: list[Message] = []
        while True:
            header, body = self.read(FETCHED, FETCH_END)
            assert header[1] == self._request
            if header[0] == FETCH_END:
                assert header[2] == len(found)
                return found
            messages = self.unpack(header[3:7], header[7:12], body)
            for index, message in enumerate(messages):
                message.position = header[2] + index
            found += messages
            self.request(len(messages))


class Transaction(Connection):
    """Role ``transaction``."""

    def __init__(self, address: str, writer: str, version: int, login: Any = None, **options: Any) -> None:
        super().__init__(address, "transaction", None, None, {"writer": writer, "version": version} | options, login)
        self.last_version: int | None = self.options["last_version"]
        self._request = 0

    def enlist(self, queue: str, stage: str, messages: int) -> None:
        """Name a stage that won."""
        self.write([ENLIST, queue, stage, messages])

    def commit(self) -> int:
        """Returns how many messages were published."""
        return self._end(COMMIT_TRANSACTION)

    def abort(self) -> int:
        """Returns how many messages were discarded."""
        return self._end(ABORT_TRANSACTION)

    def _end(self, kind: int) -> int:
        self._request += 1
        self.write([kind, self._request])
        header, _ = self.read(TRANSACTION_ENDED)
        assert header[1] == self._request
        messages: int = header[2]
        return messages


class Admin(Connection):
    """Role ``admin``."""

    def __init__(self, address: str, login: Any = None, **options: Any) -> None:
        super().__init__(address, "admin", None, None, options, login)
        self._request = 0

    def command(self, command: str, /, **arguments: Any) -> Any:
        """The JSON value that answers a command."""
        self._request += 1
        self.write([COMMAND, self._request, command, arguments])
        header, body = self.read(RESULT)
        assert header[1] == self._request
        return json.loads(bytes(body))

    def rows(self, command: str, limit: int) -> list[list[dict[str, Any]]]:
        """The pages of a list."""
        pages = []
        page = self.command(command, limit=limit)
        pages.append(page["rows"])
        while page["next"] is not None:
            page = self.command(command, limit=limit, after=page["next"])
            pages.append(page["rows"])
        return pages

    def queue(self, name: str) -> dict[str, Any]:
        """One queue's row."""
        rows: list[dict[str, Any]] = [row for row in self.command("queue.list") if row["name"] == name]
        assert len(rows) == 1, f"there is no queue {name}"
        return rows[0]
