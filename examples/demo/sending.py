"""The sender's process: `python -m examples.demo.sending ADDRESS QUEUE ROOT [--only-python]`."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from examples.demo.text import Text
from streams import Source
from transport import Sender, SendSummary, TransportError


def send(address: str, queue: str, text: Text) -> SendSummary:
    """Send every line; the files are read at the pace that the broker grants."""
    return Source.iterable(text.messages).to(Sender(address, queue=queue)).run_blocking()


def main() -> int:
    """Prints what was sent and confirmed as a line of JSON."""
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
