"""An acknowledgement leaves in the loop's next turn: a message that blocks or kills its handler takes none of those before it with it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from actors.batch import MessageBatch
from streams import Sink
from streams.testkit import run_in_virtual_time, settle
from transport import Receiver
from transport.clients.receiver_stage import ReceiverStage
from transport.wire.messages import VERSION, Ack, Deliver, Frame, Request, Welcome


class Link:
    """The link of a receiver, whose broker is the test."""

    made: Link

    def __init__(
        self, _addresses: object, _hello: object, user: ReceiverStage[Any], _reconnect: object, **_: object
    ) -> None:
        Link.made = self
        self.user = user
        self.is_open = False
        self.writable = True
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.sent: list[Frame] = []

    def start(self) -> None:
        self.is_open = True
        self.user.link_opened(Welcome(VERSION, 1, {"id_prefix": bytes(8)}))

    def send(self, frame: Frame) -> None:
        self.sent.append(frame)

    def progressed(self) -> None: ...

    def finish(self) -> None:
        self.is_open = False
        self.over.set_result(None)

    abort = finish


def test_of_messages_in_quick_succession_each_is_acknowledged_before_the_next_can_block_or_kill(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("transport.clients.receiver_stage.BrokerLink", Link)

    async def main() -> None:
        running = Receiver(queue="q").to(Sink.acknowledge()).run()
        await settle()
        assert [type(frame) for frame in Link.made.sent] == [Request]
        for number in range(10):  # no time passes: the clock is virtual
            Link.made.sent.clear()
            Link.made.user.link_frame(Deliver(number, 0, 1, False, MessageBatch.from_payloads([b"x"])))
            await settle()
            assert Link.made.sent == [Ack([(number, 1)])]
        await running.stop()

    run_in_virtual_time(main())
