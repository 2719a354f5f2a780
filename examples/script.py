"""A script without an event loop: sends three messages, then receives what there is. `python examples/script.py`."""

import argparse

from transport import DEFAULT_RECEIVE_ADDRESS, DEFAULT_SEND_ADDRESS, receive, send


def main(send_address: str, receive_address: str) -> None:
    """Send, receive, print."""
    summary = send(send_address, "notes", [b"one", b"two", b"three"])
    print(f"{summary.messages} messages confirmed")
    for delivery in receive(receive_address, "notes", idle_exit=1.0):
        print(delivery.payload.decode())  # acknowledged when the loop asks for the next message


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--send-address", default=DEFAULT_SEND_ADDRESS)
    parser.add_argument("--receive-address", default=DEFAULT_RECEIVE_ADDRESS)
    main(**vars(parser.parse_args()))
