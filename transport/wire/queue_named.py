"""How HELLO names the queue of a sender or receiver: one that is made where there is none, or one that must be there.

The second is named in an option, with nil in the field. So a broker from before the option refuses HELLO, for a queue is missing in it;
had the option stood beside the name, it would have made the queue. docs/protocol.md, section "Opening and closing".
"""

from __future__ import annotations

from typing import Final

from transport.errors import BrokerError, OldBrokerError, RemoteProtocolError
from transport.wire.messages import VERSION, Hello, Options, brief
from transport.wire.names import check_name

EXISTING_QUEUE: Final = "existing_queue"
"""The option."""
ROLES: Final = frozenset({"sender", "receiver"})
"""Those that know it."""


def hello_of(role: str, queue: str, client_id: str | None, options: Options, *, create: bool) -> Hello:
    """HELLO of a client; without ``create`` the queue must be there."""
    if create:
        return Hello(VERSION, role, queue, client_id, options)
    return Hello(VERSION, role, None, client_id, {**options, EXISTING_QUEUE: queue})


def with_queue(hello: Hello) -> tuple[Hello, bool]:
    """HELLO with its queue in the field, wherever it was named, and whether the queue may be made.

    Raises:
        RemoteProtocolError: it is named in both places, or the option is no text.
        InvalidNameError: a name out of its limits.
    """
    existing = hello.options.get(EXISTING_QUEUE)
    if existing is None or hello.role not in ROLES:
        return hello, True
    if not isinstance(existing, str):
        raise RemoteProtocolError(f"HELLO: {EXISTING_QUEUE} is {brief(existing)}, not a name")
    if hello.queue is not None:
        raise RemoteProtocolError(f"HELLO names a queue and {EXISTING_QUEUE}: the field is nil beside the option")
    return Hello(hello.version, hello.role, check_name(existing, "queue"), hello.client_id, hello.options), False


def refusal(error: Exception, address: object, *, create: bool) -> Exception:
    """``error`` in better words where a broker has refused the option for its age."""
    # The name itself was judged before it was sent.
    if create or not isinstance(error, BrokerError) or error.code != "invalid-name":
        return error
    better = OldBrokerError(
        f"the broker at {address} is older than this client and makes every queue that it is asked for: update it, or "
        "let it make the queue (create=True)"
    )
    better.__cause__ = error
    return better
