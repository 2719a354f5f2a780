"""Publishing to exchanges: what comes in one turn is routed, put together by its queues, stored, and confirmed.

All of a group is one record, which gives it to all of its queues. A batch whose messages go to different queues is confirmed
when the last of them is durable. What a queue rejects the others have all the same: its sender is told, and may send it again.

A batch may be worth a record for each of its messages, and a key may have to look at many patterns. So a turn of the loop ends after some
milliseconds, and goes on in the next one. What comes meanwhile waits, and is stored together.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from actors.errors import InvalidRequestError, QueueError, StorageError
from actors.queue.exchange_counts import ExchangeCounts
from actors.queue.exchange_offers import Line, Offered, Tally
from actors.queue.exchange_routing import Routing
from actors.queue.exchange_storing import Storing, is_stored
from actors.queue.state.known_numbers import Known
from actors.queue.state.newest import OF_CLIENT, TakenOverError, check_newest
from actors.queue.state.routed import grouping, ways_of
from actors.queue.vocabulary.distributed import StageTallied

if TYPE_CHECKING:
    from actors.exchanges.exchanges import Exchanges
    from actors.queue.distribution import Distributor
    from actors.queue.exchange_port import Publisher
    from actors.queue.routed_stages import RoutedStages, StageSender
    from actors.queue.state.log import QueueLog
    from actors.queue.state.routed import Group
    from actors.queue.state.senders import Producer
    from actors.queue.vocabulary.distributed import OfferThere
    from actors.queue.vocabulary.stages import StageKey
    from actors.runtime.loop_ref import LoopActorRef
    from actors.storage import Storage


logger = logging.getLogger("penstock.queue")

TURN_SECONDS: Final = 0.005
"""For which routing and storing go on at a time: as long as a turn of the loop may be. One step, a route or a record, is always made."""


class Queues(Protocol):
    """What it asks of the broker's queues; see ``QueueDirectory``."""

    def __contains__(self, name: str) -> bool:
        """Whether there is a queue of this name."""

    def get(self, name: str) -> LoopActorRef[Any]:
        """A queue that there is."""

    def logs(self) -> dict[str, QueueLog]:
        """The durable part of each queue, by name."""


class _Answer:
    """What a sender is told in its turn among the confirmations, when an event is durable."""

    __slots__ = ("event", "tell")

    def __init__(self, event: int, tell: Callable[[], None]) -> None:
        self.event = event
        self.tell = tell


class _Round(NamedTuple):
    """What is stored together.

    Attributes:
        items: in order, of each sender in that in which they came.
        steps: store it, record by record.
        alone: whether it is one record for which somebody waits.
    """

    items: list[Offered | Tally]
    steps: Iterator[None]
    alone: bool


class ExchangePublishing:
    """Lives on the broker's loop; it is no actor, like the ``ExchangeDirectory`` that has it.

    Args:
        exchanges: routes by them.
        queues: the broker's.
        distributor: stores.
        storage: where what is stored becomes durable; None for queues in memory.
        stages: those that are written through exchanges.

    Attributes:
        counts: what has come to each exchange.
        clock: seconds, by which a turn ends; the loop's time where it is None.
    """

    def __init__(
        self,
        exchanges: Exchanges,
        queues: Queues,
        distributor: Distributor,
        storage: Storage | None,
        stages: RoutedStages,
    ) -> None:
        self._exchanges = exchanges
        self._queues = queues
        self._distributor = distributor
        self._storage = storage
        self._stages = stages
        self._storing = Storing(distributor, stages)
        self.clock: Callable[[], float] | None = None
        self._line = Line()
        self._round: _Round | None = None
        self._planned = False
        self._confirming: deque[Offered | _Answer] = deque()
        self._known: dict[Publisher, Known] = {}
        self._by_name: dict[tuple[str, str], Publisher] = {}
        # In the order in which they came: what they are told does not depend on where they lie in memory.
        self._senders: dict[Publisher, None] = {}
        # Those who have not looked since definitions changed.
        self._to_look: dict[Publisher, None] = {}
        self._looks = False
        self.counts = ExchangeCounts(lambda name: exchanges.get(name) is not None)
        self._routing = Routing(exchanges, self.counts, distributor.level)

    # Senders.

    @property
    def generation(self) -> int:
        """Another number when messages may go elsewhere."""
        return self._exchanges.generation

    def queue(self, name: str) -> LoopActorRef[Any] | None:
        """A queue; None where there is none of this name."""
        return self._queues.get(name) if name in self._queues else None

    def targets(self, exchange: str, routing_key: str | None) -> Iterable[str]:
        """The queues that a message may go to which is published there.

        Raises:
            ExchangeError: there is no such exchange, or none that takes messages from outside.
        """
        reached = self._exchanges.reached(exchange)
        if routing_key is not None and not reached.by_headers:
            return self._exchanges.route(exchange, (routing_key,))
        self._exchanges.check(exchange)
        return reached.queues

    def begin(self, sender: Publisher) -> int | None:
        """A sender with a name is there: an older one of the name ends, and what the queues know of it is looked up.

        Returns:
            the number behind the last message that any queue has of it; None where none has one.
        """
        name = sender.producer
        if sender.stage is not None:
            self._begin_stage(sender, sender.stage)
            return None
        older = None if name is None else self._by_name.get((sender.exchange, name))
        check_newest(older, sender, OF_CLIENT)
        self._senders[sender] = None
        if name is None:
            return None
        self._by_name[sender.exchange, name] = sender
        if older is not None:
            older.end(TakenOverError.code, OF_CLIENT)
            _give_up(older)
        found = [(queue, log.last_number(name), log.added_by) for queue, log in self._queues.logs().items()]
        known = {queue: number for queue, number, _ in found if number is not None}
        if not known:
            return None
        event = max(event for _, number, event in found if number is not None)
        below = max(known.values())
        self._known[sender] = Known(known, below, event)
        return below

    def _begin_stage(self, sender: Publisher, key: StageKey) -> None:
        older = self._stages.supersede(key, sender)
        self._senders[sender] = None
        if older is not None:
            _give_up(older)
        begun = self._stages.begin(key, sender)
        if begun.last_number or begun.by_queue:
            least = begun.last_number or 0
            self._known[sender] = Known(begun.by_queue, max(least, *begun.by_queue.values(), 0), begun.event, least)
        if self._storage is None or begun.event <= self._storage.durable:
            # It has nothing to wait its turn for.
            sender.attached(begun.last_number, begun.committed)
        else:
            self._answer(begun.event, partial(sender.attached, begun.last_number, begun.committed))

    def leave(self, sender: Publisher) -> None:
        """A sender is gone. What it has offered is stored all the same, unless it waits for room, or may come again and send that again."""
        self._senders.pop(sender, None)
        self._to_look.pop(sender, None)
        if sender.stage is not None or sender.producer is not None or sender.awaits_room:
            _give_up(sender)
            self.room_made(sender)
        if sender.stage is not None:
            self._stages.leave(sender.stage, sender)
        self._known.pop(sender, None)
        name = (sender.exchange, sender.producer or "")
        if self._by_name.get(name) is sender:
            del self._by_name[name]

    def changed(self) -> None:
        """Messages may go elsewhere: senders look again in the loop's next turn, those too that wait for a queue that is theirs no more."""
        self._to_look |= self._senders
        self._plan_looks()

    def _plan_looks(self) -> None:
        if not self._looks:
            self._looks = True
            asyncio.get_running_loop().call_soon(self._look_again)

    def _look_again(self) -> None:
        """Have senders look, for as long as a turn may take: each looks at all of its queues, which may be very many."""
        self._looks = False
        time_is_up = self._turn_ends()
        while self._to_look:
            sender = next(iter(self._to_look))
            del self._to_look[sender]
            sender.look_again()
            if time_is_up():
                break
        if self._to_look:
            self._plan_looks()

    def offer(self, sender: Publisher, offer: OfferThere) -> None:
        """Have a batch stored with all that comes in the same turn of the loop."""
        self._line.put(Offered(sender, offer))
        self._plan()

    def room_made(self, sender: Publisher) -> None:
        """The queues that had no room for what a sender has offered have some, or it waits for them no more."""
        self._line.release(sender)
        if self._line:
            self._plan()

    def tally(self, sender: Publisher, request: int) -> None:
        """Tell the sender of a stage how many messages of it each queue holds, behind the confirmations of all that it has offered.

        Raises:
            InvalidRequestError: it stages nothing.
        """
        if sender.stage is None:
            raise InvalidRequestError("nothing is staged on this connection: there is no stage to tally")
        self._line.put(Tally(sender, request))
        self._plan()

    def _tallied(self, asked: Tally) -> None:
        sender, key = asked.sender, asked.sender.stage
        assert key is not None, "it was looked at"
        if sender.failed is not None:
            return
        try:
            found, event = self._stages.tally(key)
        except QueueError as error:
            sender.failed = error.with_traceback(None)
            self._answer(self._stages.committed_by, partial(sender.end, error.code, str(error)))
        else:
            self._answer(event, partial(sender.tell, StageTallied(asked.request, found)))

    def _answer(self, event: int, tell: Callable[[], None]) -> None:
        self._confirming.append(_Answer(event, tell))
        self._confirm()

    # A turn.

    def _plan(self) -> None:
        if not self._planned:
            self._planned = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn_ends(self) -> Callable[[], bool]:
        """What says whether the time is up for which a turn goes on, as of now."""
        clock = self.clock or asyncio.get_running_loop().time
        until = clock() + TURN_SECONDS
        return lambda: clock() >= until

    def _turn(self) -> None:
        """Route and store what was offered, for as long as a turn may take."""
        self._planned = False
        time_is_up = self._turn_ends()
        try:
            if self._round is None:
                self._round = self._next_round(time_is_up)
            if self._stored(self._round, time_is_up):
                items, self._round = self._round.items, None
                self._settle(items)
        except StorageError:
            # The broker has been told, and is about to end: nothing of all this is confirmed.
            self._round = None
            self._line.clear()
        if self._round is not None or self._line:
            self._plan()

    def _next_round(self, time_is_up: Callable[[], bool]) -> _Round:
        """Route what waits, and put together what is stored next."""
        items = self._line.take(lambda offered, first: self._is_routed(offered, first, time_is_up), time_is_up)
        offered = [each for each in items if isinstance(each, Offered)]
        # What is behind a rejection is looked at here, in the order in which it came.
        batches = [each for each in offered if is_stored(each)]
        for each in offered:
            if not each.failed:
                self._routing.count(each)
        routed = [part for each in batches for part in each.parts]
        if len(routed) == 1 and routed[0].stage is None and not self._distributor.rejects(routed[0].queues):
            # What nearly every batch is that comes alone.
            return _Round(items, self._storing.store_alone(routed), self._distributor.waits(routed[0].queues))
        # Where a queue may reject, each batch is judged whole before anything of it is stored, and what comes behind it after that.
        ways = ways_of(part for part in routed if part.stage is None)
        if any(map(self._distributor.rejects, ways)):
            return _Round(items, self._storing.store_judged(routed), alone=False)
        came: dict[Producer, int] = {}
        for each in batches:
            if each.sender.stage is not None:
                came[each.sender] = max(came.get(each.sender, 0), each.up_to)
        groups: list[Group] = []
        steps = grouping(routed, groups, self._distributor.keeps_apart)
        alone = not any(time_is_up() for _ in steps) and len(groups) == 1
        alone = alone and self._distributor.waits(groups[0].queues) and not groups[0].passing
        return _Round(items, self._storing.store_all(steps, groups, came), alone)

    def _is_routed(self, offered: Offered, first: bool, time_is_up: Callable[[], bool]) -> bool:
        """Find where a batch goes; False where that takes longer than there is time, or a queue has no room for it yet.

        One that cannot be published ends its sender when what that has sent before is stored: when it is the ``first`` of a round.
        """
        sender = offered.sender
        try:
            if sender.failed is None and offered.steps is None:
                offered.steps = self._routing.begin(offered, self._known_of(offered))
            if sender.failed is None and offered.steps is not None:
                for _ in offered.steps:
                    if time_is_up():
                        return False
        except QueueError as error:
            if not first:
                offered.begin_anew()
                return False
            sender.failed = error.with_traceback(None)
        except Exception:
            # A defect of ours ends this sender, and takes nothing of what others have offered with it.
            logger.exception("a batch to exchange %s cannot be routed", sender.exchange)
            sender.failed = QueueError("what was sent could not be routed; the broker's log has the reason")
        if sender.failed is not None or sender.has_room(offered.parts, keyed=offered.offer.batch.keys is not None):
            return True
        sender.waits_from(offered.offer.sequence)
        # By the time that there is room it may go elsewhere.
        offered.begin_anew()
        return False

    def _stored(self, these: _Round, time_is_up: Callable[[], bool]) -> bool:
        """Store a round; False where some of it is left, as there is no time for more."""
        alone = these.alone and self._storage is not None and self._storage.begin_alone(1)
        try:
            return not any(time_is_up() for _ in these.steps)
        except StorageError:
            raise
        except Exception:
            # A defect of ours. What of all this is stored nobody can say, so nothing of it is confirmed.
            logger.exception("what was published to exchanges cannot be stored")
            for each in these.items:
                if each.sender.failed is None:
                    each.sender.failed = QueueError(
                        "what was sent could not be stored; the broker's log has the reason"
                    )
                if isinstance(each, Offered):
                    each.failed = True
            return True
        finally:
            if alone and self._storage is not None:
                self._storage.end_alone()

    def _settle(self, items: list[Offered | Tally]) -> None:
        """A round is stored."""
        for each in items:
            if isinstance(each, Tally):
                self._tallied(each)
                continue
            if not each.parts and each.rejected is None and not each.failed:
                # It goes nowhere, and is rejected all the same behind what is.
                each.rejected = each.sender.rejects(each.offer.sequence)
            each.sender.settled(each.offer.batch, each.records, rejected=each.rejected is not None)
            # Each part knows the batch: without a cycle it is free when it is confirmed.
            each.parts.clear()
            if each.sender.stage is not None and each.sender.failed is None:
                self._stages.came(each.sender.stage, each.up_to)
            each.sender.answers += 1
            if each.sender.answers == 1 and (self._storage is None or each.event <= self._storage.durable):
                # It waits for nothing: neither for the disk, nor for those that others wait for.
                self._tell(each)
            else:
                self._confirming.append(each)
        self._confirm()

    def _known_of(self, offered: Offered) -> Known | None:
        """What the queues know of its sender, as long as that can be about this batch."""
        known = self._known.get(offered.sender)
        if known is None:
            return None
        if offered.offer.sequence >= known.below:
            del self._known[offered.sender]
            return None
        offered.event = known.event
        return known

    # Confirmations.

    def _confirm(self) -> None:
        """Confirm what is durable, in order; what is not is waited for."""
        confirming, storage = self._confirming, self._storage
        while confirming:
            first = confirming[0]
            if storage is not None and first.event > storage.durable:
                storage.when_durable(self._confirm)
                return
            confirming.popleft()
            if isinstance(first, _Answer):
                first.tell()
            else:
                self._tell(first)

    def _tell(self, offered: Offered) -> None:
        """Tell a sender what has become of a batch."""
        sender = offered.sender
        sender.answers -= 1
        if offered.failed:
            assert sender.failed is not None, "that is why"
            sender.end(sender.failed.code, str(sender.failed))
            return
        if offered.unroutable is not None and offered.rejected is None:
            self.counts.of(sender.exchange).returned += sum(count for _, count in offered.unroutable.ranges)
            sender.returned(offered.unroutable)
        sender.confirmed(offered.up_to, offered.rejected)


def _give_up(sender: StageSender) -> None:
    """Nothing more of a sender is stored: whoever comes in its place learns what is, and sends the rest."""
    if sender.failed is None:
        sender.failed = QueueError("the connection is gone, or a newer one has taken its place")
