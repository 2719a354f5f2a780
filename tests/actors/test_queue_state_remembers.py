"""Whether a queue would know of a sender of which it knows nothing: then nothing was stored of it, or that is lost."""

from __future__ import annotations

from typing import Any, cast

import pytest

from actors.batch import MessageBatch
from actors.queue.vocabulary import commands, events
from actors.queue.vocabulary.replies import SenderAttached
from actors.queue.vocabulary.settings import MAX_PRODUCERS, QueueSettings
from tests.actors.driven import QueueState


def attached(producer: str, settings: QueueSettings, *, known: int = 0) -> SenderAttached:
    queue = QueueState("q", 1, settings)
    for number in range(known):
        batch = MessageBatch.from_payloads([b"m"])
        queue.log.apply(events.MessagesAdded(number, batch, 0, producers=((f"p{number}", 1),)), number + 1)
    command = commands.AttachSender(producer, None, connection=cast("Any", "s"))
    return cast("SenderAttached", queue._told(command))


def test_one_that_has_forgotten_nobody_would_know() -> None:
    assert attached("x", QueueSettings(), known=2) == SenderAttached(None, remembers=True)


def test_of_one_that_is_known_there_is_no_doubt() -> None:
    assert attached("p1", QueueSettings(), known=2) == SenderAttached(1)


@pytest.mark.parametrize("settings", [QueueSettings(durable=False), QueueSettings(expires=60.0)])
def test_one_that_may_have_gone_itself_would_not_know(settings: QueueSettings) -> None:
    assert not attached("x", settings).remembers


def test_one_that_knows_as_many_as_it_may_has_perhaps_forgotten_somebody(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_PRODUCERS > 3
    monkeypatch.setattr("actors.queue.state.log.MAX_PRODUCERS", 3)
    assert attached("x", QueueSettings(), known=2).remembers
    assert not attached("x", QueueSettings(), known=3).remembers
