"""``python -m tests.fault.amqp_fuzzers HOST PORT SEED AT_ONCE`` plays the sessions of a seed against a broker until its input ends.

It says that it is ready, begins at its first line of input, and in the end says how many it has played, the codes that it was told, and
what must not be: sessions that were not ended, or with another code than is right.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections import Counter
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Final

from tests.fault.amqp_sessions import Session, session_of
from tests.transport.gateways.amqp.async_amqp import AsyncClient, EndedError
from transport.gateways.amqp import connection_methods as connection
from transport.gateways.amqp.reply_codes import CLOSES_CHANNEL, ReplyCode
from transport.wire.liveness import ENTRANCE_TIMEOUT

PATIENCE_SECONDS: Final = 2.0
"""For which a session that may have lost its own end is waited for, before the end of the stream says it."""
END_SECONDS: Final = 60.0
"""In which every session has ended: this process may have what others leave of the processors."""
MOST_FOUND: Final = 20
"""Findings that are told of."""
MOST_PIECES: Final = 6
"""In which a session is written, at most."""


@dataclass(slots=True)
class Told:
    """What one session was told.

    Attributes:
        channels: codes that channels were closed with.
        connection: the code that the connection was closed with.
        agreed: whether the broker has answered its close.
        ended: whether the stream came to its end.
        late: whether it was given up for its own slowness: its process may have only what others leave of the processors.
    """

    channels: list[int] = field(default_factory=list)
    connection: int | None = None
    agreed: bool = False
    ended: bool = False
    late: bool = False


def judged(session: Session, told: Told) -> str | None:
    """What must not be; None where all is right."""
    if not told.ended:
        return "it was not ended"
    if strange := [code for code in told.channels if code not in CLOSES_CHANNEL]:
        return f"a channel was closed with {strange[0]}"
    last = told.connection
    if last == ReplyCode.INTERNAL_ERROR or last not in (None, *ReplyCode):
        return f"the connection was closed with {last}"
    if session.code is None or told.late:
        return None
    said = f"channels were closed with {told.channels}, the connection with {last}, agreed: {told.agreed}"
    if session.code == 0:
        right = told.agreed and not told.channels and last is None
    elif session.closes_connection:
        right = last == session.code and not told.channels
    else:
        right = told.channels == [session.code] and told.agreed
    return None if right else f"{session.what} is {session.code:d}: {said}"


async def play(host: str, port: int, session: Session, random: Random) -> Told:
    """Say a session, and hear how it ends."""
    told = Told()
    began = asyncio.get_running_loop().time()
    client = await AsyncClient.knock(host, port)
    try:
        async with asyncio.timeout(END_SECONDS):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE_SECONDS if session.code is None else None):
                    for piece in pieces(session.data, random):
                        client.transport.write(piece)
                        await asyncio.sleep(0)
                    await _hear(client, told)
            if not client.gone:
                with contextlib.suppress(OSError):  # the broker has ended it, and the loop has not said so yet
                    client.transport.write_eof()
            await _hear(client, told)
    except TimeoutError:
        return told
    finally:
        client.transport.abort()
    told.ended = True
    took = asyncio.get_running_loop().time() - began
    told.late = told.connection == ReplyCode.CONNECTION_FORCED and took >= ENTRANCE_TIMEOUT
    return told


def pieces(data: bytes, random: Random) -> list[bytes]:
    """The same in some pieces, cut anywhere."""
    cuts = sorted(random.randrange(len(data) + 1) for _ in range(random.choice((0, 0, 1, MOST_PIECES - 1))))
    return [data[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]


async def _hear(client: AsyncClient, told: Told) -> None:
    """Hear all up to the end."""
    with contextlib.suppress(EndedError):
        while True:
            while client.came:
                method = client.came.popleft().method
                if isinstance(method, connection.ChannelClose):
                    told.channels.append(method.reply_code)
                elif isinstance(method, connection.ConnectionClose):
                    told.connection = method.reply_code
                elif isinstance(method, connection.ConnectionCloseOk):
                    told.agreed = True
            await client.more()


@dataclass(slots=True)
class Played:
    """What a run has played.

    Attributes:
        sessions: by kind.
        codes: by code, of channels and connections; 200 is an end that was agreed on.
        late: sessions that were given up for their own slowness.
        found: what must not be, with the session's number.
    """

    sessions: Counter[str] = field(default_factory=Counter)
    codes: Counter[int] = field(default_factory=Counter)
    late: int = 0
    found: list[str] = field(default_factory=list)

    def add(self, number: int, session: Session, told: Told) -> None:
        """Count one."""
        self.sessions[session.kind] += 1
        self.late += told.late
        self.codes.update(told.channels)
        if told.connection is not None:
            self.codes[told.connection] += 1
        self.codes[int(ReplyCode.REPLY_SUCCESS)] += told.agreed
        wrong = judged(session, told)
        if wrong is not None and len(self.found) < MOST_FOUND:
            self.found.append(f"session {number} ({session.kind}): {wrong}")


async def play_all(host: str, port: int, seed: int, at_once: int, played: Played, sessions: int | None = None) -> None:
    """Play the first sessions of a seed, or all there are until cancelled, so many at a time."""
    numbers = count() if sessions is None else iter(range(sessions))

    async def play_next() -> None:
        for number in numbers:
            session = session_of(seed, number)
            try:
                told = await play(host, port, session, Random(number))
            except OSError:
                # It did not come as far as to be told anything.
                told = Told(ended=True, late=True)
            played.add(number, session, told)

    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(play_next())


def main() -> None:
    """The process."""
    host, port, seed, at_once = sys.argv[1:]
    print("{}", flush=True)
    sys.stdin.readline()

    async def until_told() -> Played:
        played = Played()
        work = asyncio.create_task(play_all(host, int(port), int(seed), int(at_once), played))
        told = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
        await asyncio.wait((work, told), return_when=asyncio.FIRST_COMPLETED)
        work.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await work
        return played

    played = asyncio.run(until_told())
    told = {name: getattr(played, name) for name in ("sessions", "codes", "late", "found")}
    print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
