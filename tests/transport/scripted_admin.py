"""A broker of scripted answers, for tests of `Administration`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

from tests.decoding import FrameDecoder
from transport.wire.codec import decode, encode
from transport.wire.messages import VERSION, Command, Error, Frame, Hello, Pong, Result, Welcome

DEADLINE = 10.0

WELCOME = Welcome(VERSION, 7, {"max_frame": 1 << 24, "heartbeat_ms": 5000})

Answer = Callable[[Command], list[Frame]]


class ScriptedBroker:
    """Greets as told, answers commands as told, and records what it hears."""

    def __init__(self, answer: Answer, greetings: list[list[Frame]] | None = None) -> None:
        self.answer = answer
        self.greetings: list[list[Frame]] = greetings or [[WELCOME]]
        self.heard: list[Frame] = []
        self.pong = asyncio.Event()
        self.address = ""
        self.closed = asyncio.Event()
        self.serving: set[asyncio.Task[None] | None] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        decoder = FrameDecoder()
        self.serving.add(asyncio.current_task())
        try:
            # A client that has unread answers resets the connection when it closes.
            with suppress(ConnectionResetError):
                while data := await reader.read(65536):
                    for raw in decoder.receive_data(data):
                        await self.hear(decode(raw), writer)
        finally:
            self.closed.set()
            writer.close()

    async def hear(self, frame: Frame, writer: asyncio.StreamWriter) -> None:
        self.heard.append(frame)
        replies: list[Frame] = []
        if isinstance(frame, Hello):
            # The last greeting is for everybody who comes after.
            replies = list(self.greetings.pop(0) if len(self.greetings) > 1 else self.greetings[0])
        elif isinstance(frame, Command):
            replies = self.answer(frame)
        elif isinstance(frame, Pong):
            self.pong.set()
        for reply in replies:
            writer.writelines(encode(reply))
            if isinstance(reply, Error) and reply.close:
                writer.close()

    @property
    def commands(self) -> list[tuple[str, dict[str, Any]]]:
        return [(frame.name, frame.arguments) for frame in self.heard if isinstance(frame, Command)]


@asynccontextmanager
async def listening(broker: ScriptedBroker, port: int = 0) -> AsyncIterator[ScriptedBroker]:
    server = await asyncio.start_server(broker.serve, "127.0.0.1", port)
    broker.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield broker
        # The clients have closed: the loop must not end before everybody has seen it.
        await asyncio.gather(*filter(None, broker.serving))


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(DEADLINE):
            await main()

    asyncio.run(bounded())


def with_json(value: object) -> Answer:
    return lambda command: [Result(command.request, json.dumps(value).encode())]
