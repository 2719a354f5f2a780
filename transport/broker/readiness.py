"""Whether a broker is ready to be used: what somebody who distributes clients, or starts one process after another, wants to know."""

from __future__ import annotations

from typing import TYPE_CHECKING

from transport.broker.served import SHUTTING_DOWN

if TYPE_CHECKING:
    from actors.storage import Storage
    from transport.broker.leadership import Leadership
    from transport.broker.served import Connections


def why_unready(
    connections: Connections, storage: Storage | None, leadership: Leadership | None = None
) -> tuple[str, str] | None:
    """Code and text of the reason; None while it is ready.

    What is stored has been recovered before any listener listens, so nobody can ask earlier. Where senders are paused it is ready: its
    receivers have to make room. One that does not lead its cluster is not: nobody can use a queue of it.
    """
    if storage is not None and storage.failure is not None:
        return "journal-failed", f"the broker can store nothing any more and stops: {storage.failure}"
    if connections.ending:
        return SHUTTING_DOWN
    return None if leadership is None else leadership.unready()
