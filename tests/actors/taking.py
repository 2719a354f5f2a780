"""A queue with a taker, in short words: each command of `actors.queue.vocabulary.takes` as a function, and what it is told."""

from __future__ import annotations

from typing import Any, cast

from actors.queue.vocabulary import replies, takes
from actors.queue.vocabulary.replies import Refused, Tell
from tests.actors.driven import QueueState

LARGE = 10**9


class TakerState(QueueState):
    """The queue's state with what its takers are told put aside."""

    __slots__ = ("told",)

    def __init__(self, *args: Any, **options: Any) -> None:
        self.told: list[tuple[str, Any]] = []
        super().__init__(*args, **options)

    def take_effects(self) -> list[Any]:
        """The others; what takers are told is in ``told``."""
        mine = (replies.MessagesTaken, replies.TakenSettled, replies.NothingHeld)
        others = []
        for effect in self.effects:
            if isinstance(effect, Tell) and isinstance(effect.reply, mine):
                self.told.append((str(effect.connection), effect.reply))
            else:
                others.append(effect)
        self.effects = others
        return super().take_effects()

    def answers(self) -> list[Any]:
        """What takers were told since the last call."""
        assert not self.take_effects(), "nobody but takers is told anything here"
        told, self.told = self.told, []
        return [reply for _, reply in told]

    def attach_taker(self, name: str = "t") -> None:
        self.execute(takes.AttachTaker(cast("Any", name)), 0.0, 0)
        told = self.effects.pop()
        assert isinstance(told, Tell)
        assert told.reply == replies.NothingHeld(), "one that has just come holds nothing"

    def take(
        self,
        request: int,
        messages: int,
        *,
        size: int = LARGE,
        wait: float = 0.0,
        visibility: float | None = None,
        now: float = 0.0,
        taker: str = "t",
    ) -> None:
        command = takes.TakeMessages(request, messages, size, wait, visibility, cast("Any", taker))
        self.execute(command, now, self.clocks.time_us(now))

    def cancel_take(self, request: int, now: float = 0.0, taker: str = "t") -> None:
        self.execute(takes.CancelTake(request, cast("Any", taker)), now, self.clocks.time_us(now))

    def settle(
        self,
        request: int,
        taken: list[tuple[int, int]],
        how: takes.Settlement = takes.Settlement.ACKNOWLEDGE,
        *,
        seconds: float = 0.0,
        failed: bool = True,
        reason: str | None = None,
        now: float = 0.0,
        taker: str = "t",
    ) -> None:
        command = takes.SettleTaken(request, tuple(taken), how, seconds, failed, reason, cast("Any", taker))
        self.execute(command, now, self.clocks.time_us(now))

    def give_back_unseen(self, taken: list[tuple[int, int]], now: float = 0.0, taker: str = "t") -> None:
        self.execute(takes.GiveBackUnseen(tuple(taken), cast("Any", taker)), now, self.clocks.time_us(now))

    def seen(self, messages: int, again: int = 0, taker: str = "t") -> None:
        self.execute(takes.TakenSeen(messages, again, cast("Any", taker)), 0.0, 0)


def numbers(answer: Any) -> list[tuple[int, int]]:
    """The number of each message of a ``MessagesTaken``, and of its delivery."""
    assert isinstance(answer, replies.MessagesTaken), answer
    return [(each.first + index, each.delivery_count) for each in answer.ranges for index in range(len(each.batch))]


def refusal(effect: Any) -> Refused:
    assert isinstance(effect, Tell)
    assert isinstance(effect.reply, Refused)
    return effect.reply
