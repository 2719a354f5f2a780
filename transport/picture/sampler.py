"""The one sampler of a broker: what its queues count, once a second, and only while somebody looks.

The first round reads every queue; each one after it reads those that have changed, and those whose rates or judgement are not at rest yet.
Reading takes no turn of the queue's own. It goes in slices, so that nobody waits longer than one of them.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from transport.errors import LimitExceededError
from transport.picture.letting_go import let_go
from transport.picture.ordered import Ordered
from transport.picture.pressure import Kind, Pressure, pressure_of
from transport.picture.slices import Slices

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors import QueueDirectory
    from actors.queue.changes import Reader
    from actors.queue.vocabulary.statistics import QueueStatistics

SAMPLE_SECONDS: Final = 1.0
"""From one round to the next."""
MOMENTS: Final = 4
"""So many of the last judgements count;"""
AGREE: Final = 2
"""and so many of them are to agree."""
KEPT_SAMPLES: Final = 120
"""Of a queue that somebody looks at: two minutes."""
LINGER_SECONDS: Final = 5.0
"""The sampler runs on for so long after somebody has asked for one picture, who may be about to ask for the next."""
MOST_LOOKS: Final = 256
"""Who may look at the same time."""
MOST_WATCHED: Final = 201
"""Queues whose samples are kept for one who looks: as many as a picture has, and the one whose parties it shows."""


logger = logging.getLogger("penstock.broker")


class Moment(NamedTuple):
    """What is kept of a sample: messages that were ready, and messages a second that came in and went out."""

    ready: int
    came: float
    went: float


class Sample(NamedTuple):
    """A queue as it was when it was read last.

    Attributes:
        at: when that was, on the loop's clock.
        figures: what it counts; without its connections, and without ``oldest_ms``, which goes on while nothing changes.
        came: messages a second that came in since it was read before; 0 where it was not.
        went: messages a second that went out.
        acknowledged: messages a second that were acknowledged.
        pressure: who holds back whom.
        recent: the judgements of the last moments alone, the newest last. While messages move, what was so most often is the pressure.
    """

    at: float
    figures: QueueStatistics
    came: float
    went: float
    acknowledged: float
    pressure: Pressure
    recent: tuple[Pressure, ...]

    @property
    def judged(self) -> Kind:
        """The judgement of this moment alone."""
        return self.recent[-1].kind

    @property
    def at_rest(self) -> bool:
        """Whether the next round would find the same, unless the queue has changed."""
        return not (self.came or self.went or self.acknowledged) and self.judged is self.pressure.kind

    @property
    def moment(self) -> Moment:
        """What is kept of it."""
        return Moment(self.figures.ready, round(self.came, 2), round(self.went, 2))


class Look:
    """Somebody who looks; to be closed.

    Attributes:
        rounds: how many rounds it has seen.
    """

    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler
        self._watched: frozenset[str] = frozenset()
        self.rounds = 0

    async def next(self) -> bool:
        """Wait for a round that this one has not seen; False where there is none any more, for the broker stops."""
        going_on = await self._sampler.round_after(self.rounds)
        self.rounds = self._sampler.rounds
        return going_on

    def watch(self, names: Iterable[str]) -> None:
        """Have samples kept of these queues from now on, and of those from before no more; of the first `MOST_WATCHED` of them."""
        before, self._watched = self._watched, frozenset(list(names)[:MOST_WATCHED])
        self._sampler.watch(self._watched - before, before - self._watched)

    def close(self) -> None:
        """Look no more."""
        self.watch(())
        self._sampler.leave(self)


class Sampler:
    """Reads the queues of a broker while somebody looks.

    Args:
        queues: all of them.
        now: monotonic seconds, the loop's.

    Attributes:
        samples: of every queue, by name; to be looked at only, while somebody looks.
        ordered: the same in order, and their sums.
        rounds: how many rounds there were since somebody began to look, and nobody did before.
    """

    def __init__(self, queues: QueueDirectory, now: Callable[[], float]) -> None:
        self._queues = queues
        self._now = now
        self.samples: dict[str, Sample] = {}
        self.ordered = Ordered(self.samples)
        self.rounds = 0
        self._looks: set[Look] = set()
        self._histories: dict[str, deque[Moment]] = {}
        self._watchers: dict[str, int] = {}
        self._restless: set[str] = set()
        self._changes: Reader | None = None
        self._task: asyncio.Task[None] | None = None
        self._next_round: asyncio.Future[None] | None = None
        self._linger: Look | None = None
        self._lingers: asyncio.TimerHandle | None = None
        self._ended = False
        # When the round before this one began.
        self._before = 0.0
        # Samples of the round before, to be freed behind this one.
        self._replaced: list[Sample] = []

    @property
    def running(self) -> bool:
        """Whether it reads anything."""
        return self._task is not None

    @property
    def ended(self) -> bool:
        """Whether the broker stops, and there is nothing to be seen any more."""
        return self._ended

    def look(self) -> Look:
        """Begin to look.

        Raises:
            LimitExceededError: as many look as may.
        """
        if len(self._looks) >= MOST_LOOKS:
            raise LimitExceededError(
                f"{MOST_LOOKS} look at this broker, which is the limit (MOST_LOOKS): close a console, or whatever else looks"
            )
        look = Look(self)
        self._looks.add(look)
        if self._task is None and not self._ended:
            self._changes = self._queues.changes.read()
            self._restless = set(self._queues.names)
            self._task = asyncio.get_running_loop().create_task(self._run(), name="penstock sampler")
        return look

    @contextmanager
    def looking(self) -> Iterator[Look]:
        """Look, and have it closed."""
        look = self.look()
        try:
            yield look
        finally:
            look.close()

    async def glance(self) -> None:
        """See that there is a round to be looked at, and that there are more for whoever asks again soon."""
        self._go_on_for_a_while()
        if self.rounds or self._ended:
            return
        # The first round of many queues may take longer than that: whoever waits for it looks as long.
        with self.looking() as look:
            await look.next()
            self._go_on_for_a_while()

    def history(self, name: str) -> list[Moment]:
        """The last samples of a queue that somebody watches, the newest last; empty of others."""
        return list(self._histories.get(name, ()))

    def end(self) -> None:
        """The broker stops: nothing is read any more, and who waits for a round is told."""
        self._ended = True
        self._end_linger()
        self._stop()
        self._tell()

    # For `Look`

    async def round_after(self, seen: int) -> bool:
        """Wait until there is a later round than the one with this number; False where the sampler has ended."""
        while self.rounds <= seen and not self._ended:
            if self._next_round is None:
                self._next_round = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._next_round)
        return not self._ended

    def watch(self, more: Iterable[str], less: Iterable[str]) -> None:
        """Somebody watches more of the queues, and less."""
        for name in more:
            self._watchers[name] = self._watchers.get(name, 0) + 1
        for name in less:
            self._watchers[name] -= 1
            if not self._watchers[name]:
                del self._watchers[name]
                self._histories.pop(name, None)

    def leave(self, look: Look) -> None:
        """One looks no more; behind the last of them nothing is kept, and nothing is read."""
        self._looks.discard(look)
        if not self._looks:
            self._stop()

    # Inside

    def _stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            assert self._changes is not None, "it is read from as long as there is a task"
            self._changes.end()
            self.ordered.end()
            let_go(self.samples)
            self.samples, self._restless, self.rounds = {}, set(), 0
            self.ordered = Ordered(self.samples)
            self._histories.clear()

    def _tell(self) -> None:
        """Whoever waits for a round looks again."""
        told, self._next_round = self._next_round, None
        if told is not None and not told.done():
            told.set_result(None)

    def _go_on_for_a_while(self) -> None:
        if self._ended:
            return
        if self._linger is None:
            self._linger = self.look()
        if self._lingers is not None:
            self._lingers.cancel()
        self._lingers = asyncio.get_running_loop().call_later(LINGER_SECONDS, self._end_linger)

    def _end_linger(self) -> None:
        linger, self._linger = self._linger, None
        if self._lingers is not None:
            self._lingers.cancel()
            self._lingers = None
        if linger is not None:
            linger.close()

    async def _run(self) -> None:
        due = self._now()
        while True:
            try:
                await self._round()
            except Exception:
                # The next one may do; whoever looks is to see that something is wrong, and not to wait for ever.
                logger.exception("a round of samples failed on a defect of ours")
            finally:
                let_go(self._replaced)
                self._replaced = []
            self.rounds += 1
            self._tell()
            # One that took longer is not made up for.
            due = max(due + SAMPLE_SECONDS, self._now())
            await _until(due)

    async def _round(self) -> None:
        assert self._changes is not None, "it is read from as long as there is a task"
        # What changes from here on is of the next round.
        began = self._now()
        changed = self._changes.take()
        names = {*self._queues.names, *self.samples} if changed is None else changed | self._restless
        self._restless = set()
        slices = Slices(self._now)
        await slices.begin()
        for name in names:
            try:
                self._read(name)
            except Exception:
                # The others are read all the same, and this one when it changes.
                logger.exception("queue %s could not be sampled on a defect of ours", name)
                self._forget(name)
            await slices.pause()
        self._before = began
        for name in list(self._watchers):
            # Somebody may have stopped to watch it meanwhile.
            if name in self._watchers and (sample := self.samples.get(name)) is not None:
                self._histories.setdefault(name, deque(maxlen=KEPT_SAMPLES)).append(sample.moment)
            await slices.pause()

    def _read(self, name: str) -> None:
        figures = self._queues.read(name, parties=False)
        if figures is None:
            self._forget(name)
            return
        before = self.samples.get(name)
        sample = self.samples[name] = sample_of(figures, self._queues, self._now(), before, self._before)
        self.ordered.put(name, before, sample)
        if before is not None:
            self._replaced.append(before)
        if not sample.at_rest:
            self._restless.add(name)

    def _forget(self, name: str) -> None:
        """It is gone: one of the same name that comes is another."""
        self.ordered.put(name, self.samples.pop(name, None), None)
        self._histories.pop(name, None)


async def _until(when: float) -> None:
    """Return at a time of the loop's."""
    loop = asyncio.get_running_loop()
    reached = asyncio.Event()
    timer = loop.call_at(when, reached.set)
    try:
        await reached.wait()
    finally:
        timer.cancel()


def sample_of(
    figures: QueueStatistics, queues: QueueDirectory, at: float, before: Sample | None, since: float = 0.0
) -> Sample:
    """A sample of a queue, from its figures now and the sample before; it has not changed between that and ``since``."""
    came = went = acknowledged = 0.0
    moved = 0
    if before is not None and at > before.at and _goes_on(before.figures, figures):
        # One that was at rest has not been read in between; what came has come since the last round.
        seconds, old = at - max(before.at, min(since, at)), before.figures
        seconds = seconds or SAMPLE_SECONDS
        arrived, left = figures.total_in - old.total_in, figures.total_out - old.total_out
        moved = arrived + left
        came, went = arrived / seconds, left / seconds
        acknowledged = (figures.total_acknowledged - old.total_acknowledged) / seconds
    judged = pressure_of(figures, queues.settings_of(figures.name), moved)
    recent = (*(() if before is None else before.recent[1 - MOMENTS :]), judged)
    pressure = _over_time(recent, figures.name) if moved else judged
    return Sample(at, figures, came, went, acknowledged, pressure, recent)


def _over_time(recent: tuple[Pressure, ...], name: str) -> Pressure:
    """What is so most often: of a queue in which messages move, one moment says little, for a batch is always ready or on its way.

    A full queue takes more in steps, so that it is full in one moment, and in the next its receivers are slow: the one with more pressure
    counts then. Where no two moments agree, it flows. That it was idle before says nothing of what moves now.
    """
    counts = Counter(each.kind for each in recent if each.kind is not Kind.IDLE)
    kind, times = max(counts.items(), key=lambda item: (item[1], item[0].rank))
    if len(recent) > 1 and times < AGREE:
        return Pressure(Kind.FLOWING, f"queue {name} flows")
    return next(each for each in reversed(recent) if each.kind is kind)


def _goes_on(before: QueueStatistics, now: QueueStatistics) -> bool:
    """Whether these are of one queue. What counts up never falls, so one that fell was deleted meanwhile and made again."""
    return (
        now.total_in >= before.total_in
        and now.total_out >= before.total_out
        and now.total_acknowledged >= before.total_acknowledged
    )
