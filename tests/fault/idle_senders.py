"""``python -m tests.fault.idle_senders``: how fast a busy sender is beside hundreds of idle ones, in a queue of few messages.

Each round measures it alone and beside them, one after the other, so that the machine's other work touches both. The idle ones are the
library's own, connected all the time; with ``--once`` each has sent one message first.
"""

from __future__ import annotations

import asyncio
import sys
import time
from statistics import median
from typing import Annotated

import typer

from actors.batch import MessageBatch
from streams import Sink, Source
from tests.fault.kill_process import Broker
from tests.fault.raw_clients import raise_file_limit
from transport import Administration, Receiver, Sender

QUEUE = "few"
BATCH = 500
PAYLOAD = b"x" * 100
SHARE = 0.8
"""Of its rate alone that a busy sender keeps."""
SECONDS = 120.0


async def rate(broker: Broker, messages: int) -> float:
    """Messages a second through the queue, from one sender to one receiver."""
    batch = MessageBatch.from_payloads([PAYLOAD] * BATCH)
    receiver = Receiver(broker.receive_address, queue=QUEUE, limit=messages).batches()
    receiving = receiver.to(Sink.acknowledge()).run()
    began = time.monotonic()
    sender = Sender(broker.send_address, queue=QUEUE, client_id="busy")
    async with asyncio.timeout(SECONDS):
        await Source.from_iterable([batch] * (messages // BATCH)).to(sender).run()
        await receiving
    return messages / (time.monotonic() - began)


async def measure(idle: int, once: bool, rounds: int, messages: int, limit: int) -> tuple[float, float]:
    """The medians of the rates alone, and beside ``idle`` senders."""
    alone: list[float] = []
    beside: list[float] = []
    for _ in range(rounds):
        async with Broker(["--memory", "--max-queue-messages", str(limit)]) as broker:
            await broker.start()
            await rate(broker, messages // 10)
            alone.append(await rate(broker, messages))
            waiting = asyncio.get_running_loop().create_future()
            first = [PAYLOAD] if once else []
            runs = [
                Source.from_iterable(first)
                .concat(Source.future(waiting))
                .to(Sender(broker.send_address, queue=QUEUE))
                .run()
                for _ in range(idle)
            ]
            async with asyncio.timeout(SECONDS), Administration(broker.send_address) as administration:
                while await _senders(administration) < idle:
                    await asyncio.wait([waiting], timeout=0.05)
                if once:
                    receiver = Receiver(broker.receive_address, queue=QUEUE, limit=idle).batches()
                    await receiver.to(Sink.acknowledge()).run()
            beside.append(await rate(broker, messages))
            waiting.cancel()
            await asyncio.gather(*runs, return_exceptions=True)
    return median(alone), median(beside)


async def _senders(administration: Administration) -> int:
    (queue,) = await administration.queues()
    return int(queue["senders"])


def main(
    idle: Annotated[int, typer.Option(min=1, metavar="N", help="Idle senders.")] = 500,
    once: Annotated[bool, typer.Option("--once", help="Each has sent a message first.")] = False,
    rounds: Annotated[int, typer.Option(min=1, metavar="N", help="Of alone and beside them.")] = 3,
    messages: Annotated[int, typer.Option(min=BATCH, metavar="N", help="Sent in each measurement.")] = 200_000,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="The queue's max_messages.")] = 10_000,
) -> None:
    """Measure a busy sender alone and beside idle ones, and tell the share that it keeps."""
    raise_file_limit(2 * idle)
    alone, beside = asyncio.run(measure(idle, once, rounds, messages, limit))
    text = (
        f"alone {alone:,.0f}/s, beside {idle} idle senders {beside:,.0f}/s: {beside / alone:.2f} (at least {SHARE})\n"
    )
    sys.stdout.write(text)
    raise typer.Exit(0 if beside >= SHARE * alone else 1)


if __name__ == "__main__":
    typer.run(main)
