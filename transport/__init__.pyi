from .broker.broker import Broker
from .clients.administration import Administration
from .clients.backoff import Backoff
from .clients.delivery import DeliveredBatch, Delivery
from .clients.receiver import Receiver
from .clients.sender import Sender, SendSummary
from .clients.sender_session import Confirmation
from .clients.stage_client import StageClient
from .clients.transaction_client import TransactionClient
from .config.config import BrokerConfig
from .errors import (
    AuthenticationError,
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
from .security.access import Access, Tls
from .wire.address import DEFAULT_RECEIVE_ADDRESS, DEFAULT_SEND_ADDRESS, Address, parse_address
from .wire.timing import Timed
from .wire.transaction_options import EnlistedStage
from .wire.values import BinaryColumn, Message, MessageBatch

__all__ = [
    "DEFAULT_RECEIVE_ADDRESS",
    "DEFAULT_SEND_ADDRESS",
    "Access",
    "Address",
    "Administration",
    "AuthenticationError",
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
    "Tls",
    "TransactionClient",
    "TransportError",
    "parse_address",
]
