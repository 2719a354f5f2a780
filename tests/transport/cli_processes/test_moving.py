"""Processes of the command line that move messages, look at them, and close connections."""

from __future__ import annotations

import json

from tests.transport.programs import BrokerProcess


def test_messages_are_moved_to_a_queue_that_is_there_or_is_asked_for(broker: BrokerProcess, queue: str) -> None:
    broker.fill(queue, [b"a", b"b", b"c"])
    other = f"{queue}.other"
    code, out, err = broker.run("queue move", queue, other)
    assert (code, out) == (1, b"")
    assert err == f"penstock queue move: there is no queue {other!r} to move messages to: --create makes it\n"
    code, out, err = broker.run("queue move", queue, other, "--create", "--count", "1")
    assert (code, out, err) == (
        0,
        f"1 message moved from queue {queue} to queue {other} at {broker.sending}\n".encode(),
        "",
    )
    small = f"{queue}.small"
    assert broker.run("queue create", small, "--max-messages", "1")[0] == 0
    code, out, err = broker.run("queue move", queue, small)
    assert (code, out) == (1, b"")
    assert "has room for 0 messages: 1 of max_messages 1 are stored; 1 messages were moved until then" in err
    assert err.count("\n") == 1
    assert broker.run("queue move", queue, queue)[0] == 1


def test_a_look_never_sends_a_control_character_to_a_terminal(broker: BrokerProcess, queue: str) -> None:
    payloads = [b"\x1b[31mred\x07", b"\xff\x1b", "\u00fcber \u202e".encode(), b""]
    broker.fill(queue, payloads)
    code, out, err = broker.run("queue peek", queue, "--headers")
    assert (code, err) == (0, "")
    text = out.decode()
    assert all(each.isprintable() or each == "\n" for each in text)
    shown = [line.strip() for line in text.splitlines()[1::2]]
    assert shown == ["\\x1b[31mred\\x07", "0xff1b", "\u00fcber \\u202e", "(no bytes)"]
    code, out, _ = broker.run("queue peek", queue, "--json", "--from", "newest", "--count", "3")
    rows = [json.loads(line) for line in out.splitlines()]
    assert [row["number"] for row in rows] == [1, 2, 3]
    assert [row.get("payload_base64", row.get("payload")) for row in rows] == ["/xs=", "\u00fcber \u202e", ""]
    assert out.isascii()
    assert broker.run("queue peek", queue, "--from", "2", "--count", "1")[1].startswith(b"#2 ")
    assert broker.run("queue peek", queue, "--from", "second")[0] == 2


def test_a_connection_is_closed_by_its_number(broker: BrokerProcess, queue: str) -> None:
    with broker.start("receive", "--queue", queue) as receiver:
        broker.until(queue, lambda figures: figures["receivers"] == 1)
        code, out, _ = broker.run("connection list", "--json")
        assert code == 0
        (number,) = [row["id"] for row in json.loads(out) if row["queue"] == queue]
        assert broker.run("connection close", str(number), "--reason", "try again")[:2] == (
            0,
            f"connection {number} closed\n".encode(),
        )
        # It comes back, and goes on.
        broker.fill(queue, [b"after"])
        assert receiver.line(receiver.stdout) == b"after"
    assert broker.run("connection close")[0] == 2
    assert broker.run("connection close", "1", "--of-user", "x")[0] == 2
