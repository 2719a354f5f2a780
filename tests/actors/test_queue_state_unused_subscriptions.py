"""Subscriptions that nobody uses: forgotten after a time that is set, never while somebody has them, and never silently."""

from __future__ import annotations

import pytest

from actors.batch import MessageBatch
from actors.errors import DataLossError
from actors.queue.queue_state import QueueState
from actors.queue.state.log import QueueLog
from actors.queue.vocabulary import commands
from actors.queue.vocabulary.events import Event, SubscriptionDeleted, SubscriptionLeft
from actors.queue.vocabulary.replies import MessagesReserved, SubscriptionForgotten, SubscriptionOpened, Tell
from actors.queue.vocabulary.settings import RETURN_GRACE_SECONDS, QueueSettings
from tests.actors.subscribing import LARGE, into

US = 10**6
EPOCH_US = 1_700_000_000 * US
"""The time of day at which a test begins."""
DAY = 86_400.0
EXPIRY = 7 * DAY
SETTINGS = QueueSettings(subscription_expiry=EXPIRY)


class Queue:
    """A queue with a clock, and its events."""

    def __init__(self, settings: QueueSettings = SETTINGS, log: QueueLog | None = None, wall: float = 0.0) -> None:
        self.events: list[Event] = []
        self.now = 0.0
        self.wall = wall
        self.state = QueueState(
            "q", 0, settings, record=into(self.events), log=log, now=0.0, wall_us=EPOCH_US + round(wall * US)
        )
        self.said: list[object] = []

    def do(self, command: commands.Command) -> object:
        answer = self.state.execute(command, self.now, EPOCH_US + round((self.wall + self.now) * US))
        self._look()
        return answer

    def _look(self) -> None:
        self.said += self.state.take_effects()

    def until(self, instant: float) -> None:
        """Let time pass, with each tick when it is due."""
        while (due := self.state.next_deadline()) is not None and due <= instant:
            self.now = max(self.now, due)
            self.state.tick(self.now, EPOCH_US + round((self.wall + self.now) * US))
            self._look()
        self.now = instant

    def restarted(self, away: float, settings: QueueSettings = SETTINGS) -> Queue:
        """The queue as another start finds it, ``away`` seconds later."""
        log = QueueLog()
        for number, event in enumerate(self.all_events, 1):
            log.apply(event, number)
        found = Queue(settings, log, self.wall + self.now + away)
        found.before = self.all_events
        return found

    before: list[Event] = []  # noqa: RUF012 - replaced, never changed

    @property
    def all_events(self) -> list[Event]:
        return [*self.before, *self.events]

    def send(self, count: int) -> None:
        sender, payloads = object(), [b"x"] * count
        self.do(commands.AttachSender(connection=sender, producer=None))  # type: ignore[arg-type]
        self.do(commands.RequestCapacity(messages=count, bytes=LARGE, connection=sender))  # type: ignore[arg-type]
        first = self.state.log.next_sequence
        batch = MessageBatch.from_payloads(payloads)
        self.do(commands.OfferBatch(first, batch, None, None, sender))  # type: ignore[arg-type]
        self.state.store(self.now, EPOCH_US + round((self.wall + self.now) * US))
        self._look()

    def own(self, connection: str = "owner") -> SubscriptionOpened:
        return self._open(connection, "own", None)

    def read(self, connection: str, epoch: int) -> SubscriptionOpened:
        return self._open(connection, "read", epoch)

    def _open(self, connection: str, mode: str, epoch: int | None) -> SubscriptionOpened:
        self.said.clear()
        self.do(
            commands.OpenSubscription(
                connection=connection,  # type: ignore[arg-type]
                name="sub",
                mode=mode,
                epoch=epoch,
                starting="earliest",
                owner_timeout=None,
            )
        )
        [opened] = [effect.reply for effect in self.said if isinstance(effect, Tell)]
        assert isinstance(opened, SubscriptionOpened)
        return opened

    def reserve(self, start: int, connection: str = "owner") -> int:
        self.said.clear()
        request = commands.ReserveRequested(1, start, 100, LARGE, 0.0, None, connection)  # type: ignore[arg-type]
        self.do(request)
        [reserved] = [effect.reply for effect in self.said if isinstance(effect, Tell)]
        assert isinstance(reserved, MessagesReserved)
        return reserved.end

    def leave(self, connection: str = "owner") -> None:
        self.do(commands.Left(connection=connection))  # type: ignore[arg-type]

    @property
    def there(self) -> bool:
        return "sub" in self.state.log.ledgers


def left_with_three(settings: QueueSettings = SETTINGS) -> Queue:
    """A queue whose subscription has three messages reserved, and no owner any more."""
    queue = Queue(settings)
    queue.send(4)
    queue.own()
    queue.do(commands.ReserveRequested(1, 0, 3, LARGE, 0.0, None, "owner"))  # type: ignore[arg-type]
    queue.leave()
    return queue


def test_a_subscription_that_nobody_uses_is_forgotten_after_its_time_and_what_it_held_returns() -> None:
    queue = left_with_three()
    queue.until(EXPIRY - 1)
    assert queue.there
    queue.until(EXPIRY)
    assert not queue.there
    assert queue.state.ready.messages == 4
    assert SubscriptionForgotten("sub", EXPIRY, 3) in queue.said
    assert queue.state.next_deadline() is None


def test_a_restart_does_not_forget_one_early_that_was_left_after_the_time_of_day_was_set_forward() -> None:
    queue = Queue()
    queue.send(4)
    queue.own()
    queue.until(DAY)
    queue.wall += 6 * DAY
    queue.leave()
    queue.until(DAY + 1)
    found = queue.restarted(2 * DAY)
    found.until(RETURN_GRACE_SECONDS + 1)
    assert found.there, "nobody has used it for two days, not for eight"
    found.until(EXPIRY - 2 * DAY)
    assert not found.there


def test_by_default_none_is_forgotten_and_nothing_more_is_recorded() -> None:
    queue = left_with_three(QueueSettings())
    assert queue.state.next_deadline() is None
    queue.until(1000 * DAY)
    assert queue.there
    assert not any(isinstance(event, SubscriptionLeft) for event in queue.events)


def test_one_whose_owner_is_connected_is_never_forgotten_however_quiet_it_is() -> None:
    queue = Queue()
    queue.own()
    queue.until(10 * EXPIRY)
    assert queue.there
    queue.leave()
    queue.until(11 * EXPIRY - 1)
    assert queue.there
    queue.until(11 * EXPIRY)
    assert not queue.there


def test_one_that_is_read_for_an_owner_that_has_gone_counts_from_the_last_readers_leaving() -> None:
    queue = Queue()
    queue.read("reader", queue.own().epoch)
    queue.leave()
    queue.until(3 * EXPIRY)
    assert queue.there
    queue.leave("reader")
    queue.until(4 * EXPIRY - 1)
    assert queue.there
    queue.until(4 * EXPIRY)
    assert not queue.there


def test_an_owner_that_comes_back_in_time_has_it_as_it_was() -> None:
    queue = left_with_three()
    queue.until(EXPIRY - 0.001)
    assert (queue.own().base, queue.state.log.ledgers["sub"].high) == (0, 3)
    queue.until(5 * EXPIRY)
    assert queue.there


def test_who_comes_back_too_late_is_told_though_everything_it_had_was_reserved_and_nothing_acknowledged() -> None:
    """Its checkpoint stands at the end of what was reserved, which the new ledger would have as its beginning."""
    queue = left_with_three()
    queue.until(EXPIRY)
    opened = queue.own("late")
    assert (opened.epoch, opened.base, opened.high) == (2, 4, 4)
    for position in (0, 2, 3):
        with pytest.raises(DataLossError):
            queue.do(commands.ReserveRequested(1, position, 1, LARGE, 0.0, None, "late"))  # type: ignore[arg-type]
    assert queue.reserve(4, "late") == 8


def test_the_time_goes_on_over_restarts() -> None:
    """A broker that is restarted each day would forget none otherwise."""
    queue = left_with_three()
    for _ in range(6):
        queue.until(DAY - 60.0)
        queue = queue.restarted(60.0)
        assert queue.there
    queue.until(DAY - 1)
    assert queue.there
    queue.until(DAY)
    assert not queue.there
    found = queue.restarted(0.0)
    assert not found.there
    assert found.state.ready.messages == 4


def test_one_whose_time_ended_while_the_broker_was_down_has_a_grace_to_be_taken_in() -> None:
    queue = left_with_three()
    queue.until(1.0)
    queue = queue.restarted(10 * EXPIRY)
    queue.until(RETURN_GRACE_SECONDS - 1)
    assert queue.there
    late = queue.restarted(0.0)
    late.own()
    late.until(EXPIRY)
    assert late.there
    queue.until(RETURN_GRACE_SECONDS)
    assert not queue.there


def test_an_owner_that_was_connected_when_the_broker_was_killed_counts_from_the_start() -> None:
    queue = Queue()
    queue.own()
    queue = queue.restarted(10 * EXPIRY)
    queue.until(EXPIRY - 1)
    assert queue.there
    queue.until(EXPIRY)
    assert not queue.there


@pytest.mark.parametrize("mode", ["own", "read"])
def test_who_came_back_in_its_epoch_and_was_connected_when_the_broker_was_killed_counts_from_the_start(
    mode: str,
) -> None:
    queue = Queue()
    epoch = queue.own().epoch
    queue.leave()
    queue.until(10.0)
    queue._open("back", mode, epoch)
    queue.until(2 * EXPIRY)
    queue = queue.restarted(60.0)
    queue.until(EXPIRY - 1)
    assert queue.there
    queue.until(EXPIRY)
    assert not queue.there


def test_a_time_of_day_that_was_set_back_makes_nothing_go_sooner() -> None:
    queue = left_with_three()
    queue.until(1.0)
    queue = queue.restarted(-DAY)
    queue.until(EXPIRY - 1)
    assert queue.there
    queue.until(EXPIRY)
    assert not queue.there


def altered(queue: Queue, settings: QueueSettings) -> None:
    queue.do(commands.AlterQueue(settings, 0))


def test_a_change_of_the_setting_counts_from_the_last_use_but_for_a_grace() -> None:
    queue = left_with_three(QueueSettings())
    queue.until(2 * DAY)
    altered(queue, QueueSettings(subscription_expiry=3 * DAY))
    queue.until(3 * DAY - 1)
    assert queue.there
    altered(queue, QueueSettings(subscription_expiry=DAY))
    queue.until(3 * DAY - 1 + RETURN_GRACE_SECONDS - 1)
    assert queue.there
    altered(queue, QueueSettings())
    queue.until(20 * DAY)
    assert queue.there
    altered(queue, QueueSettings(subscription_expiry=DAY))
    queue.until(20 * DAY + RETURN_GRACE_SECONDS)
    assert not queue.there


def test_one_that_is_deleted_by_hand_is_not_looked_at_again() -> None:
    queue = left_with_three()
    queue.until(DAY)
    queue.do(commands.ReleaseSubscription("sub", delete=True))
    assert queue.state.next_deadline() is None


def test_a_queue_that_failed_forgets_no_sooner_and_no_later() -> None:
    queue = left_with_three()
    queue.until(DAY)
    queue.state.reset(queue.now, EPOCH_US + round(queue.now * US))
    queue.until(EXPIRY - 1)
    assert queue.there
    queue.until(EXPIRY)
    assert not queue.there


def test_what_was_recorded_may_be_applied_twice() -> None:
    queue = left_with_three()
    queue.until(EXPIRY)
    queue.own("late")
    events = queue.events
    assert [type(event) for event in events if isinstance(event, SubscriptionLeft | SubscriptionDeleted)] == [
        SubscriptionLeft,
        SubscriptionDeleted,
    ]
    log = QueueLog()
    for number, event in enumerate([*events, *events], 1):
        log.apply(event, number)
    ledger = log.ledgers["sub"]
    assert (ledger.epoch, ledger.base, ledger.left_us) == (2, 4, 0)


@pytest.mark.parametrize("expiry", [0.0, -1.0, 367 * DAY])
def test_a_time_that_cannot_be_is_refused(expiry: float) -> None:
    with pytest.raises(ValueError, match="subscription expiry"):
        QueueSettings(subscription_expiry=expiry)


def test_the_last_use_is_known_after_a_restart() -> None:
    queue = left_with_three()
    queue.until(DAY)
    found = queue.restarted(60.0)
    assert found.state.owners["sub"].used == -(DAY + 60.0)
