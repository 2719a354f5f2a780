"""Framed TCP between the queue's actors and the programs that use them; docs/protocol.md is the protocol."""

from __future__ import annotations

# First of all, while what is wrong can still be said.
from transport import _ours as _ours

# isort: split

from actors import EnlistedStage
from actors.batch import BinaryColumn, Message, MessageBatch
from transport.address import DEFAULT_RECEIVE_ADDRESS, DEFAULT_SEND_ADDRESS, Address, parse_address
from transport.administration import Administration
from transport.broker import Broker
from transport.client import Backoff
from transport.config import BrokerConfig
from transport.delivery import DeliveredBatch, Delivery
from transport.errors import (
    BadHeadersError,
    BrokerError,
    ConfirmedLostError,
    ConnectionLostError,
    DemandTimeoutError,
    ImpossibleTimeError,
    LocalProtocolError,
    MessageTooLargeError,
    QueueFullError,
    RemoteProtocolError,
    StageLostError,
    TransportError,
)
from transport.receiver import Receiver
from transport.sender import Sender, SendSummary
from transport.sender_session import Confirmation
from transport.stage_client import StageClient
from transport.timing import Timed
from transport.transaction_client import TransactionClient

__all__ = [
    "DEFAULT_RECEIVE_ADDRESS",
    "DEFAULT_SEND_ADDRESS",
    "Address",
    "Administration",
    "Backoff",
    "BadHeadersError",
    "BinaryColumn",
    "Broker",
    "BrokerConfig",
    "BrokerError",
    "Confirmation",
    "ConfirmedLostError",
    "ConnectionLostError",
    "DeliveredBatch",
    "Delivery",
    "DemandTimeoutError",
    "EnlistedStage",
    "ImpossibleTimeError",
    "LocalProtocolError",
    "Message",
    "MessageBatch",
    "MessageTooLargeError",
    "QueueFullError",
    "Receiver",
    "RemoteProtocolError",
    "SendSummary",
    "Sender",
    "StageClient",
    "StageLostError",
    "Timed",
    "TransactionClient",
    "TransportError",
    "parse_address",
]
