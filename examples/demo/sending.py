"""The sender's process: `python -m examples.demo.sending ADDRESS QUEUE ROOT [--only-python]`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from examples.demo.text import Text
from streams import Source
from transport import Message, Sender, SendSummary, TransportError

TELL_EVERY = 50_000
"""Messages after which the sender tells how far it is: the demo takes a process that is silent for long for one that hangs."""


def told(messages: Iterable[Message]) -> Iterator[Message]:
    """The same, and a line of JSON now and then."""
    for number, message in enumerate(messages, 1):
        if number % TELL_EVERY == 0:
            print(json.dumps({"sending": number}), flush=True)
        yield message


def send(address: str, queue: str, text: Text) -> SendSummary:
    """Send every line; the files are read at the pace that the broker grants."""
    return Source.iterable(lambda: told(text.messages())).to(Sender(address, queue=queue)).run_blocking()


def main() -> int:
    """Prints lines of JSON: how far it is, and at the end what was sent and confirmed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("address")
    parser.add_argument("queue")
    parser.add_argument("root", type=Path)
    parser.add_argument("--only-python", action="store_true")
    options = parser.parse_args()
    try:
        summary = send(options.address, options.queue, Text(options.root, options.only_python))
    except (TransportError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    print(json.dumps({"messages": summary.messages}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
