"""Why the directory of queues refuses to make a queue, or to find one."""

from __future__ import annotations

from actors.errors import QueueError


class TooManyQueuesError(QueueError):
    """The broker has as many queues as it may have."""

    code = "limit-exceeded"

    def __init__(self, name: str, limit: int) -> None:
        super().__init__(
            f"queue {name!r} would be number {limit + 1}; {limit} is the limit: delete one, or raise max_queues"
        )
        self.limit = limit


class QueueExistsError(QueueError):
    """A queue is declared that exists with other settings."""

    code = "already-exists"


class QueueNotFoundError(QueueError):
    """A command names a queue that does not exist."""

    code = "not-found"

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no queue {name!r:.255}")
