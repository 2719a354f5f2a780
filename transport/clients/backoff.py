"""When a client comes back to a broker that it has lost: after which waits, after which errors, and for how long."""

from __future__ import annotations

from dataclasses import dataclass

from transport.errors import (
    AuthenticationError,
    BrokerError,
    QueueFullError,
    RemoteProtocolError,
    TruncatedFrameError,
)

CONNECT_TIMEOUT = 10.0
"""Seconds for one TCP connection attempt."""
DEFAULT_CONNECT_TIMEOUT = 10.0
"""Seconds in which the command line and `Administration` must reach a broker, refused attempts tried again."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long to wait between attempts to reach a broker.

    Attributes:
        minimum: seconds before the first retry.
        maximum: seconds that a wait grows to.
        factor: by which each wait exceeds the one before.
        jitter: share by which a wait is varied at random, so that many clients do not come back as one.
        give_up_after: seconds without a connection after which the stream fails; None for never. They begin anew behind a connection
            that was of use: something was confirmed or delivered on it, or the broker still spoke a heartbeat after WELCOME.
    """

    minimum: float = 0.1
    maximum: float = 5.0
    factor: float = 2.0
    jitter: float = 0.2
    give_up_after: float | None = 60.0

    def delay(self, attempt: int, chance: float) -> float:
        """Seconds to wait before retry ``attempt`` (0 the first); ``chance`` in 0..1 picks within the jitter."""
        # The exponent is capped only to keep the power finite; the maximum has long been reached by then.
        plain = min(self.maximum, self.minimum * self.factor ** min(attempt, 64))
        return plain * (1 + self.jitter * (2 * chance - 1))


def is_transient(error: Exception) -> bool:
    """Whether connecting again may help: network trouble does, a refusal, an answer or a broken protocol does not."""
    if isinstance(error, BrokerError):
        return error.transient
    if isinstance(error, AuthenticationError | QueueFullError):
        return False
    return isinstance(error, TruncatedFrameError) or not isinstance(error, RemoteProtocolError)
