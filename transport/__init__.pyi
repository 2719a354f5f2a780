from .broker.broker import Broker
from .clients.administration import Administration
from .clients.arrow import receive_arrow, send_arrow
from .clients.arrow_reader import ArrowReader
from .clients.arrow_records import ArrowDelivery
from .clients.backoff import Backoff
from .clients.deaths import Death, deaths_in
from .clients.delivery import DeliveredBatch, Delivery
from .clients.handler_failures import ReceiverStatistics
from .clients.peeked import PeekedMessage
from .clients.receiver import Receiver
from .clients.scripts import receive, send
from .clients.sender import Sender, SendSummary
from .clients.sender_session import Confirmation, ReturnedMessage
from .clients.stage_client import StageClient
from .clients.tracing import Tracing
from .clients.transaction_client import TransactionClient
from .clients.waiting import Wait
from .config.config import BrokerConfig
from .consumer.consumer import Consumer
from .errors import (
    ArrowInputError,
    AuthenticationError,
    BadHeadersError,
    BrokerError,
    ConfirmedLostError,
    ConnectionLostError,
    DeadLetterError,
    DemandTimeoutError,
    HandlerProcessError,
    ImpossibleTimeError,
    LocalProtocolError,
    MessageTooLargeError,
    MoveStoppedError,
    OldBrokerError,
    PartlyFailedError,
    QueueFullError,
    RemoteProtocolError,
    StageLostError,
    TransportError,
    UnroutableError,
)
from .security.access import Access, Tls
from .wire.address import DEFAULT_RECEIVE_ADDRESS, DEFAULT_SEND_ADDRESS, Address, parse_address
from .wire.receiver_bindings import Binding
from .wire.timing import Timed
from .wire.transaction_options import EnlistedStage
from .wire.values import BinaryColumn, Message, MessageBatch

__all__ = [
    "DEFAULT_RECEIVE_ADDRESS",
    "DEFAULT_SEND_ADDRESS",
    "Access",
    "Address",
    "Administration",
    "ArrowDelivery",
    "ArrowInputError",
    "ArrowReader",
    "AuthenticationError",
    "Backoff",
    "BadHeadersError",
    "BinaryColumn",
    "Binding",
    "Broker",
    "BrokerConfig",
    "BrokerError",
    "Confirmation",
    "ConfirmedLostError",
    "ConnectionLostError",
    "Consumer",
    "DeadLetterError",
    "Death",
    "DeliveredBatch",
    "Delivery",
    "DemandTimeoutError",
    "EnlistedStage",
    "HandlerProcessError",
    "ImpossibleTimeError",
    "LocalProtocolError",
    "Message",
    "MessageBatch",
    "MessageTooLargeError",
    "MoveStoppedError",
    "OldBrokerError",
    "PartlyFailedError",
    "PeekedMessage",
    "QueueFullError",
    "Receiver",
    "ReceiverStatistics",
    "RemoteProtocolError",
    "ReturnedMessage",
    "SendSummary",
    "Sender",
    "StageClient",
    "StageLostError",
    "Timed",
    "Tls",
    "Tracing",
    "TransactionClient",
    "TransportError",
    "UnroutableError",
    "Wait",
    "deaths_in",
    "parse_address",
    "receive",
    "receive_arrow",
    "send",
    "send_arrow",
]
