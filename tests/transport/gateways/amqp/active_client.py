"""A client of pika that consumes until it is killed: ``python -m`` this module ``PORT QUEUE HEARTBEAT ACKNOWLEDGES``.

It holds five messages at most, says each on a line of its standard output as it comes, and acknowledges so many of them.
"""

from __future__ import annotations

import sys
from typing import Any

import pika

HOLDS = 5


def main() -> None:
    """The process."""
    port, queue, heartbeat, acknowledges = sys.argv[1:]
    parameters = pika.ConnectionParameters("127.0.0.1", int(port), heartbeat=int(heartbeat))
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        channel.basic_qos(prefetch_count=HOLDS)
        left = int(acknowledges)

        def came(_channel: Any, method: Any, _properties: Any, body: bytes) -> None:
            nonlocal left
            print(body.decode(), "again" if method.redelivered else "new", flush=True)
            if left:
                left -= 1
                channel.basic_ack(method.delivery_tag)

        channel.basic_consume(queue, came)
        channel.start_consuming()


if __name__ == "__main__":
    main()
