"""What a Spark query leaves at a broker, without Spark: a subscription that holds a message, and messages staged for a commit.

`python examples/tour/nightly.py [SEND-ADDRESS RECEIVE-ADDRESS]` holds both until Ctrl-C. What is staged stays behind.
"""

import signal
import sys

from transport import DEFAULT_RECEIVE_ADDRESS, DEFAULT_SEND_ADDRESS, MessageBatch, StageClient
from transport.clients.subscription_client import SubscriptionClient


def main(send: str = DEFAULT_SEND_ADDRESS, receive: str = DEFAULT_RECEIVE_ADDRESS) -> None:
    """Reserve one message of queue orders, stage three for it, and wait."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    with SubscriptionClient(
        receive, queue="orders", subscription="report", mode="own", client_id="nightly/0"
    ) as reader:
        reader.reserve(0, 1, 1000)
        with StageClient(send, queue="orders", writer="nightly", version=12, stage="0-0") as writer:
            writer.send(MessageBatch.from_payloads([b"milk", b"rice", b"salt"]))
            writer.finish()
        print("one message reserved, three staged", flush=True)
        signal.sigwait({signal.SIGINT})


if __name__ == "__main__":
    main(*sys.argv[1:3])
