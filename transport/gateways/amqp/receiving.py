"""What one channel receives: its consumers, what they were delivered, and what becomes of that (AMQP 0-9-1, class basic).

A tag that is settled is a message that a queue gave a consumer: acknowledgements become ranges of the queue's own
numbers. Texts of errors are RabbitMQ's.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Final

from actors.queue.vocabulary.takes import TakeMessages
from transport.gateways.amqp import basic_methods as basic
from transport.gateways.amqp.carried_properties import delivered_properties
from transport.gateways.amqp.consuming import DELETED, TOLD, Consumer, Outcome, Ranges, ranges_of
from transport.gateways.amqp.delivered import exchange_of, keys_of, split
from transport.gateways.amqp.deliveries import Deliveries, Held
from transport.gateways.amqp.departures import Departing, Withdrawing, drop_unused
from transport.gateways.amqp.direct_reply import REPLY_TO, is_place
from transport.gateways.amqp.errors import AmqpError
from transport.gateways.amqp.refusals import of_channel
from transport.gateways.amqp.reply_codes import ReplyCode
from transport.gateways.amqp.writing import Deliveries as DeliveryWriter
from transport.gateways.amqp.writing import content_frames

if TYPE_CHECKING:
    from actors.queue.vocabulary.replies import MessagesTaken, ReceivedMessages
    from transport.gateways.amqp.channel_port import ChannelPort
    from transport.gateways.amqp.events import Settled
    from transport.wire.receiving import Part

MOST_CONSUMERS: Final = 4_096
"""Of one channel: each has an actor."""
MOST_GETTERS: Final = 64
"""Queues of which one channel may hold what it has asked for by ``basic.get``: each has an actor."""
JOINED_BYTES: Final = 256 << 10
"""Messages of no more bytes together are written as one piece."""


class Receiving:
    """One channel's.

    Args:
        channel: whose it is.

    Attributes:
        departing: those that leave, since the channel has ended.
    """

    def __init__(self, channel: ChannelPort) -> None:
        self._channel = channel
        self._consumers: dict[str, Consumer] = {}
        self._writers: dict[Consumer, DeliveryWriter] = {}
        self._held: Deliveries[Consumer] = Deliveries()
        # The same for what was asked for: a receiver without demand for each queue.
        self._getters: dict[str, Consumer] = {}
        self._asked: basic.BasicGet | None = None
        self._asks_of: Consumer | None = None
        # Gone, and some of what they were delivered is not settled.
        self._lingering: set[Consumer] = set()
        # Messages that each consumer may hold, and all of them; 0 for any number. What is above the second waits here, and is no more than
        # each of them may hold.
        self._prefetch = self._most = 0
        self._kept: deque[tuple[Consumer, ReceivedMessages]] = deque()
        self.departing: Departing | None = None

    @property
    def held(self) -> int:
        """Messages that the client has and has not settled."""
        return self._held.count

    @property
    def _consumed(self) -> int:
        """Messages of those that its consumers were delivered: what was asked for by ``basic.get`` is no matter of prefetch."""
        return self._held.count - sum(self._held.held_by(each) for each in self._getters.values())

    @property
    def demand(self) -> int:
        """Messages that its consumers may still get, of those that have a limit."""
        return sum(
            max(0, each.prefetch - self._held.held_by(each)) for each in self._consumers.values() if each.prefetch
        )

    @property
    def asks(self) -> bool:
        """Whether a ``basic.get`` is not answered; what the client says behind it waits for that."""
        return self._asked is not None

    @property
    def consumers(self) -> int:
        """How many it has."""
        return len(self._consumers)

    @property
    def prefetch(self) -> int | None:
        """Messages that its consumers may hold together; None where one of them may hold any number."""
        limits = [each.prefetch for each in self._consumers.values() if not each.no_ack]
        if 0 in limits:
            return None
        return min(sum(limits), self._most) if self._most else sum(limits)

    def writable_changed(self, writable: bool) -> None:
        """The socket takes more, or not."""
        for consumer in self._consumers.values():
            consumer.writable(writable)

    def stop(self) -> None:
        """Deliver nothing more; the client may still settle what it has."""
        self._channel.link.departures.put(Withdrawing([each for each in self._consumers.values() if not each.ended]))

    def end(self) -> Departing:
        """What the client holds goes back to its queues, of very many consumers in turns to come; returns those that leave."""
        if self.departing is None:
            channel, kept = self._channel, list(self._kept)
            consumers, others = list(self._consumers.values()), [*self._getters.values(), *self._lingering]
            self._asks_of, self._held = None, Deliveries()  # they know this: without a cycle all are free at once
            for each in (self._consumers, self._getters, self._lingering, self._writers, self._kept):
                each.clear()
            self.departing = Departing(channel.link, channel.names, consumers, others, kept)
            self.departing.begin()
        return self.departing

    # Methods.

    def qos(self, method: basic.BasicQos) -> None:
        """How many messages each consumer may hold, those that there are and those to come; ``global``, how many all of them together.

        RabbitMQ has ``global=false`` mean those to come alone. The specification means all of the channel, and clients that do not know
        this broker for RabbitMQ count on that.
        """
        if method.prefetch_size:
            raise AmqpError(ReplyCode.NOT_IMPLEMENTED, f"prefetch_size!=0 ({method.prefetch_size})")
        if method.global_:
            self._most = method.prefetch_count
        else:
            self._prefetch, self._most = method.prefetch_count, 0
        for consumer in self._consumers.values():
            consumer.limit(self._limit())
        self._channel.say(basic.BasicQosOk())
        self._hand_over()

    def _limit(self) -> int:
        """What one consumer may hold: as much as it may itself, and no more than all of them; 0 for any number."""
        return min(filter(None, (self._prefetch, self._most)), default=0)

    def consume(self, method: basic.BasicConsume) -> None:
        """Begin to consume; what is delivered comes behind the answer."""
        tag = method.consumer_tag or f"amq.ctag-{token_urlsafe(16)}"
        if method.consumer_tag in self._consumers:
            raise AmqpError(ReplyCode.NOT_ALLOWED, f"attempt to reuse consumer tag '{method.consumer_tag}'")
        if len(self._consumers) >= MOST_CONSUMERS:
            raise AmqpError(ReplyCode.NOT_ALLOWED, f"reached maximum ({MOST_CONSUMERS}) of consumers per channel")
        queue = self._channel.queue_named(method.queue)
        if queue == REPLY_TO:
            queue = self._channel.direct_reply.begin(no_ack=method.no_ack)
        elif is_place(queue):
            raise self._channel.direct_reply.not_consumed(queue, self._channel.names.queue_text(queue))
        link, prefetch = self._channel.link, self._limit()
        consumer = Consumer(
            self, tag, queue, no_ack=method.no_ack, prefetch=prefetch, window=link.window(), pace=link.pace
        )
        self._let_in(consumer, method)
        self._consumers[tag] = consumer
        link.claims.come(self._channel.names.queue(queue), consumer, exclusive=method.exclusive)
        self._writers[consumer] = DeliveryWriter(self._channel.number, tag, link.frame_max)
        self._channel.answer(method.nowait, basic.BasicConsumeOk(consumer_tag=tag))
        consumer.begin_demand()
        self._channel.waiting_changed()

    def cancel(self, method: basic.BasicCancel) -> None:
        """Consume no more. What it holds the client may still settle."""
        consumer = self._consumers.pop(method.consumer_tag, None)
        if consumer is not None:
            self._stop(consumer)
        self._channel.answer(method.nowait, basic.BasicCancelOk(consumer_tag=method.consumer_tag))
        if consumer is not None:
            self._consumes_no_more(consumer)
            self._channel.waiting_changed()

    def cancel_answered(self, _: basic.BasicCancelOk) -> None:
        """The client has heard that a consumer is gone."""

    def get(self, method: basic.BasicGet) -> None:
        """Ask for a message that is there now."""
        queue = self._channel.queue_named(method.queue)
        if is_place(queue):
            text = f"basic.get not supported by volatile {self._channel.names.queue_text(queue)}"
            raise AmqpError(ReplyCode.NOT_IMPLEMENTED, text)
        self._channel.check_there(queue)
        getter = self._getters.pop(queue, None)
        if getter is None:
            if len(self._getters) >= MOST_GETTERS:
                self._give_way()
            getter = Consumer(self, "", queue, no_ack=False, prefetch=0, window=0, pace=self._channel.link.pace)
            self._begin(getter)
            self._channel.link.claims.getter_comes(self._channel.names.queue(queue))
        self._getters[queue] = getter
        self._asked, self._asks_of = method, getter
        getter.take(TakeMessages(1, 1, 1))

    def recover(self, method: basic.BasicRecover) -> None:
        """Give back all that is not settled, and say so."""
        self._recover(method.requeue)
        self._channel.say(basic.BasicRecoverOk())

    def recover_async(self, method: basic.BasicRecoverAsync) -> None:
        """The same, and nobody waits for an answer."""
        self._recover(method.requeue)

    def settled(self, event: Settled) -> None:
        """Deliveries are acknowledged, rejected for good, or given back.

        Raises:
            AmqpError: PRECONDITION_FAILED: a tag that is not there. Those before it are settled.
        """
        outcome = Outcome.ACKNOWLEDGED
        if event.method != basic.BasicAck.INDEX:
            outcome = Outcome.RETURNED if event.requeue else Outcome.REFUSED
        transacting = self._channel.transacting
        take = self._held.settle if transacting is None else self._held.withhold
        found: list[Held[Consumer]] = []
        try:
            if event.multiple or transacting is not None:
                for tag in event.tags:
                    found += take(tag, multiple=event.multiple)
            else:
                for row in self._held.settle_each(event.tags):
                    found += row
        finally:
            if transacting is None:
                self._settle(found, TOLD[outcome])
            else:
                transacting.settled(outcome, found)

    def withheld_settled(self, taken: Sequence[Held[Consumer]]) -> None:
        """What a transaction has withheld is settled, and the queues know."""
        self._held.settle_withheld(taken)
        messages: Counter[Consumer] = Counter()
        for each in taken:
            messages[each.holder] += each.messages
        for holder, count in messages.items():
            self._holds_less(holder, count)
        self._hand_over()

    def withheld_put_back(self, taken: Sequence[Held[Consumer]]) -> None:
        """What a transaction has withheld is to be settled, as it was."""
        self._held.put_back(taken)

    # Told by consumers

    def delivered(self, consumer: Consumer, messages: ReceivedMessages) -> None:
        """As `consuming.Host.delivered`."""
        writer = self._writers.get(consumer)
        if writer is None:
            # It was cancelled while these were on their way, or is yet to leave.
            if self.departing is None:
                consumer.give_back(((messages.first, len(messages.batch)),), failed=False)
            else:
                self.departing.came(consumer, messages)
            return
        if self._most and not consumer.no_ack:
            self._kept.append((consumer, messages))
            self._hand_over()
        else:
            self._deliver(writer, consumer, messages)

    def _hand_over(self) -> None:
        """Deliver what waited, as far as all consumers together may hold it."""
        while self._kept:
            consumer, messages = self._kept[0]
            room = self._most - self._consumed if self._most else len(messages.batch)
            if room <= 0:
                return
            now, later = split(messages, room)
            if later is None:
                self._kept.popleft()
            else:
                self._kept[0] = consumer, later
            self._deliver(self._writers[consumer], consumer, now)

    def _deliver(self, writer: DeliveryWriter, consumer: Consumer, messages: ReceivedMessages) -> None:
        channel, batch = self._channel, messages.batch
        count, payloads = batch.count, batch.payloads
        tag = self._held.pass_by(count) if consumer.no_ack else self._held.add(consumer, messages.first, count)
        parts: list[Part] = []
        redelivered = messages.delivery_count > 1 or messages.possibly_replayed
        properties = delivered_properties(messages, channel.names.shown_name)
        # What is alone is written from where it is: it may be large.
        bodies: Sequence[Part] = [payloads.data] if count == 1 else payloads.tolist()
        names, at = channel.names, 0
        exchange = exchange_of(messages, names)
        for key, messages_of_it in keys_of(messages, consumer.queue, names):
            stop = at + messages_of_it
            writer.put(parts, tag + at, redelivered, exchange, key, properties[at:stop], bodies[at:stop])
            at = stop
        size = payloads.nbytes
        channel.link.write([b"".join(parts)] if size <= JOINED_BYTES else parts, size)
        consumer.written(batch.nbytes)
        if consumer.no_ack:
            consumer.acknowledge(((messages.first, count),))

    def taken(self, getter: Consumer, answer: MessagesTaken) -> None:
        """As `consuming.Host.taken`."""
        asked, self._asked = self._asked, None
        if self.departing is not None:
            self.departing.came(getter, *answer.ranges)
            return
        assert asked is not None, "what is answered was asked"
        if answer.ranges:
            self._got(getter, answer, asked)
        else:
            self._channel.say(basic.BasicGetEmpty())
        self._channel.go_on()

    def _got(self, getter: Consumer, answer: MessagesTaken, asked: basic.BasicGet) -> None:
        (messages,) = answer.ranges
        tag = self._held.pass_by(1) if asked.no_ack else self._held.add(getter, messages.first, 1)
        said = basic.BasicGetOk(
            delivery_tag=tag,
            redelivered=messages.delivery_count > 1 or messages.possibly_replayed,
            exchange=exchange_of(messages, self._channel.names),
            routing_key=keys_of(messages, getter.queue, self._channel.names)[0][0],
            message_count=answer.ready,
        )
        (properties,) = delivered_properties(messages, self._channel.names.shown_name)
        body = messages.batch.payloads.data
        parts = content_frames(self._channel.number, said, properties, body, self._channel.link.frame_max)
        self._channel.link.write(parts, len(body))
        if asked.no_ack:
            getter.acknowledge(((messages.first, 1),))

    def consumer_refused(self, consumer: Consumer, code: str, text: str) -> None:
        """As `consuming.Host.consumer_refused`: a queue that is deleted cancels its consumers."""
        if self._getters.get(consumer.queue) is consumer:
            del self._getters[consumer.queue]
            self._channel.link.claims.getter_leaves(self._channel.names.queue(consumer.queue))
        known = self._consumers.get(consumer.tag) is consumer
        if known:
            del self._consumers[consumer.tag]
        self._leave(consumer)
        if known:
            self._consumes_no_more(consumer)
            self._channel.waiting_changed()
        if code != DELETED:
            text = self._channel.names.shown(text)
            self._channel.fail(of_channel(code, text, basic.BasicConsume.INDEX, self._channel.number))
        elif known:
            self._channel.cancelled(consumer.tag)
        self._unanswered(consumer)

    def lingers(self, consumer: Consumer) -> bool:
        """As `consuming.Host.lingers`."""
        return consumer in self._lingering

    # Inside

    def _let_in(self, consumer: Consumer, asked: basic.BasicConsume) -> None:
        """Attach a consumer. Where it may not be, the place of direct replies goes that was made for it."""
        try:
            consumer.number, consumer.priority = self._channel.check_consumed(consumer.queue, asked)
            self._begin(consumer)
        except Exception:
            if is_place(consumer.queue):
                self._channel.direct_reply.left(consumer.queue)
                drop_unused(self._channel.link, self._channel.names.queue(consumer.queue), consumer.number)
            raise

    def _begin(self, consumer: Consumer) -> None:
        name = self._channel.names.queue(consumer.queue)
        self._channel.link.receivers.come(name, consumer.attach(self._channel.link.operations, name))

    def _stop(self, consumer: Consumer) -> None:
        """Nothing more comes for it. Its actor stays as long as the client holds something of it."""
        del self._writers[consumer]
        consumer.demand_no_more()
        for messages in self._taken_out(consumer):
            consumer.give_back(((messages.first, len(messages.batch)),), failed=False)
        if self._held.held_by(consumer):
            self._lingering.add(consumer)
            self._channel.link.claims.getter_comes(self._channel.names.queue(consumer.queue))
        else:
            self._leave(consumer)

    def _leave(self, consumer: Consumer) -> None:
        self._channel.link.receivers.go(self._channel.names.queue(consumer.queue), consumer.actor)
        consumer.leave()
        self._forget(consumer)

    def _taken_out(self, consumer: Consumer) -> list[ReceivedMessages]:
        """What waited of a consumer, and waits no more."""
        found = [messages for each, messages in self._kept if each is consumer] + consumer.taken_back()
        self._kept = deque(item for item in self._kept if item[0] is not consumer)
        return found

    def _forget(self, consumer: Consumer) -> None:
        self._taken_out(consumer)
        self._writers.pop(consumer, None)
        if consumer in self._lingering:
            self._lingering.remove(consumer)
            self._channel.link.claims.getter_leaves(self._channel.names.queue(consumer.queue))

    def _consumes_no_more(self, consumer: Consumer) -> None:
        """Others may have its queue for themselves; a queue that goes with its last consumer goes."""
        self._channel.direct_reply.left(consumer.queue)
        queue = self._channel.names.queue(consumer.queue)
        if self._channel.link.claims.leave(queue, consumer):
            drop_unused(self._channel.link, queue, consumer.number)

    def _give_way(self) -> None:
        """Have room for one more queue: what was asked for least lately, and nothing is held of."""
        for queue, getter in self._getters.items():
            if not self._held.held_by(getter):
                del self._getters[queue]
                self._channel.link.claims.getter_leaves(self._channel.names.queue(queue))
                self._leave(getter)
                return
        raise AmqpError(
            ReplyCode.RESOURCE_ERROR,
            f"messages of {MOST_GETTERS} queues are held that basic.get has given: acknowledge some",
        )

    def _recover(self, requeue: bool) -> None:
        if not requeue:
            raise AmqpError(ReplyCode.NOT_IMPLEMENTED, "requeue=false")
        self._settle(self._held.settle(0, multiple=True), TOLD[Outcome.RETURNED])

    def _settle(self, found: list[Held[Consumer]], how: Callable[[Consumer, Ranges, int], int]) -> None:
        """Tell each queue, in ranges, and have each consumer demand as much again."""
        by_holder: dict[Consumer, list[tuple[int, int]]] = {}
        for holder, first, count, _ in found:
            by_holder.setdefault(holder, []).append((first, count))
        for holder, pairs in by_holder.items():
            messages = pairs[0][1] if len(pairs) == 1 else sum(count for _, count in pairs)
            self._holds_less(holder, messages - how(holder, ranges_of(sorted(pairs)), messages))
        self._hand_over()

    def _holds_less(self, holder: Consumer, messages: int) -> None:
        holder.settled(messages)
        if holder in self._lingering and not self._held.held_by(holder):
            # It was cancelled, and this was the last of what it held.
            self._leave(holder)

    def _unanswered(self, getter: Consumer) -> None:
        """A queue that is gone has nothing."""
        if self._asked is not None and getter is self._asks_of:
            self._asked = None
            self._channel.say(basic.BasicGetEmpty())
            self._channel.go_on()
