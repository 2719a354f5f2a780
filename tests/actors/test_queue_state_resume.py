"""An owner that lost its connection goes on in its epoch; one that was replaced does not."""

from __future__ import annotations

import pytest

from actors.batch import MessageBatch
from actors.errors import InvalidRequestError, StaleEpochError, SubscriptionNotFoundError
from actors.queue.vocabulary.replies import SubscriptionOpened as SubscriptionFacts
from actors.queue.vocabulary.settings import QueueSettings
from tests.actors.driven import Opening, QueueState, Reserved


def own(state: QueueState, connection: str, epoch: int | None = None) -> SubscriptionFacts:
    opening = Opening(take_over=True)
    return state.open_subscription(
        connection, "s", "own", epoch=epoch, starting="earliest", owner_timeout=None, opening=opening
    )


def reserve(state: QueueState, connection: str) -> None:
    state.reserve(connection, 1, 0, messages=10, size=1000, wait=5.0, below=None, now=0.0)


def test_an_owner_with_the_current_epoch_goes_on_in_it() -> None:
    state = QueueState("q", 0, QueueSettings())
    first = own(state, "old")
    assert own(state, "new", first.epoch).epoch == first.epoch
    state.attach_sender("sender", None)
    state.request_capacity("sender", 10, 1000)
    state.send("sender", 0, MessageBatch.from_payloads([b"a", b"b"]), 0.0, 0)
    reserve(state, "new")
    answers = [effect for effect in state.take_effects() if isinstance(effect, Reserved)]
    assert [(answer.consumer, answer.end) for answer in answers] == [("new", 2)]


def test_the_connection_that_was_resumed_from_owns_nothing_any_more() -> None:
    state = QueueState("q", 0, QueueSettings())
    epoch = own(state, "old").epoch
    own(state, "new", epoch)
    with pytest.raises(InvalidRequestError, match="only the owner"):
        reserve(state, "old")


def test_the_end_of_the_old_connection_does_not_end_the_resumed_ownership() -> None:
    state = QueueState("q", 0, QueueSettings())
    epoch = own(state, "old").epoch
    own(state, "new", epoch)
    state.detach("old", 0.0)
    assert state.commit_position("new", 0) == 0


def test_an_owner_that_was_replaced_cannot_go_on() -> None:
    state = QueueState("q", 0, QueueSettings())
    epoch = own(state, "old").epoch
    own(state, "other")
    with pytest.raises(StaleEpochError):
        own(state, "old again", epoch)


def test_an_owner_cannot_go_on_where_the_subscription_is_gone() -> None:
    with pytest.raises(SubscriptionNotFoundError):
        own(QueueState("q", 0, QueueSettings()), "owner", 3)
