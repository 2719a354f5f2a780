"""What a channel has delivered and its client has not settled: delivery tags, and which messages of which consumer they are.

A channel numbers what it delivers from one on, over all its consumers (AMQP 0-9-1, 1.8.3.13 and "basic.deliver"). A
queue numbers its own messages. What is delivered in a row has both numbers in a row: so a *run* says for many tags at a
time what they are, and what is left to be settled is a set of ranges. No message has an object of its own here, for a
client may hold a million.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Generic, NamedTuple, TypeVar

from actors.queue.structures.ranges import RangeSet
from transport.gateways.amqp.errors import AmqpError
from transport.gateways.amqp.reply_codes import ReplyCode

H = TypeVar("H")

KEPT_RUNS: Final = 1_024
"""Runs all of whose messages are settled, before those are forgotten: to forget each at once would move all others each time. Where more
messages are not settled it is as many runs as those."""
KEPT_HOLDERS: Final = 64
"""Likewise of holders: a channel may have very many consumers one after another, while one message of the first is never settled."""


class Held(NamedTuple, Generic[H]):
    """Messages in a row that are settled together.

    Attributes:
        holder: whoever received them for the channel.
        first: the queue's number of the first.
        messages: how many.
        tag: the channel's number of the first.
    """

    holder: H
    first: int
    messages: int
    tag: int


class Deliveries(Generic[H]):
    """One channel's.

    Attributes:
        last_tag: the tag that was given last; 0 before the first.
        count: messages that are not settled for good.
    """

    def __init__(self) -> None:
        self.last_tag = 0
        self.count = 0
        self._outstanding = RangeSet()
        # Taken out, and not settled for good: by a transaction, which may put them back.
        self._withheld = RangeSet()
        # By run: its first tag, and what is added to a tag for the queue's number. Holders are few, so each run names one by its place.
        self._tags = array("q")
        self._offsets = array("q")
        self._whose = array("i")
        self._holders: list[H] = []
        self._places: dict[H, int] = {}
        # Not settled, of each holder that has any.
        self._counts: Counter[H] = Counter()
        self._most_holders = KEPT_HOLDERS

    def __len__(self) -> int:
        """How many runs there are: what this takes of memory."""
        return len(self._tags)

    def pass_by(self, count: int) -> int:
        """Number messages that need not be settled; returns the first tag."""
        first = self.last_tag + 1
        self.last_tag += count
        return first

    def add(self, holder: H, first: int, count: int) -> int:
        """Number messages that are to be settled: those of a queue from its number ``first`` on; returns the first tag."""
        tag = self.last_tag + 1
        self.last_tag += count
        offset, place = first - tag, self._place(holder)
        new = not self._tags or self._offsets[-1] != offset or self._whose[-1] != place
        if new:
            self._tags.append(tag)
            self._offsets.append(offset)
            self._whose.append(place)
        self._outstanding.add(tag, tag + count)
        self.count += count
        self._counts[holder] += count
        if new and len(self._tags) > KEPT_RUNS and len(self._tags) > 2 * self.count:
            # An old message is not settled, so those behind it were not forgotten: at least half of them can be.
            self._tidy()
        return tag

    def settle(self, tag: int, *, multiple: bool) -> list[Held[H]]:
        """Take out a tag, or all up to it, in order; tag 0 with ``multiple`` is all there are.

        Raises:
            AmqpError: PRECONDITION_FAILED, as RabbitMQ says it: the tag was never given, or is settled already. Nothing is taken out.
        """
        taken = self._take(tag, multiple)
        self._done(taken)
        return taken

    def withhold(self, tag: int, *, multiple: bool) -> list[Held[H]]:
        """As `settle`, until either `settle_withheld` or `put_back`: nobody can settle them meanwhile, and they count as if not settled."""
        taken = self._take(tag, multiple)
        for each in taken:
            self._withheld.add(each.tag, each.tag + each.messages)
        return taken

    def settle_withheld(self, taken: Iterable[Held[H]]) -> None:
        """What was withheld is settled."""
        for each in taken:
            self._withheld.remove(each.tag, each.tag + each.messages)
        self._done(taken)

    def put_back(self, taken: Iterable[Held[H]]) -> None:
        """What was withheld is to be settled, as it was."""
        for each in taken:
            self._withheld.remove(each.tag, each.tag + each.messages)
            self._outstanding.add(each.tag, each.tag + each.messages)

    def settle_each(self, tags: Sequence[int]) -> Iterator[list[Held[H]]]:
        """Take out tags, each by itself, in order: those in a row at a time. Errors as of `settle`, once those before are taken out."""
        at, count = 0, len(tags)
        while at < count:
            first, stop = tags[at], at + 1
            while stop < count and tags[stop] - first == stop - at:
                stop += 1
            after = first + stop - at
            if self._outstanding.count_within(first, after) == stop - at:
                taken = self._removed(first, after)
                self._done(taken)
                yield taken
            else:
                for tag in range(first, after):
                    yield self.settle(tag, multiple=False)
            at = stop

    def held_by(self, holder: H) -> int:
        """Messages of one holder that are not settled."""
        return self._counts[holder]

    def holders(self) -> Iterator[H]:
        """Who holds something that is not settled."""
        return iter(self._counts)

    def _take(self, tag: int, multiple: bool) -> list[Held[H]]:
        if multiple and tag == 0:
            tag = self.last_tag
        elif not self._outstanding.count_within(tag, tag + 1):
            raise AmqpError(ReplyCode.PRECONDITION_FAILED, f"unknown delivery tag {tag}")
        return self._removed(0 if multiple else tag, tag + 1)

    def _removed(self, start: int, stop: int) -> list[Held[H]]:
        removed = self._outstanding.remove(start, stop)
        return [held for low, high in removed for held in self._runs(low, high)]

    def _done(self, taken: Iterable[Held[H]]) -> None:
        for each in taken:
            self.count -= each.messages
            self._counts[each.holder] -= each.messages
            if not self._counts[each.holder]:
                del self._counts[each.holder]
        self._forget()

    def _runs(self, start: int, stop: int) -> Iterator[Held[H]]:
        """What a range of tags is, run by run."""
        tags, at = self._tags, bisect_right(self._tags, start) - 1
        while start < stop:
            end = min(stop, tags[at + 1]) if at + 1 < len(tags) else stop
            yield Held(self._holders[self._whose[at]], start + self._offsets[at], end - start, start)
            start, at = end, at + 1

    def _forget(self) -> None:
        """Runs that end before the first tag that is not settled are of no use."""
        if not self.count:
            self._drop(len(self._tags))
            return
        if len(self._tags) <= KEPT_RUNS:
            return
        low = min(next(iter(each))[0] for each in (self._outstanding, self._withheld) if each)
        done = bisect_right(self._tags, low) - 1
        if done * 2 > len(self._tags):
            self._drop(done)

    def _drop(self, runs: int) -> None:
        del self._tags[:runs]
        del self._offsets[:runs]
        del self._whose[:runs]
        if not self._tags:
            self._holders.clear()
            self._places.clear()

    def _place(self, holder: H) -> int:
        place = self._places.get(holder)
        if place is None:
            if len(self._holders) >= self._most_holders:
                self._tidy()
            place = self._places[holder] = len(self._holders)
            self._holders.append(holder)
        return place

    def _tidy(self) -> None:
        """Keep the runs of which something is not settled, and the holders of these."""
        stops = [*self._tags[1:], self.last_tag + 1]
        kept = [
            at
            for at, (tag, stop) in enumerate(zip(self._tags, stops, strict=True))
            if self._outstanding.count_within(tag, stop) or self._withheld.count_within(tag, stop)
        ]
        # What was between two that are kept is settled, and nobody asks for it any more.
        self._tags = array("q", [self._tags[at] for at in kept])
        self._offsets = array("q", [self._offsets[at] for at in kept])
        holders = [self._holders[self._whose[at]] for at in kept]
        self._holders = list(dict.fromkeys(holders))
        self._places = {holder: place for place, holder in enumerate(self._holders)}
        self._whose = array("i", [self._places[holder] for holder in holders])
        self._most_holders = max(KEPT_HOLDERS, 2 * len(self._holders))
