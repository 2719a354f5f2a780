"""The door: every operation is refused without its right, and allowed with exactly it; a refusal changes nothing and tells nothing."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from actors import EnlistedStage, MessageBatch, OfferBatch, QueueError, QueueSettings, StageKey, SubscriptionOptions
from actors.limits import NO_DEADLINE
from actors.queue.directory_errors import QueueExistsError, QueueNotFoundError
from actors.queue.vocabulary.commands import Acknowledged
from actors.queue.vocabulary.replies import MessagesTaken
from actors.queue.vocabulary.takes import TakeMessages
from streams.testkit import settle
from transport import Broker, BrokerConfig
from transport.broker.broker_connection import PORTS
from transport.broker.operations import COMMANDS, OPERATIONS, Operations
from transport.errors import BackupRefusedError, ForbiddenError, InvalidNameError, NoClusterError, RemoteProtocolError
from transport.security.principal import ALL_RIGHTS, ANYONE, BROKER_RIGHTS, Grant, Grants, Principal, Right

QUEUE = "orders"
FREE_PORT = "127.0.0.1:0"
ARGUMENTS: dict[str, dict[str, Any]] = {
    "queue.create": {"name": QUEUE},
    "queue.alter": {"name": QUEUE, "max_messages": 5},
    "queue.delete": {"name": QUEUE},
    "queue.purge": {"name": QUEUE},
    "queue.move": {"from": QUEUE, "to": "other"},
    "queue.peek": {"name": QUEUE, "count": 1},
    "exchange.create": {"name": QUEUE},
    "exchange.delete": {"name": QUEUE},
    "exchange.route": {"name": "", "key": QUEUE},
    "binding.create": {"source": QUEUE, "destination": "other"},
    "binding.delete": {"source": QUEUE, "destination": "other"},
    "schedule.show": {"name": QUEUE},
    "schedule.create": {"name": QUEUE, "expression": "every 1s"},
    "schedule.delete": {"name": QUEUE},
    "schedule.pause": {"name": QUEUE},
    "schedule.resume": {"name": QUEUE},
    "cluster.add": {"name": "d", "address": "127.0.0.1:9184"},
    "cluster.remove": {"name": "d"},
    "cluster.move": {"name": "d"},
    "cluster.heal": {"name": "d"},
    "connection.close": {"user": "nobody"},
    "subscription.release": {"queue": QUEUE, "name": "s"},
    "subscription.delete": {"queue": QUEUE, "name": "s"},
    "transaction.abort": {"writer": "w", "version": 1},
    "journal.read": {"name": "newest", "offset": 0, "bytes": 1},
}


class Told:
    """A port that notes what it is told."""

    def __init__(self) -> None:
        self.replies: list[Any] = []

    def tell(self, reply: Any) -> None:
        self.replies.append(reply)

    def caught_up(self) -> None: ...

    def refused(self, code: str, text: str, close: bool) -> None:
        self.replies.append((code, text, close))

    def fetched(self, request: int, message: Any) -> None: ...

    def fetch_ended(self, request: int, messages: int) -> None: ...


def principal(rights: Right, on: str = QUEUE) -> Principal:
    """One who has these rights: of the broker, and on the queue."""
    of_broker = rights & (Right.MONITOR | Right.ADMINISTER)
    on_queue = rights & ~of_broker
    # What is moved from the queue goes to another, to which anybody here may write.
    grants = [Grant("other", Right.WRITE), *([Grant(on, on_queue)] if on_queue else [])]
    return Principal("alice", of_broker, Grants(grants))


@asynccontextmanager
async def door(*, queue: bool = True) -> AsyncIterator[Any]:
    """A broker's door, as its listeners are given it; with a queue behind it."""
    async with Broker(BrokerConfig(send_address=FREE_PORT, receive_address=FREE_PORT)) as broker:
        if queue:
            broker.queues.get_or_create(QUEUE)
        yield broker, broker._host().operations


async def attempt(operations: Operations, name: str) -> None:
    """Do what the row is for."""
    port = Told()
    if name == "sender":
        await operations.sender(QUEUE, port, None).stop(block=False)
    elif name == "receiver":
        await operations.receiver(QUEUE, port).actor.stop(block=False)
    elif name == "subscription":
        options = SubscriptionOptions("s", "own", None, "earliest", None, False, "", False)
        await operations.subscription(QUEUE, options, port).actor.stop(block=False)
    elif name == "transaction":
        operations.transaction(QUEUE, 1)
    else:
        with suppress(
            QueueError, BackupRefusedError, NoClusterError
        ):  # nothing is there to be released, aborted and so on: it was allowed to be tried
            await operations.command(name, ARGUMENTS.get(name, {}))


RIGHTS = {name: operation.right for name, operation in OPERATIONS.items() if operation.right is not None}


def test_every_role_and_every_command_has_a_row_and_every_row_is_one_of_them() -> None:
    assert set(OPERATIONS) == set(PORTS) | set(COMMANDS)
    assert not set(PORTS) & set(COMMANDS)
    assert set(RIGHTS) == set(OPERATIONS) - {"admin"}, "each command takes its own right"
    for name, operation in OPERATIONS.items():
        of_broker = operation.right in BROKER_RIGHTS or operation.right is None
        assert (operation.resource is None) == of_broker, name


@pytest.mark.parametrize("name", sorted(RIGHTS))
def test_with_exactly_its_right_an_operation_is_allowed(run: Any, name: str, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with door() as (_, operations):
            await attempt(operations(principal(RIGHTS[name])), name)

    run(main)
    assert "refused" not in caplog.text


@pytest.mark.parametrize("name", sorted(RIGHTS))
def test_with_every_right_but_its_own_it_is_refused_logged_and_changes_nothing(
    run: Any, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    right = RIGHTS[name]
    # Whoever administers sees statistics too.
    others = ALL_RIGHTS & ~(right | Right.ADMINISTER if right is Right.MONITOR else right)

    async def main() -> None:
        async with door() as (broker, operations):
            before = await operations(ANYONE).command("queue.list", {})
            with (
                caplog.at_level(logging.WARNING),
                pytest.raises(ForbiddenError, match=f"alice may not {right.name}".lower()),
            ):
                await attempt(operations(principal(others)), name)
            assert await operations(ANYONE).command("queue.list", {}) == before
            assert QUEUE in broker.queues
        (record,) = [record for record in caplog.records if "refused" in record.message]
        assert f"alice may not {str(right.name).lower()}" in record.message
        assert name in record.message

    run(main)


@pytest.mark.parametrize("name", sorted(name for name, row in OPERATIONS.items() if row.resource is not None))
def test_a_refusal_does_not_tell_whether_the_queue_is_there(run: Any, name: str) -> None:
    texts: list[str] = []

    async def main() -> None:
        for queue in (True, False):
            async with door(queue=queue) as (broker, operations):
                with pytest.raises(ForbiddenError) as caught:
                    await attempt(operations(principal(Right.NONE)), name)
                texts.append(str(caught.value))
                assert (QUEUE in broker.queues) == queue

    run(main)
    assert texts[0] == texts[1]


@pytest.mark.parametrize("name", ["sender", "receiver", "subscription"])
def test_use_of_a_queue_that_is_not_there_takes_the_right_to_make_it(run: Any, name: str) -> None:
    async def main() -> None:
        async with door(queue=False) as (broker, operations):
            with pytest.raises(ForbiddenError, match="may not configure 'orders'"):
                await attempt(operations(principal(RIGHTS[name])), name)
            assert QUEUE not in broker.queues
            await attempt(operations(principal(RIGHTS[name] | Right.CONFIGURE)), name)
            assert QUEUE in broker.queues

    run(main)


def test_a_browser_makes_no_queue(run: Any) -> None:
    async def main() -> None:
        async with door(queue=False) as (broker, operations):
            options = SubscriptionOptions("", "browse", None, "earliest", None, False, "", False)
            with pytest.raises(QueueNotFoundError):
                operations(ANYONE).subscription(QUEUE, options, Told())
            assert QUEUE not in broker.queues

    run(main)


def test_dead_letters_take_the_rights_to_read_the_queue_and_to_write_where_they_go(run: Any) -> None:
    settings = {"name": QUEUE, "max_receives": 2, "dead_letter_queue": "elsewhere"}
    own = f"{QUEUE}.dead"

    def alice(**on: Right) -> Principal:
        grants = [Grant(QUEUE, Right.CONFIGURE | on.pop("queue", Right.READ))]
        return Principal("alice", grants=Grants([*grants, *(Grant(name, right) for name, right in on.items())]))

    async def main() -> None:
        async with door(queue=False) as (broker, operations):
            for who, refusal in (
                (alice(queue=Right.CONFIGURE, elsewhere=Right.WRITE), f"may not read '{QUEUE}'"),
                (alice(elsewhere=Right.READ), "may not write 'elsewhere'"),
                (alice(elsewhere=Right.WRITE), "may not configure 'elsewhere'"),
            ):
                with pytest.raises(ForbiddenError, match=refusal):
                    await operations(who).command("queue.create", settings)
            assert QUEUE not in broker.queues
            broker.queues.get_or_create("elsewhere")
            await operations(alice(elsewhere=Right.WRITE)).command("queue.create", settings)
            assert QUEUE in broker.queues
            # Its own is a queue like any other, which somebody else may have.
            back = {"name": QUEUE, "dead_letter_queue": ""}
            with pytest.raises(ForbiddenError, match=f"may not write '{own}'"):
                await operations(alice()).command("queue.alter", back)
            may = Right.WRITE | Right.CONFIGURE
            await operations(alice(**{own: may})).command("queue.alter", back)
            with pytest.raises(ForbiddenError, match="may not write 'elsewhere'"):
                await operations(alice()).command("queue.alter", settings)
            assert broker.queues.settings_of(QUEUE).dead_letter_queue is None
            # How often a message may fail moves messages there too.
            with pytest.raises(ForbiddenError, match=f"may not write '{own}'"):
                await operations(alice()).command("queue.alter", {"name": QUEUE, "max_receives": 1})
            await operations(alice()).command("queue.alter", {"name": QUEUE, "max_messages": 7, "max_receives": 0})
            # What expires is dropped, but where a queue is named.
            await operations(alice(queue=Right.CONFIGURE)).command("queue.alter", {"name": QUEUE, "ttl_ms": 1000})
            await operations(alice(elsewhere=Right.WRITE)).command("queue.alter", settings)
            expiring = {"name": QUEUE, "ttl_ms": 1}
            with pytest.raises(ForbiddenError, match=f"may not read '{QUEUE}'"):
                await operations(alice(queue=Right.CONFIGURE)).command("queue.alter", expiring)
            with pytest.raises(ForbiddenError, match="may not write 'elsewhere'"):
                await operations(alice()).command("queue.alter", expiring)
            await operations(alice(elsewhere=Right.WRITE)).command("queue.alter", expiring)

    run(main)


def test_dead_letters_that_go_to_an_exchange_take_the_right_to_write_to_it(run: Any) -> None:
    settings = {"name": QUEUE, "max_receives": 2, "dead_letter_exchange": "lost"}

    def alice(queue: Right = Right.READ, **on: Right) -> Principal:
        grants = [Grant(QUEUE, Right.CONFIGURE | queue), *(Grant(name, right) for name, right in on.items())]
        return Principal("alice", grants=Grants(grants))

    async def main() -> None:
        async with door(queue=False) as (broker, operations):
            for who, refusal in (
                (alice(Right.CONFIGURE, lost=Right.WRITE), f"may not read '{QUEUE}'"),
                (alice(lost=Right.READ), "may not write 'lost'"),
                (alice(**{f"{QUEUE}.dead": Right.WRITE | Right.CONFIGURE}), "may not write 'lost'"),
            ):
                with pytest.raises(ForbiddenError, match=refusal):
                    await operations(who).command("queue.create", settings)
            assert QUEUE not in broker.queues
            await broker.queues.exchanges.declare("lost")
            await operations(alice(lost=Right.WRITE)).command("queue.create", settings)
            # Whatever has more of them go there, or by another key, takes it too.
            for more in ({"dead_letter_routing_key": "k"}, {"max_receives": 1}, {"ttl_ms": 5}):
                with pytest.raises(ForbiddenError, match="may not write 'lost'"):
                    await operations(alice()).command("queue.alter", {"name": QUEUE, **more})
                await operations(alice(lost=Right.WRITE)).command("queue.alter", {"name": QUEUE, **more})
            back = {"name": QUEUE, "dead_letter_exchange": "", "dead_letter_routing_key": ""}
            with pytest.raises(ForbiddenError, match=f"may not write '{QUEUE}.dead'"):
                await operations(alice()).command("queue.alter", back)
            await operations(alice(**{f"{QUEUE}.dead": Right.WRITE | Right.CONFIGURE})).command("queue.alter", back)
            with pytest.raises(ForbiddenError, match="may not write 'lost'"):
                await operations(alice()).command("queue.alter", settings)

    run(main)


def test_an_exchange_that_is_not_there_takes_the_rights_on_the_queue_that_gets_its_dead_letters(run: Any) -> None:
    settings = {"name": QUEUE, "max_receives": 2, "dead_letter_exchange": "lost"}
    own = f"{QUEUE}.dead"

    def alice(**on: Right) -> Principal:
        grants = [Grant(QUEUE, Right.CONFIGURE | Right.READ), Grant("lost", Right.WRITE)]
        return Principal("alice", grants=Grants([*grants, *(Grant(name, right) for name, right in on.items())]))

    async def main() -> None:
        async with door(queue=False) as (broker, operations):
            for who, refusal in (
                (alice(), f"may not write '{own}'"),
                (alice(**{own: Right.WRITE}), f"may not configure '{own}'"),
            ):
                with pytest.raises(ForbiddenError, match=refusal):
                    await operations(who).command("queue.create", settings)
            assert QUEUE not in broker.queues
            await operations(alice(**{own: Right.WRITE | Right.CONFIGURE})).command("queue.create", settings)
            with pytest.raises(ForbiddenError, match=f"may not write '{own}'"):
                await operations(alice()).command("queue.alter", {"name": QUEUE, "max_receives": 1})
            broker.queues.get_or_create(own)
            await operations(alice(**{own: Right.WRITE})).command("queue.alter", {"name": QUEUE, "max_receives": 1})
            await broker.queues.exchanges.declare("lost")
            await operations(alice()).command("queue.alter", {"name": QUEUE, "max_receives": 3})

    run(main)


def test_what_was_enlisted_takes_no_right_any_more_when_the_transaction_has_ended(run: Any) -> None:
    async def main() -> None:
        async with door() as (_, operations):
            names = [f"w{number}" for number in range(100)]
            door_of_alice = operations(Principal("alice", grants=Grants([Grant("w*", Right.WRITE)])))
            transaction = door_of_alice.transaction("writer", 1)
            for name in names:
                transaction.check(name)
            less = Principal("alice", grants=Grants([Grant("writer", Right.WRITE)]))
            assert not door_of_alice.renew(less)
            await transaction.abort()
            assert door_of_alice.renew(less)
            assert not door_of_alice.renew(Principal("alice"))

    run(main)


def test_a_row_is_asked_for_the_queue_that_is_named_and_for_no_other(run: Any) -> None:
    async def main() -> None:
        async with door() as (_, operations):
            with pytest.raises(ForbiddenError):
                await attempt(operations(principal(RIGHTS["receiver"], on="order")), "receiver")
            await attempt(operations(principal(RIGHTS["receiver"], on="ord*")), "receiver")

    run(main)


def test_what_is_no_command_or_no_name_is_told_so(run: Any) -> None:
    async def main() -> None:
        async with door() as (_, operations):
            for name in ("sender", "queue.lost", ""):
                with pytest.raises(
                    RemoteProtocolError, match=r"there are binding\.create, binding\.delete, .*queue\.alter"
                ):
                    await operations(ANYONE).command(name, {})
            with pytest.raises(InvalidNameError):
                operations(ANYONE).sender("a b", Told(), None)

    run(main)


def test_what_is_sent_through_the_door_comes_out_of_it(run: Any) -> None:
    async def main() -> None:
        async with door() as (_, operations):
            sending, receiving = Told(), Told()
            sender = operations(principal(Right.WRITE)).sender(QUEUE, sending, None)
            receiver = operations(principal(Right.READ)).receiver(QUEUE, receiving)
            assert receiver.visibility_timeout > 0
            assert len(receiver.id_prefix) == 8
            await settle()
            sender.deliver(OfferBatch(0, MessageBatch.from_payloads([b"one"]), None, None, sender))
            await settle()
            assert any(type(reply).__name__ == "SentMessages" for reply in sending.replies)
            for actor in (sender, receiver.actor):
                await actor.stop(block=False)

    run(main)


def test_a_receiver_without_a_deadline_takes_what_is_ready_and_is_told_at_once_when_nothing_is(run: Any) -> None:
    """What a gateway needs for one message on request: how many are left, and a lease that is its connection's."""

    async def main() -> None:
        async with door() as (broker, operations_for):
            alice: Operations = operations_for(ANYONE)
            sender = alice.sender(QUEUE, Told(), None)
            await settle()
            sender.deliver(OfferBatch(0, MessageBatch.from_payloads([b"a", b"b"]), None, None, sender))
            await settle()
            port = Told()
            receiving = alice.receiver(QUEUE, port, deadline=False)
            assert receiving.visibility_timeout == NO_DEADLINE
            for request in range(3):
                receiving.actor.deliver(TakeMessages(request, 1, 100))
            await settle()
            answers = [reply for reply in port.replies if isinstance(reply, MessagesTaken)]
            assert [(each.request, len(each.ranges), each.ready) for each in answers] == [
                (0, 1, 1),
                (1, 1, 0),
                (2, 0, 0),
            ]
            assert [bytes(part.batch.payloads[0]) for each in answers for part in each.ranges] == [b"a", b"b"]
            receiving.actor.deliver(Acknowledged(((0, 1),)))
            await receiving.actor.stop(block=False)
            await settle()
            figures = broker.queues.read(QUEUE)
            assert (figures.ready, figures.in_flight, figures.total_acknowledged) == (1, 0, 1)
            await sender.stop(block=False)

    run(main)


def test_a_queue_is_found_with_any_right_on_it_and_is_declared_with_the_right_to_configure(run: Any) -> None:
    async def main() -> None:
        async with door(queue=False) as (broker, operations_for):
            nobody, settings = operations_for(principal(Right.NONE)), QueueSettings(max_messages=None)
            for right in (Right.CONFIGURE, Right.WRITE, Right.READ):
                with pytest.raises(QueueNotFoundError, match="there is no queue 'orders'"):
                    operations_for(principal(right)).find_queue(QUEUE)
            with pytest.raises(ForbiddenError):
                nobody.find_queue(QUEUE)
            with pytest.raises(ForbiddenError):
                await operations_for(principal(Right.WRITE | Right.READ)).declare_queue(QUEUE, settings)
            assert QUEUE not in list(broker.queues)
            alice = operations_for(principal(Right.CONFIGURE))
            made = await alice.declare_queue(QUEUE, settings, b"as it came")
            assert (made.name, made.settings, made.arguments) == (QUEUE, settings, b"as it came")
            assert await alice.declare_queue(QUEUE, settings) == made == alice.find_queue(QUEUE)
            with pytest.raises(QueueExistsError, match="max_messages is none there, 5 was asked for"):
                await alice.declare_queue(QUEUE, QueueSettings(max_messages=5))
            # Where dead letters go takes the rights that it takes of queue.create.
            with pytest.raises(ForbiddenError):
                await alice.declare_queue(QUEUE, QueueSettings(ttl=0.0, dead_letter_queue="elsewhere"))

    run(main)


def test_a_stage_of_a_queue_that_may_not_be_written_to_is_refused(run: Any) -> None:
    async def main() -> None:
        async with door() as (_, operations):
            both = Grants([Grant(QUEUE, Right.WRITE), Grant("w", Right.WRITE)])
            transaction = operations(Principal("alice", grants=both)).transaction("w", 1)
            transaction.check(QUEUE)
            with pytest.raises(ForbiddenError, match="may not write 'other'"):
                transaction.check("other")
            assert transaction.last_version is None
            enlisted = transaction.enlisting(lambda code, text: None)
            enlisted.add(QUEUE, "stage", 0)
            assert list(enlisted.commit()) == [EnlistedStage(QUEUE, "stage", 0)]
            enlisted.clear()

    run(main)


@pytest.mark.parametrize("on", [QUEUE, "w"])
def test_whoever_stages_may_write_to_the_queue_and_as_the_writer(run: Any, on: str) -> None:
    # Else anybody with a queue could take another's stage over, whose name it knows.
    async def main() -> None:
        async with door() as (_, operations):
            missing = "the writer 'w'" if on == QUEUE else f"'{QUEUE}'"
            with pytest.raises(ForbiddenError, match=f"may not write {missing}"):
                operations(principal(Right.WRITE, on)).sender(QUEUE, Told(), None, StageKey("w", 1, "part"))
            both = Grants([Grant(QUEUE, Right.WRITE), Grant("w", Right.WRITE)])
            alice = operations(Principal("alice", grants=both))
            await alice.sender(QUEUE, Told(), None, StageKey("w", 1, "part")).stop(block=False)
            assert alice.renew(Principal("alice", grants=both))
            assert not alice.renew(principal(Right.WRITE))

    run(main)


def test_nobody_commits_or_discards_what_another_writer_has_staged(run: Any) -> None:
    async def main() -> None:
        async with door() as (_, operations):
            everything_else = Principal("eve", Right.MONITOR, Grants([Grant(QUEUE, Right.WRITE | Right.READ)]))
            with pytest.raises(ForbiddenError, match="may not write the writer 'w'"):
                operations(everything_else).transaction("w", 1)

    run(main)


def test_a_move_is_logged_once_however_many_commands_it_takes_and_whatever_it_says_that_it_goes_on_with(
    run: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with door() as (broker, operations):
            broker.queues.get_or_create("elsewhere")
            asker = operations(ANYONE)
            move = {"from": QUEUE, "to": "elsewhere"}
            guessed = {"after": json.dumps([broker.queues.number_of(QUEUE), broker.queues.number_of("elsewhere"), 100])}
            await asker.command("queue.move", move | guessed)
            await asker.command("queue.move", move | guessed)
            assert sum("queue.move" in each.getMessage() for each in caplog.records) == 1
            await operations(ANYONE).command("queue.move", move | guessed)
            assert sum("queue.move" in each.getMessage() for each in caplog.records) == 2

    with caplog.at_level(logging.INFO, "penstock.audit"):
        run(main)


def test_a_move_takes_the_right_to_write_where_it_goes_and_to_make_that_where_it_is_to_be_made(run: Any) -> None:
    def alice(**on: Right) -> Principal:
        grants = [Grant(QUEUE, Right.READ), *(Grant(name, right) for name, right in on.items())]
        return Principal("alice", grants=Grants(grants))

    move = {"from": QUEUE, "to": "elsewhere", "create": True}

    async def main() -> None:
        async with door() as (broker, operations):
            with pytest.raises(ForbiddenError, match="may not write 'elsewhere'"):
                await operations(alice(elsewhere=Right.READ | Right.CONFIGURE)).command("queue.move", move)
            with pytest.raises(ForbiddenError, match="may not configure 'elsewhere'"):
                await operations(alice(elsewhere=Right.WRITE)).command("queue.move", move)
            with pytest.raises(QueueNotFoundError):
                await operations(alice(elsewhere=Right.WRITE)).command("queue.move", move | {"create": False})
            assert "elsewhere" not in broker.queues
            await operations(alice(elsewhere=Right.WRITE | Right.CONFIGURE)).command("queue.move", move)
            assert "elsewhere" in broker.queues
            await operations(alice(elsewhere=Right.WRITE)).command("queue.move", move)

    run(main)
