"""Why something about schedules is refused. Nothing has changed by what is refused, and no connection ends by it."""

from __future__ import annotations

from actors.errors import QueueError


class ScheduleError(QueueError):
    """Something about a schedule was refused."""

    close = False


class InvalidScheduleError(ScheduleError, ValueError):
    """A schedule that cannot be: the text says what of it, and what is possible."""

    code = "protocol-error"


class ScheduleNotFoundError(ScheduleError):
    """There is no schedule of this name."""

    code = "not-found"

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no schedule {name!r:.255}")


class ScheduleExistsError(ScheduleError):
    """A schedule is declared that is there and says something else."""

    code = "already-exists"

    def __init__(self, name: str, differs: str) -> None:
        super().__init__(f"schedule {name!r:.255} is there with another {differs}: replace it, or remove it first")


class ScheduleLimitError(ScheduleError):
    """A named limit is reached.

    Attributes:
        limit: its name.
        bound: its value.
    """

    code = "limit-exceeded"

    def __init__(self, what: str, size: int, limit: str, bound: int, advice: str) -> None:
        super().__init__(f"{what}: {size} exceed {limit} of {bound}: {advice}")
        self.limit = limit
        self.bound = bound
