"""A Parquet file into a queue, and a queue into a Parquet file: `python examples/parquet.py send orders.parquet`."""

import argparse

import pyarrow.parquet as pq

from transport import DEFAULT_RECEIVE_ADDRESS, DEFAULT_SEND_ADDRESS, receive_arrow, send_arrow


def send(path: str, address: str, queue: str) -> None:
    """Send each row of a file with a column `payload` and, if it likes, `key`, `headers` and `id`; a part of it is in memory."""
    with pq.ParquetFile(path) as file:
        print(f"{send_arrow(address, queue, file.iter_batches()).messages} messages confirmed")


def receive(path: str, address: str, queue: str, count: int) -> None:
    """Write ``count`` messages, or those that there are, and acknowledge them when the file is complete."""
    with receive_arrow(address, queue, count=count, idle_exit=5.0, acknowledge="at-exit") as messages:
        with pq.ParquetWriter(path, messages.schema) as file:
            for records in messages:
                file.write_batch(records)
        print(f"{pq.read_metadata(path).num_rows} messages in {path}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("verb", choices=["send", "receive"])
    parser.add_argument("path")
    parser.add_argument("--address", help="the broker's, where it is not this machine's")
    parser.add_argument("--queue", default="orders")
    parser.add_argument("--count", type=int, default=1000, help="messages to receive, at most (1000)")
    options = parser.parse_args()
    if options.verb == "send":
        send(options.path, options.address or DEFAULT_SEND_ADDRESS, options.queue)
    else:
        receive(options.path, options.address or DEFAULT_RECEIVE_ADDRESS, options.queue, options.count)
