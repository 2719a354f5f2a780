"""Two settings of a queue: in what they differ is said in words, with the command that makes one of the other."""

from __future__ import annotations

from typing import Any

import pytest

from actors.queue.vocabulary.differences import differences
from actors.queue.vocabulary.settings import QueueSettings

CASES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "a count": (
        {"max_receives": 3},
        {"max_receives": 5},
        (
            "max_receives is 3 there, 5 was asked for; declare it as it is, or alter it "
            "(penstock queue alter orders --max-receives 5, or Administration.alter_queue)"
        ),
    ),
    "several": (
        {"max_receives": 3, "visibility_timeout": 30.0},
        {"ttl": 0.25},
        (
            "visibility_timeout is 30 s there, 10 s was asked for, max_receives is 3 there, never was asked for, "
            "ttl is never there, 0.25 s was asked for; declare it as it is, or alter it "
            "(penstock queue alter orders --visibility-timeout 10 --max-receives never --ttl 0.25, or Administration.alter_queue)"
        ),
    ),
    "a queue's name": (
        {"max_receives": 3, "dead_letter_queue": "lost"},
        {"max_receives": 3},
        (
            "dead_letter_queue is lost there, its own was asked for; declare it as it is, or alter it "
            "(penstock queue alter orders --dead-letter-queue '', or Administration.alter_queue)"
        ),
    ),
    "what no command alters": (
        {"max_receives": 3},
        {"exclusive": True},
        (
            "max_receives is 3 there, never was asked for, exclusive is false there, true was asked for; "
            "declare it as it is, or delete it first, for exclusive cannot be altered"
        ),
    ),
    "what no command alters, twice": (
        {"exclusive": True},
        {"durable": False},
        (
            "exclusive is true there, false was asked for, durable is true there, false was asked for; "
            "declare it as it is, or delete it first, for exclusive and durable cannot be altered"
        ),
    ),
    "what no command can say": (
        {"max_staged_bytes": 99},
        {},
        "max_staged_bytes is 99 there, its own was asked for; declare it as it is, or delete it first",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_differs_is_said_with_the_command_where_there_is_one(case: str) -> None:
    there, asked, text = CASES[case]
    assert differences("orders", QueueSettings(**there), QueueSettings(**asked)) == text


def test_a_name_that_a_shell_would_take_apart_is_quoted() -> None:
    text = differences("a;b", QueueSettings(), QueueSettings(max_messages=5))
    assert "penstock queue alter 'a;b' --max-messages 5" in text
