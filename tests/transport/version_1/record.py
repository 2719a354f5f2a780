"""Has every role say and hear something of a broker, and writes down each frame: `python -m tests.transport.version_1.record H:P H:P`.

The addresses are those of a broker that has just started in memory. What was written down lies in ``frames.txt`` and is replayed by
``test_recorded_frames.py``; it is not to be recorded again, but a session may be added for what version 1 promises from then on.
"""

from __future__ import annotations

import struct
import sys
from pathlib import Path
from typing import Any

from tests.transport.version_1.wire import DEMAND, Connection, Frame, frame

FILE = Path(__file__).with_name("frames.txt")
HELLO, SEND = 1, 17


class Recorder:
    """Speaks on named connections, and keeps what was said and heard."""

    def __init__(self, send_address: str, receive_address: str) -> None:
        self._addresses = {"send": send_address, "receive": receive_address}
        self._open: dict[str, Connection] = {}
        self.lines: list[str] = []

    def note(self, text: str) -> None:
        """A line for whoever reads the recording."""
        self.lines += ["", f"# {text}"]

    def open(
        self, name: str, port: str, role: str, queue: str | None, client_id: str | None = None, **options: Any
    ) -> None:
        """Connect and say HELLO; WELCOME must come."""
        self.connect(name, port)
        self.say(name, [HELLO, 1, role, queue, client_id, options])
        self.hear(name)

    def connect(self, name: str, port: str) -> None:
        """Connect."""
        self._open[name] = Connection(self._addresses[port])
        self.lines.append(f"open {name} {port}")

    def say(self, name: str, header: list[Any], body: bytes = b"") -> None:
        """Say one frame."""
        self.raw(name, frame(header, body))

    def raw(self, name: str, said: Frame) -> None:
        """Say these bytes."""
        self._open[name].say(said.data)
        self.lines.append(f"say {name} {said.data.hex()}")

    def hear(self, name: str, times: int = 1) -> None:
        """Hear so many frames. Demand is granted as the broker likes, so it is written down where it is the first."""
        for _ in range(times):
            while True:
                heard = self._open[name].hear()
                assert heard is not None, f"the broker closed {name}"
                if heard.header[0] != DEMAND:
                    break
            self.lines.append(f"hear {name} {heard.data.hex()}")

    def demand(self, name: str) -> None:
        """Hear demand."""
        heard = self._open[name].hear()
        assert heard is not None
        assert heard.header[0] == DEMAND
        self.lines.append(f"hear {name} {heard.data.hex()}")

    def end(self, name: str) -> None:
        """The broker must close."""
        while (heard := self._open[name].hear()) is not None:
            assert heard.header[0] == DEMAND, heard.header
        self.lines.append(f"end {name}")
        self._open.pop(name).close()

    def close(self, name: str) -> None:
        """Close."""
        self._open.pop(name).close()
        self.lines.append(f"close {name}")


def batch(*payloads: bytes) -> tuple[list[Any], bytes]:
    """Bare payloads: the five fields and the body."""
    offsets = [0]
    for payload in payloads:
        offsets.append(offsets[-1] + len(payload))
    body = struct.pack(f"<{len(offsets)}i", *offsets) + b"".join(payloads)
    return [len(payloads), offsets[-1], False, None, None], body


def rich() -> tuple[list[Any], bytes]:
    """Two messages with ids, keys and headers; the second has no key and no headers."""
    import msgpack

    headers = msgpack.packb({"trace": "t-1", "raw": b"\x00\xff"})
    body = (
        struct.pack("<3i", 0, 3, 5)
        + b"onetw"
        + bytes(range(16))
        + bytes(range(16, 32))
        + struct.pack("<3i", 0, 2, 2)
        + b"k1"
        + struct.pack("<3i", 0, len(headers), len(headers))
        + headers
    )
    return [2, 5, True, 2, len(headers)], body


def sender(to: Recorder) -> None:
    to.note("A sender: batches bare and rich, properties, what is sent again, another connection that goes on, a gap.")
    to.open("s1", "send", "sender", "orders", "till-7", token="ignored", unknown_option=1)
    to.demand("s1")
    described, body = batch(b"a", b"bb", b"")
    to.say("s1", [SEND, 0, None, *described], body)
    to.hear("s1")
    described, body = rich()
    to.say("s1", [SEND, 3, {"ttl_ms": 31622400000, "delay_ms": 0}, *described], body)
    to.hear("s1")
    to.say("s1", [4, 77])
    to.hear("s1")
    described, body = batch(b"a", b"bb", b"")
    to.say("s1", [SEND, 0, None, *described], body)
    to.hear("s1")
    to.open("s2", "send", "sender", "orders", "till-7", temporary=False)
    to.hear("s1")
    to.end("s1")
    to.demand("s2")
    described, body = batch(b"last")
    to.say("s2", [SEND, 5, None, *described, "a field that a later version has added"], body)
    to.hear("s2")
    to.say("s2", [SEND, 9, None, *described], body)
    to.hear("s2")
    to.end("s2")


def receiver(to: Recorder) -> None:
    to.note(
        "A receiver: demand, deliveries, EXTEND, NACK and CANCEL with and without `failed`, ACK, one that is not its own."
    )
    to.open("r1", "receive", "receiver", "orders")
    to.say("r1", [32, 3, 1 << 20])
    to.hear("r1")
    to.say("r1", [36, [0, 3], 600_000])
    to.say("r1", [35, [1, 1], 0])
    to.say("r1", [32, 4, 2 << 20])
    to.hear("r1")
    to.say("r1", [34, [0, 3]])
    to.say("r1", [32, 6, 3 << 20])
    to.hear("r1")
    to.say("r1", [35, [3, 2], 0, False])
    to.say("r1", [37, False])
    to.end("r1")
    to.open("r2", "receive", "receiver", "orders", "second")
    to.say("r2", [32, 3, 1 << 20])
    to.hear("r2", 2)
    to.say("r2", [34, [3, 1, 4, 2]])
    to.say("r2", [37])
    to.end("r2")
    to.open("r3", "receive", "receiver", "orders")
    to.say("r3", [34, [0, 1]])
    to.hear("r3")
    to.end("r3")


def subscription(to: Recorder) -> None:
    to.note(
        "A subscription: reserved, fetched twice, committed, an owner that comes again, one too old, a reader, browsing."
    )
    to.open("s3", "send", "sender", "rows", "rows-1")
    to.demand("s3")
    described, body = batch(b"r0", b"r1", b"r2", b"r3")
    to.say("s3", [SEND, 0, None, *described], body)
    to.hear("s3")
    to.close("s3")
    to.open("b1", "receive", "subscription", "rows", None, subscription="q", mode="own", starting="earliest")
    to.say("b1", [48, 1, 0, 3, 1 << 20, 0, None])
    to.hear("b1")
    to.say("b1", [32, 100, 1 << 20])
    to.say("b1", [52, 2, 0, 3])
    to.hear("b1", 2)
    to.say("b1", [52, 3, 1, 3])
    to.hear("b1", 2)
    to.open("b2", "receive", "subscription", "rows", None, subscription="q", mode="read", epoch=1)
    to.say("b2", [32, 100, 1 << 20])
    to.say("b2", [52, 1, 0, 1])
    to.hear("b2", 2)
    to.close("b2")
    to.say("b1", [50, 4, 2])
    to.hear("b1")
    to.open("b3", "receive", "subscription", "rows", "taker", subscription="q", mode="own", take_over=True)
    to.say("b3", [48, 1, 2, 10, 1 << 20, 0, 4])
    to.hear("b3")
    to.say("b3", [50, 2, 1])
    to.hear("b3")
    to.say("b3", [52, 3, 0, 1])
    to.hear("b3")
    to.say("b1", [48, 5, 3, 1, 1 << 20, 0, None])
    to.hear("b1")
    to.close("b1")
    to.close("b3")
    to.open("b4", "receive", "subscription", "rows", None, mode="browse")
    to.say("b4", [32, 100, 1 << 20])
    to.say("b4", [52, 1, 0, 1 << 40])
    to.hear("b4", 3)
    to.close("b4")
    to.connect("b5", "receive")
    to.say("b5", [HELLO, 1, "subscription", "rows", None, {"subscription": "q", "mode": "own", "epoch": 1}])
    to.hear("b5")
    to.end("b5")
    to.connect("b6", "receive")
    to.say("b6", [HELLO, 1, "subscription", "nothing", None, {"mode": "browse"}])
    to.hear("b6")
    to.end("b6")


def transaction(to: Recorder) -> None:
    to.note(
        "A transaction: staged, committed, committed again, incomplete, aborted; and a stage for what is committed."
    )
    to.open("t1", "send", "sender", "ledger", "stager", writer="w", version=7, stage="part-0")
    to.demand("t1")
    described, body = batch(b"x", b"y")
    to.say("t1", [SEND, 0, None, *described], body)
    to.hear("t1")
    to.open("t2", "send", "transaction", None, None, writer="w", version=7)
    to.say("t2", [80, "ledger", "part-0", 3])
    to.say("t2", [81, 1])
    to.hear("t2")
    to.say("t2", [80, "ledger", "part-0", 2])
    to.say("t2", [81, 2])
    to.hear("t2")
    to.say("t2", [80, "ledger", "part-0", 2])
    to.say("t2", [81, 3])
    to.hear("t2")
    to.close("t2")
    to.open("t3", "send", "transaction", None, None, writer="w", version=8)
    to.say("t3", [82, 1])
    to.hear("t3")
    to.close("t3")
    to.open("t4", "send", "sender", "ledger", "stager-2", writer="w", version=7, stage="part-9")
    to.demand("t4")
    described, body = batch(b"late")
    to.say("t4", [SEND, 0, None, *described], body)
    to.hear("t4")
    to.end("t4")
    to.open("t5", "receive", "receiver", "ledger")
    to.say("t5", [32, 5, 1 << 20])
    to.hear("t5")
    to.say("t5", [34, [0, 2]])
    to.say("t5", [37])
    to.end("t5")


def admin(to: Recorder) -> None:
    to.note("An administrator: every command, pages, and refusals that do not close.")
    commands: list[tuple[str, dict[str, Any]]] = [
        (
            "queue.create",
            {
                "name": "made",
                "max_messages": 5,
                "max_bytes": 100_000,
                "visibility_timeout_ms": 30_000,
                "overflow": "reject",
                "max_receives": 3,
                "dead_letter_queue": "graves",
                "delay_ms": 0,
                "ttl_ms": 0,
                "exclusive": False,
                "max_staged_messages": 10,
                "max_staged_bytes": 100_000,
            },
        ),
        ("queue.create", {"name": "made", "max_messages": 6}),
        ("queue.create", {"name": "plain"}),
        ("queue.list", {}),
        ("queue.list", {"limit": 1}),
        ("queue.purge", {"name": "made"}),
        ("queue.delete", {"name": "made"}),
        ("queue.delete", {"name": "made"}),
        ("subscription.list", {}),
        ("subscription.release", {"queue": "rows", "name": "q"}),
        ("subscription.delete", {"queue": "rows", "name": "q"}),
        ("transaction.list", {}),
        ("transaction.abort", {"writer": "w", "version": 9}),
        ("connection.list", {}),
        ("stats", {}),
        ("stats", {"lists": False}),
        ("no.such.command", {}),
        ("queue.create", {"name": 5}),
    ]
    to.open("a1", "send", "admin", None, None)
    for request, (name, arguments) in enumerate(commands, 1):
        to.say("a1", [64, request, name, arguments])
        to.hear("a1")
    to.close("a1")


def rejection(to: Recorder) -> None:
    to.note("A queue that rejects what it has no room for, and a sender that uses the numbers again.")
    to.open("a2", "send", "admin", None, None)
    to.say("a2", [64, 1, "queue.create", {"name": "small", "max_messages": 2, "overflow": "reject"}])
    to.hear("a2")
    to.close("a2")
    to.open("j1", "send", "sender", "small", "j", temporary=True)
    to.demand("j1")
    described, body = batch(b"1", b"2")
    to.say("j1", [SEND, 0, None, *described], body)
    to.hear("j1")
    to.say("j1", [SEND, 2, None, *described], body)
    to.hear("j1")
    to.close("j1")


def refusals(to: Recorder) -> None:
    to.note("What opens no connection, each with its code.")
    for name, port, header in (
        ("x1", "send", [HELLO, 2, "sender", "q", "c", {}]),
        ("x2", "send", [HELLO, 1, "receiver", "q", "c", {}]),
        ("x3", "receive", [HELLO, 1, "receiver", "a b", "c", {}]),
        ("x4", "send", [HELLO, 1, "sender", "q", None, {}]),
        ("x5", "send", [32, 1, 1]),
        ("x6", "send", [999]),
    ):
        to.connect(name, port)
        to.say(name, header)
        to.hear(name)
        to.end(name)
    to.connect("x7", "send")
    to.raw("x7", Frame(struct.pack(">IH", 5000, 100) + b"x" * 200))
    to.hear("x7")
    to.end("x7")
    to.open("x8", "send", "sender", "q8", "c")
    to.demand("x8")
    described, _ = batch(*[b""] * 65_537)
    to.say("x8", [SEND, 0, None, *described], b"")
    to.hear("x8")
    to.end("x8")


SESSIONS = (sender, receiver, subscription, transaction, rejection, admin, refusals)


def main(send_address: str, receive_address: str) -> None:
    """Record all sessions."""
    recorder = Recorder(send_address, receive_address)
    for session in SESSIONS:
        session(recorder)
    FILE.write_text(
        "\n".join(
            ["# Frames of protocol version 1; test_recorded_frames.py says what the lines mean.", *recorder.lines, ""]
        )
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
