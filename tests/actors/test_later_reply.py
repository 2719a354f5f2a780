"""Answers that come later than the handler returns."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from actors.errors import ActorError
from actors.runtime.loop_actor import LoopActor
from actors.runtime.loop_future import LaterReply, LoopFuture
from streams.testkit import run_in_virtual_time


class Oracle(LoopActor):
    """Answers each question with a reply that the test settles."""

    def __init__(self, replies: asyncio.Queue[LaterReply]) -> None:
        super().__init__()
        self._replies = replies

    def on_receive(self, message: Any) -> Any:
        reply = LaterReply()
        self._replies.put_nowait(reply)
        if message == "at once":
            reply.set("known")
        return reply


def test_an_ask_gets_the_value_when_it_is_set_and_not_before() -> None:
    async def main() -> None:
        replies: asyncio.Queue[LaterReply] = asyncio.Queue()
        oracle = Oracle.start(replies)
        asked = asyncio.ensure_future(_await(oracle.ask("?", block=False)))
        reply = await replies.get()
        assert not asked.done()
        reply.set(42)
        assert await asked == 42
        assert await oracle.ask("at once", block=False) == "known"
        await oracle.stop(block=False)

    run_in_virtual_time(main())


def test_a_reply_that_fails_raises_at_whoever_asked() -> None:
    async def main() -> None:
        replies: asyncio.Queue[LaterReply] = asyncio.Queue()
        oracle = Oracle.start(replies)
        asked = asyncio.ensure_future(_await(oracle.ask("?", block=False)))
        (await replies.get()).fail(ValueError("no answer"))
        with pytest.raises(ValueError, match="no answer"):
            await asked
        await oracle.stop(block=False)

    run_in_virtual_time(main())


def test_to_a_told_message_a_later_reply_makes_no_difference() -> None:
    async def main() -> None:
        replies: asyncio.Queue[LaterReply] = asyncio.Queue()
        oracle = Oracle.start(replies)
        oracle.tell("?")
        (await replies.get()).set(1)
        assert oracle.is_alive()
        await oracle.stop(block=False)

    run_in_virtual_time(main())


def test_only_the_first_answer_counts_and_one_reply_answers_one_ask() -> None:
    reply, future = LaterReply(), LoopFuture[int]()
    reply.set(1)
    reply.set(2)
    reply.fail(ValueError())
    reply.answer_to(future)
    assert future.get() == 1
    with pytest.raises(ActorError, match="one ask"):
        reply.answer_to(LoopFuture[int]())


async def _await(future: Any) -> Any:
    return await future
