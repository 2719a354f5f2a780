"""A process that stands in for a member of a cluster: a broker that follows, or leads on a data directory, as its standard input says.

``follow SEND RECEIVE``: the leader's addresses, as many as are known. ``lead DIRECTORY``, or ``lead -`` in memory: what a take-over ends
with, without the replication before it. It says where it listens after each: ``follows SEND RECEIVE``, ``leads SEND RECEIVE``.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import AsyncExitStack

from examples.demo.child import die_with_parent
from transport import Broker, BrokerConfig
from transport.broker.leadership import Leadership


async def main() -> None:
    leadership = Leadership()
    send = receive = "127.0.0.1:0"
    async with AsyncExitStack() as stack:
        broker = await stack.enter_async_context(Broker(BrokerConfig(send, receive), leadership=leadership))
        send, receive = broker.send_address, broker.receive_address
        print("follows", send, receive, flush=True)
        while words := (await asyncio.to_thread(sys.stdin.readline)).split():
            if words[0] == "follow":
                told = zip(("send", "receive"), words[1:], strict=False)
                leadership.follow({name: [address] for name, address in told})
            else:
                await stack.aclose()
                directory = None if words[1] == "-" else words[1]
                leadership.lead()
                config = BrokerConfig(send, receive, directory=directory)
                await stack.enter_async_context(Broker(config, leadership=leadership))
            print("leads" if leadership.leads else "follows", send, receive, flush=True)


if __name__ == "__main__":
    die_with_parent()
    asyncio.run(main())
