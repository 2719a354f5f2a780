"""What a broker can be told."""

from __future__ import annotations

from dataclasses import dataclass

from actors import DEFAULT_MAX_QUEUES, QueueSettings
from transport.address import DEFAULT_RECEIVE_ADDRESS, DEFAULT_SEND_ADDRESS, parse_address
from transport.errors import LocalProtocolError
from transport.liveness import DEFAULT_HEARTBEAT

DEFAULT_MAX_CONNECTIONS = 10_000
"""Connections on both addresses together; each costs about 10 KiB while idle."""

_QUEUE = QueueSettings()


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """A broker's options.

    Attributes:
        send_address: where senders and administrators connect, ``host:port``; port 0 takes any free one.
        receive_address: where receivers and subscriptions connect.
        max_queue_messages: messages one queue stores, unless declared otherwise.
        max_queue_bytes: bytes one queue stores, unless declared otherwise.
        visibility_timeout: seconds until a message not acknowledged is receivable again.
        heartbeat: seconds between signs of life on a quiet connection; three of silence end it.
        max_connections: connections at one time.
        max_queues: queues at one time.

    Raises:
        LocalProtocolError: an address or a number that cannot be.
        ValueError: a queue limit that cannot be.
    """

    send_address: str = DEFAULT_SEND_ADDRESS
    receive_address: str = DEFAULT_RECEIVE_ADDRESS
    max_queue_messages: int = _QUEUE.max_messages
    max_queue_bytes: int = _QUEUE.max_bytes
    visibility_timeout: float = _QUEUE.visibility_timeout
    heartbeat: float = DEFAULT_HEARTBEAT
    max_connections: int = DEFAULT_MAX_CONNECTIONS
    max_queues: int = DEFAULT_MAX_QUEUES

    def __post_init__(self) -> None:
        parse_address(self.send_address)
        parse_address(self.receive_address)
        for name in ("heartbeat", "max_connections", "max_queues"):
            value = getattr(self, name)
            if not value > 0:
                raise LocalProtocolError(f"{name} is {value}; it must be more than zero")
        self.queue_settings()

    def queue_settings(self) -> QueueSettings:
        """What a queue gets that is not declared otherwise."""
        return QueueSettings(self.max_queue_messages, self.max_queue_bytes, self.visibility_timeout)
