"""Whatever text a client sends is checked or bounded: in every frame, every option of HELLO, every argument of a command."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from actors import MAX_ENLISTED
from transport.broker.enlisted import (
    MAX_ENLISTED_BYTES,
    MAX_ENLISTED_BYTES_OF_ALL,
    STAGE_BYTES,
    EnlistedStages,
    EnlistedTotal,
)
from transport.broker.operations import COMMANDS
from transport.errors import LimitExceededError
from transport.wire.arguments import SETTING_ARGUMENTS
from transport.wire.messages import (
    FRAMES,
    MAX_ERROR_TEXT,
    VERSION,
    Command,
    CommitTransaction,
    Enlist,
    Error,
    Frame,
    Hello,
    Nack,
    Result,
    TransactionEnded,
    Welcome,
)
from transport.wire.protocol import ALWAYS, FROM_CLIENT, RECEIVING_ROLES, ROLES_WITHOUT_QUEUE

BAD_NAMES = ["", "n" * 256, "a name", "a\nname", "\0" * 200, "é" * 128, "\u2028"]
LONG = "\0" * 3900
"""As long as a header lets a text be, and four times as long where an error quotes it."""
FROM_CLIENTS = {Hello, *ALWAYS, *(frame for frames in FROM_CLIENT.values() for frame in frames)}
NOT_NAMES = {
    (Hello, "role"): "one of a few words",
    (Error, "code"): "not kept: the connection closes",
    (Error, "text"): "not kept: the connection closes",
    (Error, "leader"): "likewise",
    (Command, "name"): "one of a few words",
    (Nack, "reason"): "of a bounded length, which its port looks at",
    (Nack, "error"): "likewise",
}
"""Texts that name nothing, and why they need no check of their own."""
OPTIONS: dict[str, dict[str, list[Any]]] = {
    "sender": {
        "writer": BAD_NAMES,
        "stage": BAD_NAMES,
        "version": ["1", -1, 2**63],
        "exchange": [*BAD_NAMES, 7],
        "routing_key": ["k", 7],
        "mandatory": [True, 7],
    },
    "transaction": {"writer": BAD_NAMES, "version": ["1", -1, 2**63]},
    "subscription": {
        "subscription": BAD_NAMES,
        "mode": [LONG[:1000], "", 7],
        "starting": [LONG[:1000], "", 7],
        "epoch": [-1, 2**63, "1"],
        "owner_timeout_ms": [-1, 2**63, "1"],
    },
    "receiver": {},
    "admin": {},
}
"""What each role reads of HELLO's options, with values that cannot be."""
GOOD: dict[str, dict[str, Any]] = {
    "sender": {"writer": "w", "version": 1, "stage": "s"},
    "transaction": {"writer": "w", "version": 1},
    "subscription": {"subscription": "s"},
    "receiver": {},
    "admin": {},
}
ARGUMENTS: dict[str, tuple[str, ...]] = {
    "queue.list": (),
    "queue.create": ("name", "overflow", "dead_letter_queue"),
    "queue.alter": ("name", "overflow", "dead_letter_queue"),
    "queue.delete": ("name",),
    "queue.purge": ("name",),
    "queue.move": ("from", "to"),
    "queue.peek": ("name",),
    "journal.backup": (),
    "journal.read": ("name",),
    "journal.release": (),
    "exchange.list": (),
    "exchange.create": ("name", "kind", "arguments"),
    "exchange.delete": ("name",),
    "exchange.route": ("name",),
    "binding.list": (),
    "binding.create": ("source", "destination", "arguments"),
    "binding.delete": ("arguments",),
    "schedule.list": (),
    "schedule.show": ("name",),
    "schedule.create": ("name", "expression", "queue", "zone", "missed"),
    "schedule.delete": ("name",),
    "schedule.pause": ("name",),
    "schedule.resume": ("name",),
    "subscription.list": (),
    "subscription.release": ("queue", "name"),
    "subscription.delete": ("queue", "name"),
    "transaction.list": (),
    "transaction.abort": ("writer",),
    "picture": (),
    "stats": (),
    "connection.list": (),
    "connection.close": (),
    "user.list": (),
    "cluster.status": (),
    "cluster.add": ("name", "address"),
    "cluster.remove": ("name",),
    "cluster.move": ("name", "address"),
    "cluster.heal": ("name",),
    "cluster.give_up": (),
}
"""The texts that each command takes."""
KNOWN: dict[str, Any] = {
    "name": "known",
    "queue": "known",
    "writer": "w",
    "version": 1,
    "from": "known",
    "to": "other",
    "count": 1,
    "source": "amq.topic",
    "destination": "known",
    "expression": "@yearly",
}


def address_of(broker: Any, role: str) -> str:
    address: str = broker.receive_address if role in RECEIVING_ROLES else broker.send_address
    return address


def test_every_text_that_a_client_may_send_is_a_name_or_stands_in_this_table() -> None:
    texts = {
        (frame, field.name)
        for frame in FROM_CLIENTS
        for field in fields(frame)  # type: ignore[arg-type]  # every frame is a dataclass
        if str(field.type) in ("str", "str | None")
    }
    assert texts == set(NOT_NAMES)
    assert set(FRAMES.values()) >= FROM_CLIENTS


@pytest.mark.parametrize(
    ("frame", "field"),
    [
        (frame, field.name)
        for frame in sorted(FROM_CLIENTS, key=lambda each: each.TYPE)
        for field in fields(frame)  # type: ignore[arg-type]
        if str(field.type).startswith("Name")
    ],
)
def test_a_name_out_of_its_limits_is_refused_whatever_frame_it_is_in(
    run: Any, serve: Any, peers: Any, frame: type[Frame], field: str
) -> None:
    async def refused(broker: Any, name: str) -> None:
        async with peers() as opened:
            if frame is Hello:
                peer = await opened.connect(broker.send_address)
                values: dict[str, Any] = {"version": 1, "role": "sender", "queue": "q", "client_id": "c", "options": {}}
            else:
                peer = await opened.open(broker.send_address, "transaction", None, **GOOD["transaction"])
                values = {"queue": "q", "stage": "s", "messages": 1}
            peer.send(frame(**(values | {field: name})))
            refusal = await peer.refusal()
            assert refusal.code == "invalid-name"
            assert field.removesuffix("_id") in refusal.text
            assert broker.enlisted.bytes == 0
            assert list(broker.queues) == []

    async def main() -> None:
        async with serve() as broker:
            for name in BAD_NAMES:
                await refused(broker, name)

    run(main)


@pytest.mark.parametrize(("role", "option"), [(role, option) for role, table in OPTIONS.items() for option in table])
def test_an_option_of_hello_out_of_its_limits_is_refused(
    run: Any, serve: Any, peers: Any, role: str, option: str
) -> None:
    async def refused(broker: Any, value: Any) -> None:
        async with peers() as opened:
            peer = await opened.connect(address_of(broker, role))
            queue = None if role in ROLES_WITHOUT_QUEUE else "q"
            peer.send(Hello(VERSION, role, queue, "c", GOOD[role] | {option: value}))
            refusal = await peer.refusal()
            named = option in ("subscription", "writer", "stage")
            assert refusal.code == ("invalid-name" if named else "protocol-error"), value

    async def main() -> None:
        async with serve() as broker:
            for value in OPTIONS[role][option]:
                await refused(broker, value)

    run(main)


@pytest.mark.parametrize("role", OPTIONS)
def test_options_that_nobody_reads_do_no_harm(run: Any, serve: Any, peers: Any, role: str) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened:
            queue = None if role in ROLES_WITHOUT_QUEUE else "q"
            peer = await opened.connect(address_of(broker, role))
            peer.send(Hello(VERSION, role, queue, "c", GOOD[role] | {"unknown": LONG[:3000]}))
            await peer.expect_later(Welcome)

    run(main)


def test_every_command_stands_in_the_table_of_arguments() -> None:
    assert set(ARGUMENTS) == set(COMMANDS)
    assert set(ARGUMENTS["queue.create"]) <= {"name", *SETTING_ARGUMENTS}


@pytest.mark.parametrize(("name", "argument"), [(name, each) for name, some in ARGUMENTS.items() for each in some])
def test_a_text_in_a_command_gets_one_answer_and_the_connection_goes_on(
    run: Any, serve: Any, peers: Any, name: str, argument: str
) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened:
            admin = await opened.open(broker.send_address, "admin", None)
            for value in (LONG, "n" * 256, "a name", 7, {}, 2**63):
                given = {key: KNOWN[key] for key in (*ARGUMENTS[name], "version") if key in KNOWN}
                admin.send(Command(1, name, given | {argument: value}))
                refusal = await admin.expect(Error)
                assert refusal.code in ("invalid-name", "not-found", "protocol-error"), value
                assert not refusal.close
                assert len(refusal.text) <= MAX_ERROR_TEXT
            admin.send(Command(2, "queue.list", {}))
            assert (await admin.expect(Result)).json == b"[]"

    run(main)


def test_a_command_of_a_long_name_is_refused_in_a_short_text(run: Any, serve: Any, peers: Any) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened:
            admin = await opened.open(broker.send_address, "admin", None)
            admin.send(Command(1, LONG, {}))
            assert (await admin.expect(Error)).code == "protocol-error"

    run(main)


def test_what_a_connection_enlists_is_counted_and_given_back_at_its_end(
    run: Any, serve: Any, peers: Any, until: Any
) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened:
            leaving = await opened.open(broker.send_address, "transaction", None, **GOOD["transaction"])
            committing = await opened.open(broker.send_address, "transaction", None, writer="v", version=1)
            for peer in (leaving, committing):
                peer.send(*(Enlist("orders", f"{number:0250}", 1) for number in range(100)))
            await until(lambda: broker.enlisted.bytes == 2 * (100 * (STAGE_BYTES + 250) + STAGE_BYTES + len("orders")))
            await leaving.close()
            committing.send(CommitTransaction(1))
            assert (await committing.expect(Error)).code == "transaction-incomplete"
            await until(lambda: broker.enlisted.bytes == 0)
            committing.send(CommitTransaction(2))
            assert await committing.expect(TransactionEnded) == TransactionEnded(2, 0)

    run(main)


def test_the_connection_that_enlists_most_goes_where_all_together_enlist_too_much(
    run: Any, serve: Any, peers: Any, until: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened:
            monkeypatch.setattr(broker.enlisted, "_limit", 100 * STAGE_BYTES)
            greedy = await opened.open(broker.send_address, "transaction", None, writer="greedy", version=1)
            honest = await opened.open(broker.send_address, "transaction", None, writer="honest", version=1)
            greedy.send(*(Enlist("orders", "s", 1) for _ in range(90)), CommitTransaction(1))
            assert (await greedy.expect(Error)).code == "transaction-incomplete"
            greedy.send(*(Enlist("orders", "s", 1) for _ in range(90)))
            await until(lambda: broker.enlisted.bytes > 90 * STAGE_BYTES)
            honest.send(*(Enlist("orders", "s", 1) for _ in range(10)), CommitTransaction(1))
            refusal = await greedy.refusal()
            assert (refusal.code, "most of them" in refusal.text) == ("limit-exceeded", True)
            assert (await honest.expect(Error)).code == "transaction-incomplete"
            assert broker.enlisted.bytes == 0

    run(main)


def test_one_connection_enlists_a_bounded_number_of_bytes() -> None:
    total = EnlistedTotal()
    stages = EnlistedStages(total, lambda *_: None)
    with pytest.raises(LimitExceededError, match="MAX_ENLISTED_BYTES"):
        _enlist(stages, 255)
    assert MAX_ENLISTED_BYTES - 1000 < stages.bytes == total.bytes <= MAX_ENLISTED_BYTES < MAX_ENLISTED_BYTES_OF_ALL
    stages.clear()
    # Names as Spark's sink has them: as many as a commit may name.
    _enlist(stages, 100)
    stages.clear()
    assert total.bytes == 0


def _enlist(stages: EnlistedStages, length: int) -> None:
    for number in range(MAX_ENLISTED):
        stages.add("orders", f"{number:0{length}}", 1)


def test_stages_that_are_being_committed_count_and_are_not_refused() -> None:
    refused: list[str] = []
    total = EnlistedTotal(limit=1000)
    large = EnlistedStages(total, lambda *_: refused.append("large"))
    small = EnlistedStages(total, lambda *_: refused.append("small"))
    large.add("q", "s", 1)
    large.add("q", "t", 1)
    assert [stage.stage for stage in large.commit()] == ["s", "t"]
    small.add("q", "s", 1)
    assert (refused, total.bytes) == (["small"], large.bytes)
    large.clear()
    small.add("q", "s", 1)
    assert (refused, total.bytes) == (["small"], small.bytes)
