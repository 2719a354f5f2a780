"""The clients of ``tests.fault.kill_exchanges``: who publishes, who publishes in transactions, who receives, and who receives dead letters.

They live through all lives of the broker, and write what they do and see into the `Ledger`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from actors.queue.vocabulary.deaths import QUEUE, REASON, SENT
from streams import Sink, Source
from tests.fault.exchange_ledger import LONG_SECONDS, Ledger, Letter, Sent, State, Transaction, Word
from tests.fault.exchange_places import KEYS, KINDS, PUBLIC, QUEUES, REFUSING, RETURNING, routed
from tests.fault.kill_clients import Counter
from transport import (
    Backoff,
    ConnectionLostError,
    Delivery,
    EnlistedStage,
    Message,
    MessageBatch,
    Receiver,
    Sender,
    StageClient,
    Timed,
    TransactionClient,
)
from transport.clients.sender_session import Confirmation

PATIENT = Backoff(0.02, 0.5, give_up_after=600.0)
"""On a busy machine many lives are short: a client may do nothing for a minute."""
IMPATIENT = Backoff(0.01, 0.01, give_up_after=0.0)
"""Of who asks for a commit once, and does not know then whether it happened."""
LARGEST_BATCH = 20
LARGEST_PADDING = 200
IN_FLIGHT = 100
"""Messages of a sender that are not confirmed, at most."""
TIMES = (None, None, None, 0.3, LONG_SECONDS)
"""Times to live that senders give."""
MOST_STAGES, MOST_BATCHES = 2, 3
"""Of one transaction, and of one stage."""
ABORTED, GIVEN_UP, ASKED_ONCE = 0.1, 0.2, 0.4
"""Of a transaction's ends: below the first it is aborted, below the next given up, below the next its commit is asked for once."""
REFUSED, GIVEN_BACK = 0.04, 0.08
"""Of what a receiver says: below the first that it refuses for good, below the next that it gives back."""
HOPELESS = 50
"""Each of so many messages of a sender is given back whenever it comes."""


@dataclass(slots=True)
class Moments:
    """What the clients count for who kills the broker: messages confirmed, delivered, dead letters delivered, commits asked for."""

    confirmations: Counter = field(default_factory=Counter)
    deliveries: Counter = field(default_factory=Counter)
    letters: Counter = field(default_factory=Counter)
    commits: Counter = field(default_factory=Counter)


class Writer:
    """Makes numbered messages, and enters them in the ledger.

    Attributes:
        ending: set when it is to make no more.
    """

    def __init__(self, number: int, random: Random, ledger: Ledger, moments: Moments) -> None:
        self.ending = False
        self._number = number
        self._random = random
        self._ledger = ledger
        self._moments = moments
        self._made = 0

    def _batch(
        self, exchange: str, ttl: float | None, transaction: Transaction | None
    ) -> tuple[MessageBatch, list[Sent]]:
        messages, entries = [], []
        for _ in range(self._random.randint(1, LARGEST_BATCH)):
            payload = b"%d/%d/" % (self._number, self._made) + bytes(self._random.randrange(LARGEST_PADDING))
            key = self._random.choice(KEYS if exchange else QUEUES)
            kind = self._random.choice(KINDS)
            sent = Sent(self._number, self._made, routed(exchange, key, kind), key, ttl, transaction)
            self._ledger.sent[payload] = sent
            entries.append(sent)
            messages.append(Message(payload, routing_key=key, headers={"kind": kind}))
            self._made += 1
        return MessageBatch.from_messages(messages), entries


class Publisher(Writer):
    """Publishes to one exchange with confirmations."""

    def __init__(self, number: int, exchange: str, random: Random, ledger: Ledger, moments: Moments) -> None:
        super().__init__(number, random, ledger, moments)
        self._exchange = exchange
        self._entries: list[Sent] = []

    async def run(self, address: str) -> None:
        """Until the end, when all is confirmed."""
        name = f"p{self._number}"
        sender = Sender(address, exchange=self._exchange, client_id=name, max_in_flight=IN_FLIGHT, reconnect=PATIENT)
        running = Source.queue(1).via(sender).to(Sink.foreach(self._confirm)).run()
        while not self.ending:
            ttl = self._random.choice(TIMES)
            batch, entries = self._batch(self._exchange, ttl, None)
            self._entries += entries
            await running.value.offer_wait(Timed(batch, ttl=ttl))
        running.value.complete()
        await running

    def _confirm(self, confirmation: Confirmation) -> None:
        assert confirmation.rejected is None
        for sent in self._entries[confirmation.sequence : confirmation.sequence + confirmation.count]:
            sent.confirmed = True
        self._moments.confirmations.add(confirmation.count)


class TransactionSender(Writer):
    """Publishes in transactions, each of a stage or two, to exchanges of any kind; in a thread, for these clients block."""

    def __init__(self, number: int, random: Random, ledger: Ledger, moments: Moments) -> None:
        super().__init__(number, random, ledger, moments)
        self._client: StageClient | TransactionClient | None = None

    async def run(self, address: str) -> None:
        """Until the end."""
        loop = asyncio.get_running_loop()

        def tell(counter: Counter, count: int) -> None:
            loop.call_soon_threadsafe(counter.add, count)

        try:
            version = 0
            while not self.ending:
                version += 1
                await asyncio.to_thread(self._transaction, address, version, tell)
        finally:
            # Where the run has failed, the thread is not to try for a minute.
            self.ending = True
            if self._client is not None:
                self._client.close()

    def _transaction(self, address: str, version: int, tell: Callable[[Counter, int], None]) -> None:
        transaction = Transaction(self._number, version)
        self._ledger.transactions.append(transaction)
        end = self._random.random()
        stages: list[EnlistedStage] = []
        made = self._made
        for stage in range(self._random.randint(1, MOST_STAGES)):
            stages += self._stage(address, transaction, f"s{stage}", finished=not ABORTED <= end < GIVEN_UP)
        if ABORTED <= end < GIVEN_UP:
            return
        retry = IMPATIENT if GIVEN_UP <= end < ASKED_ONCE else PATIENT
        writer = f"t{self._number}"
        with TransactionClient(address, writer=writer, version=version, retry=retry) as client:
            self._client = client
            if end < ABORTED:
                client.abort()
                transaction.state = State.ABORTED
                return
            transaction.state = State.ASKED
            tell(self._moments.commits, 1)
            try:
                published = client.commit(stages)
            except ConnectionLostError:
                if retry is PATIENT:
                    raise
                return
        staged = sum(stage.messages for stage in stages)
        if published not in (0, staged):
            self._ledger.verdict.add("half a transaction", f"a commit of {staged} messages has published {published}")
        transaction.state = State.COMMITTED
        tell(self._moments.confirmations, self._made - made)

    def _stage(self, address: str, transaction: Transaction, name: str, finished: bool) -> tuple[EnlistedStage, ...]:
        exchange = self._random.choice(PUBLIC)
        with StageClient(
            address,
            exchange=exchange,
            writer=f"t{self._number}",
            version=transaction.version,
            stage=f"{name}-{transaction.version}",
            retry=PATIENT,
        ) as client:
            self._client = client
            for _ in range(self._random.randint(1, MOST_BATCHES)):
                client.send(self._batch(exchange, None, transaction)[0])
            return client.finish_all() if finished else ()


class Taker:
    """Takes everything of a queue: acknowledges it, gives it back, or refuses it."""

    def __init__(self, queue: str, random: Random, ledger: Ledger, moments: Moments) -> None:
        self.queue = queue
        self._random = random
        self._ledger = ledger
        self._moments = moments

    async def run(self, address: str) -> None:
        """Until it is cancelled."""
        await Receiver(address, queue=self.queue, reconnect=PATIENT).to(Sink.foreach(self._take)).run()

    def _take(self, delivery: Delivery) -> None:
        payload = bytes(delivery.payload)
        arrival = self._ledger.deliver(self.queue, delivery.sequence, payload, _marked(delivery), delivery.enqueued_us)
        word = self._word(self._ledger.sent.get(payload))
        self._ledger.say(arrival, word)
        if word is Word.ACKNOWLEDGED:
            delivery.acknowledge()
        elif word is Word.GIVEN_BACK:
            delivery.reject()
        else:
            delivery.dead_letter("it is refused")
        self._moments.deliveries.add(1)

    def _word(self, sent: Sent | None) -> Word:
        if sent is None or self.queue not in (REFUSING, RETURNING):
            return Word.ACKNOWLEDGED
        chance = self._random.random()
        if self.queue == REFUSING:
            if sent.number % HOPELESS == 0:
                return Word.GIVEN_BACK
            if chance < REFUSED:
                return Word.REFUSED
        return Word.GIVEN_BACK if chance < GIVEN_BACK else Word.ACKNOWLEDGED


class LetterTaker:
    """Takes everything of a queue of dead letters, and acknowledges it."""

    def __init__(self, queue: str, ledger: Ledger, moments: Moments) -> None:
        self.queue = queue
        self._ledger = ledger
        self._moments = moments

    async def run(self, address: str) -> None:
        """Until it is cancelled."""
        await Receiver(address, queue=self.queue, reconnect=PATIENT).to(Sink.foreach(self._take)).run()

    def _take(self, delivery: Delivery) -> None:
        headers = delivery.headers
        letter = Letter(
            bytes(delivery.payload),
            str(headers.get(QUEUE)),
            str(headers.get(REASON)),
            int(str(headers.get(SENT, "0"))),
            delivery.enqueued_us,
            self._ledger.life,
        )
        self._ledger.deliver_letter(self.queue, delivery.sequence, letter, _marked(delivery))
        delivery.acknowledge()
        self._moments.letters.add(1)
        self._moments.deliveries.add(1)


def _marked(delivery: Delivery) -> bool:
    return delivery.delivery_count >= 2 or delivery.possibly_replayed
