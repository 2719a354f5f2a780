"""A receiver that has its queue bound: it gets a copy of what is published, from before its first delivery on."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest

from streams import Sink, Source
from transport import (
    Administration,
    Binding,
    BrokerError,
    LocalProtocolError,
    Message,
    OldBrokerError,
    Receiver,
    Sender,
)
from transport.errors import InvalidNameError, RemoteProtocolError
from transport.wire.messages import VERSION, Command, Deliver, Error, Hello, Request, Result, Welcome
from transport.wire.receiver_bindings import MAX_BIND_BYTES, checked_bindings, read_bindings, said_bindings


def test_each_queue_that_is_bound_so_gets_what_is_published_once_it_is_ready(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with serve() as broker:

            async def first(queue: str, *bind: Binding) -> bytes:
                receiver = Receiver(broker.receive_address, queue=queue, bind=bind)
                taking = asyncio.ensure_future(receiver.map(lambda each: each.payload).to(Sink.head()).run())
                await receiver.ready()
                return taking

            taken = [
                await first("eu", Binding("amq.topic", "eu.#")),
                await first("all", Binding("amq.topic", "#"), Binding("amq.fanout")),
                await first("x", Binding("amq.headers", arguments={"x-match": "any", "n": "1"})),
            ]
            for exchange, message in (
                ("amq.topic", Message(b"1", routing_key="eu.tea")),
                ("amq.headers", Message(b"2", headers={"n": "1"})),
            ):
                sender = Sender(broker.send_address, exchange=exchange, mandatory=True)
                await Source.single(message).to(sender).run()
            assert [await each for each in taken] == [b"1", b"1", b"2"]
            async with Administration(broker.send_address) as administration:
                assert len(await administration.bindings()) == 4, "they stay"

    run(main)


def test_a_receiver_that_comes_back_finds_what_was_published_meanwhile(run: Any, serve: Any, tmp_path: Any) -> None:
    async def main() -> None:
        async with serve(directory=str(tmp_path / "data")) as broker:

            async def take(count: int) -> list[bytes]:
                receiver = Receiver(
                    broker.receive_address, queue="audit", bind=("amq.fanout",), limit=count or None, client_id="c"
                )
                if not count:
                    running = asyncio.ensure_future(receiver.to(Sink.ignore()).run())
                    await receiver.ready()
                    running.cancel()
                    await asyncio.wait([running])
                    return []
                found = []
                async for delivery in receiver:
                    found.append(delivery.payload)
                    delivery.acknowledge()
                return found

            await take(0)
            await Source.of(b"1", b"2").to(Sender(broker.send_address, exchange="amq.fanout")).run()
            assert await take(2) == [b"1", b"2"]

    run(main)


@pytest.mark.parametrize(
    ("bind", "error", "text"),
    [
        (Binding("none"), "not-found", "there is no exchange 'none'"),
        (Binding("amq.headers", arguments={"x-match": "some"}), "protocol-error", "x-match"),
    ],
)
def test_a_binding_that_cannot_be_ends_the_receiver_with_the_reason(
    run: Any, serve: Any, bind: Binding, error: str, text: str
) -> None:
    async def main() -> None:
        async with serve() as broker:
            with pytest.raises(BrokerError, match=text) as caught:
                await Receiver(broker.receive_address, queue="q", bind=bind).to(Sink.ignore()).run()
            assert caught.value.code == error

    run(main)


def test_welcome_says_how_many_and_comes_when_they_are_there(run: Any, serve: Any, peers: Any) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened:
            peer = await opened.connect(broker.receive_address)
            bind = said_bindings([Binding("amq.topic", "a"), Binding("amq.topic", "b")])
            peer.send(Hello(VERSION, "receiver", "q", None, {"bind": bind}))
            assert (await peer.expect(Welcome)).options["bound"] == 2
            assert broker.queues.exchanges.exchanges.route("amq.topic", ("a",)) == ("q",)
            other = await opened.connect(broker.receive_address)
            other.send(Hello(VERSION, "receiver", "q", None, {}))
            assert "bound" not in (await other.expect(Welcome)).options

    run(main)


def test_a_broker_that_binds_nothing_is_too_old(run: Any, play: Any) -> None:
    def old(peer: Any) -> None:
        peer.read(Hello)
        peer.send(Welcome(1, 1, {"visibility_timeout_ms": 1000, "id_prefix": bytes(8)}))

    broker = play(old)

    async def main() -> None:
        with pytest.raises(OldBrokerError, match="binds no queues to exchanges"):
            await Receiver(broker.address, queue="q", bind=Binding("e")).to(Sink.ignore()).run()

    run(main)


def test_a_queue_of_ones_own_gets_a_copy_and_is_gone_with_its_receiver(
    run: Any, serve: Any, until: Any, tmp_path: Any
) -> None:
    async def main() -> None:
        async with (
            serve(directory=str(tmp_path / "data")) as broker,
            Administration(broker.send_address) as administration,
        ):
            receivers = [Receiver(broker.receive_address, bind=Binding("amq.fanout")) for _ in range(2)]
            taking = [asyncio.ensure_future(each.take(2).to(Sink.collect()).run()) for each in receivers]
            for each in receivers:
                await each.ready()
            await Source.of(b"1", b"2").to(Sender(broker.send_address, exchange="amq.fanout", mandatory=True)).run()
            taken = [await each for each in taking]
            assert [[delivery.payload for delivery in each] for each in taken] == [[b"1", b"2"]] * 2
            names = {each[0].queue for each in taken}
            assert len(names) == 2
            assert all(name.startswith("own.") for name in names)
            await until(lambda: not list(broker.queues))
            assert await administration.bindings() == []

    run(main)


def test_nobody_else_receives_from_a_queue_of_ones_own(run: Any, serve: Any, peers: Any) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened:
            owner = await opened.connect(broker.receive_address)
            bind = said_bindings([Binding("amq.topic", "#")])
            owner.send(Hello(VERSION, "receiver", None, None, {"own_queue": True, "bind": bind}))
            name = (await owner.expect(Welcome)).options["queue"]
            for role, options in (("receiver", {}), ("subscription", {"subscription": "s"})):
                other = await opened.connect(broker.receive_address)
                other.send(Hello(VERSION, role, name, None, options))
                refusal = await other.refusal()
                assert (refusal.code, "the own one of another receiver" in refusal.text) == ("forbidden", True)
            sender = await opened.connect(broker.send_address)
            sender.send(Hello(VERSION, "sender", name, "c", {}))
            await sender.expect(Welcome)
            async with Administration(broker.send_address) as administration:
                await administration.create_queue("everybodys")
                owned = {row["name"]: row["owned"] for row in await administration.queues()}
                assert owned == {name: True, "everybodys": False}
                queues = [row["queue"] for row in await administration.connections() if row["role"] == "receiver"]
                assert name in queues

    run(main)


def test_nobody_looks_at_moves_or_drops_what_is_in_a_queue_of_ones_own(run: Any, serve: Any, peers: Any) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened, Administration(broker.send_address) as administration:
            await administration.create_queue("mine")
            owner = await opened.connect(broker.receive_address)
            bind = said_bindings([Binding("amq.fanout")])
            owner.send(Hello(VERSION, "receiver", None, None, {"own_queue": True, "bind": bind}))
            name = (await owner.expect(Welcome)).options["queue"]
            await Source.of(b"1", b"2").to(Sender(broker.send_address, exchange="amq.fanout")).run()
            admin = await opened.open(broker.send_address, "admin", None)
            for command, arguments in (
                ("queue.peek", {"name": name, "count": 1}),
                ("queue.purge", {"name": name}),
                ("queue.move", {"from": name, "to": "mine"}),
                ("queue.alter", {"name": name, "ttl_ms": 1, "dead_letter_queue": "mine"}),
            ):
                admin.send(Command(1, command, arguments))
                refused = await admin.expect(Error)
                assert (refused.code, refused.close) == ("forbidden", False)
                assert refused.text == f"queue '{name}' is the own one of another receiver, and nobody else's"
            stored = {row["name"]: row["stored_messages"] for row in await administration.queues()}
            assert stored == {name: 2, "mine": 0}
            # To publish to it is everybody's, and so is what is moved there; and it can be deleted, which ends its receiver.
            await Source.single(b"3").to(Sender(broker.send_address, queue="mine")).run()
            admin.send(Command(1, "queue.move", {"from": "mine", "to": name}))
            await admin.expect(Result)
            owner.send(Request(10, 1000))
            assert (await owner.expect(Deliver)).batch.payloads.tolist() == [b"1", b"2"]
            assert (await owner.expect(Deliver)).batch.payloads.tolist() == [b"3"]
            await administration.delete_queue(name)
            assert (await owner.refusal()).code == "queue-deleted"

    run(main)


def test_a_receiver_that_comes_again_is_told_of_in_the_audit_log_where_something_has_changed(
    run: Any, serve: Any, peers: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="penstock.audit")

    async def main() -> None:
        async with serve() as broker, peers() as opened, Administration(broker.send_address) as administration:
            for queue in ("q", "other"):
                await administration.create_queue(queue)
            caplog.clear()

            async def come(*bindings: Binding) -> list[str]:
                peer = await opened.connect(broker.receive_address)
                peer.send(Hello(VERSION, "receiver", "q", "r", {"bind": said_bindings(bindings)}))
                assert (await peer.expect(Welcome)).options["bound"] == len(bindings)
                await peer.close()
                told = [record.message.split(", from")[0] for record in caplog.records]
                caplog.clear()
                return told

            one, two = Binding("amq.topic", "a.*"), Binding("amq.headers", "", {"x-match": "any", "n": 1})
            assert await come(one) == ["anyone: binding.create q a.* of amq.topic"]
            assert await come(one) == []
            assert await come(one, two) == ["anyone: binding.create q  of amq.headers"]
            assert await come(one, two) == []
            await administration.unbind("amq.topic", "q", "a.*")
            caplog.clear()
            assert await come(two, one) == ["anyone: binding.create q a.* of amq.topic"]
            # What is refused is told of, whatever is there.
            peer = await opened.connect(broker.receive_address)
            peer.send(Hello(VERSION, "receiver", "q", "r", {"bind": said_bindings([one, Binding("none")])}))
            assert (await peer.refusal()).code == "not-found"
            assert [record.levelname for record in caplog.records] == ["INFO", "WARNING"]

    run(main)


@pytest.mark.parametrize(
    ("queue", "options", "text"),
    [
        ("q", {"own_queue": True, "bind": '[{"exchange":"e"}]'}, "the field is nil beside the option"),
        (None, {"own_queue": True}, "nothing would come into it"),
        (None, {"own_queue": 1, "bind": '[{"exchange":"e"}]'}, "not true or false"),
    ],
)
def test_a_hello_for_a_queue_of_ones_own_that_cannot_be_is_refused(
    run: Any, serve: Any, peers: Any, queue: str | None, options: dict[str, Any], text: str
) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened:
            peer = await opened.connect(broker.receive_address)
            peer.send(Hello(VERSION, "receiver", queue, None, options))
            refusal = await peer.refusal()
            assert (refusal.code, text in refusal.text) == ("protocol-error", True)
            assert list(broker.queues) == []

    run(main)


def test_a_binding_that_fails_leaves_no_queue_of_ones_own(run: Any, serve: Any, until: Any) -> None:
    async def main() -> None:
        async with serve() as broker:
            with pytest.raises(BrokerError, match="no exchange 'none'"):
                await Receiver(broker.receive_address, bind=Binding("none")).to(Sink.ignore()).run()
            await until(lambda: not list(broker.queues))

    run(main)


@pytest.mark.parametrize(
    "said",
    [
        7,
        "",
        "[]",
        "{}",
        "[1]",
        '[{"exchange":7}]',
        '[{"key":"k"}]',
        '[{"exchange":"e","key":7}]',
        '[{"exchange":"e","arguments":[]}]',
        '[{"exchange":"e","more":1}]',
        "[" * 2000,
        json.dumps([{"exchange": "e" * MAX_BIND_BYTES}]),
    ],
)
def test_an_option_that_cannot_be_is_refused(said: Any) -> None:
    with pytest.raises(RemoteProtocolError, match="not a JSON array of objects with exchange"):
        read_bindings(Hello(VERSION, "receiver", "q", None, {"bind": said}))


@pytest.mark.parametrize(
    ("bind", "text"),
    [
        ("orders", "give a Binding"),
        ([], "give a Binding"),
        ([7], "give a Binding"),
        ([("e", "k", {}, 1)], "give a Binding"),
        (Binding("e", 7), "must be text"),  # type: ignore[arg-type]
        (Binding("e", "k" * 256), "256 bytes exceeds 255"),
        (Binding("e", "k", {"n": b"1"}), "what JSON has"),
        ([Binding("e" * 250, str(n)) for n in range(9)], f"exceed {MAX_BIND_BYTES}"),
    ],
)
def test_what_a_program_cannot_bind_is_told_at_once(bind: Any, text: str) -> None:
    with pytest.raises(LocalProtocolError, match=text):
        Receiver("127.0.0.1:1", queue="q", bind=bind)


def test_who_waits_for_a_receiver_that_cannot_be_ready_is_told_why(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with serve() as broker:
            receiver = Receiver(broker.receive_address, bind=Binding("none"))
            running = asyncio.ensure_future(receiver.to(Sink.ignore()).run())
            with pytest.raises(BrokerError, match="no exchange 'none'"):
                await receiver.ready()
            with pytest.raises(BrokerError, match="no exchange 'none'"):
                await running

    run(main)


def test_a_queue_of_ones_own_takes_bindings() -> None:
    with pytest.raises(LocalProtocolError, match="give a queue, or bind"):
        Receiver("127.0.0.1:1")


def test_a_binding_is_given_as_one_or_as_several_and_said_as_it_is_read() -> None:
    one = Binding("e", "k", {"n": 1})
    for bind in (one, [one], ("e", "k", {"n": 1}), [("e", "k", {"n": 1})]):
        assert checked_bindings(bind) == (one,)
    assert read_bindings(Hello(VERSION, "receiver", "q", None, {"bind": said_bindings([one])})) == (one,)
    with pytest.raises(InvalidNameError):
        checked_bindings(Binding("a b"))
