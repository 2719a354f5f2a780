"""A broker that plays scripts of frames to its clients."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from tests.decoding import FrameDecoder
from transport import Backoff
from transport.wire.codec import decode, encode
from transport.wire.frames import MAX_FRAME_BYTES
from transport.wire.messages import (
    Cancel,
    Frame,
    Hello,
    Send,
    Welcome,
)

QUICK = Backoff(minimum=0.001, maximum=0.01, give_up_after=15.0)


class Client:
    """The client's end of one connection, as the script sees it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._decoder = FrameDecoder(MAX_FRAME_BYTES)
        self._frames: list[Frame] = []

    async def frame(self) -> Frame | None:
        """The next frame, None at the end of the stream."""
        while not self._frames:
            data = await self._reader.read(1 << 20)
            if not data:
                return None
            self._frames += [decode(raw) for raw in self._decoder.receive_data(data)]
        return self._frames.pop(0)

    async def welcome(self, epoch: int = 1, **options: Any) -> None:
        assert isinstance(await self.frame(), Hello)
        self.say(Welcome(1, epoch, {"heartbeat_ms": 60_000, **options}))

    async def send(self) -> Send:
        frame = await self.frame()
        assert isinstance(frame, Send), frame
        return frame

    def say(self, *frames: Frame) -> None:
        for frame in frames:
            self._writer.writelines(encode(frame))


Script = Callable[[Client], Awaitable[None]]


@asynccontextmanager
async def scripted(*scripts: Script) -> AsyncIterator[str]:
    """The address of a broker whose connections each follow a script of their own, and break off where it ends."""
    failures: list[BaseException] = []
    left = list(scripts)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            assert left, "the client connected once more than it should"
            await left.pop(0)(Client(reader, writer))
            await writer.drain()
        except (AssertionError, OSError) as error:
            failures.append(error)
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    assert not failures, failures
    assert not left, f"{len(left)} connections never came"


async def until_end(client: Client) -> list[Frame]:
    """Everything the client still says; a broker closes when it hears CANCEL."""
    frames: list[Frame] = []
    while (frame := await client.frame()) is not None:
        frames.append(frame)
        if isinstance(frame, Cancel):
            break
    return frames
