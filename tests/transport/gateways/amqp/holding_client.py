"""A client of pika that holds a message until it is killed: ``python -m`` this module ``PORT QUEUE HEARTBEAT``.

It says the name of a queue of its own on its standard output once it has a message of QUEUE, and goes on as a client that waits for more.
"""

from __future__ import annotations

import sys

import pika


def main() -> None:
    """The process."""
    port, queue, heartbeat = sys.argv[1:]
    parameters = pika.ConnectionParameters("127.0.0.1", int(port), heartbeat=int(heartbeat))
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        own = channel.queue_declare("", exclusive=True).method.queue
        channel.basic_qos(prefetch_count=1)
        channel.basic_consume(queue, lambda *_: print(own, flush=True))
        channel.start_consuming()


if __name__ == "__main__":
    main()
