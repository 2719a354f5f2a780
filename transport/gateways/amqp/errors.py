"""What a peer is told that broke AMQP: a reply code, a text as RabbitMQ has it, and which method it was about."""

from __future__ import annotations

from typing import Final

from transport.errors import RemoteProtocolError
from transport.gateways.amqp.reply_codes import CLOSES_CHANNEL, ReplyCode

MOST_TEXT_BYTES: Final = 255
"""Of a reply text: it is a short string. A longer one ends with three dots."""
_DOTS: Final = b"..."
_SHOWN_BYTES: Final = 16


class AmqpError(RemoteProtocolError):
    """A peer broke the protocol, or asked for what it cannot have.

    Args:
        reply_code: what it is told.
        explanation: the text behind the code's name.
        index: the index of the method that it is about; 0 for none.
        channel: the channel; 0 for the connection itself.
    """

    def __init__(self, reply_code: ReplyCode, explanation: str, index: int = 0, channel: int = 0) -> None:
        super().__init__(f"{reply_code.name} - {explanation}")
        self.reply_code = reply_code
        self.explanation = explanation
        self.index = index
        self.channel = channel

    @property
    def reply_text(self) -> str:
        """The text for ``close``, at most ``MOST_TEXT_BYTES`` of UTF-8."""
        return short_text(str(self))

    @property
    def class_id(self) -> int:
        """The class of the method that it is about; 0 for none."""
        return self.index >> 16

    @property
    def method_id(self) -> int:
        """The method that it is about; 0 for none."""
        return self.index & 0xFFFF

    @property
    def closes_connection(self) -> bool:
        """Whether the connection ends with it, and not its channel alone."""
        return self.channel == 0 or self.reply_code not in CLOSES_CHANNEL

    def about(self, index: int, channel: int) -> AmqpError:
        """The same with the method and the channel, where it has none yet."""
        self.index = self.index or index
        self.channel = self.channel or channel
        # Whoever keeps it is mostly in the way that it came through: without a cycle all of that is free at once.
        self.__traceback__ = None
        return self


class WrongProtocolError(AmqpError):
    """What came first is no protocol header of AMQP 0-9-1. The answer is ours, ``PROTOCOL_HEADER``, and the end of the connection."""

    def __init__(self, explanation: str) -> None:
        super().__init__(ReplyCode.FRAME_ERROR, explanation)


class InUseError(AmqpError):
    """A queue is another's alone, or is wanted for one while others receive from it.

    Args:
        text: how texts speak of the queue.
        perhaps_left: whether nobody says so but the queue, which hears of who has left a little later.

    Attributes:
        perhaps_left: as given.
    """

    def __init__(self, text: str, *, perhaps_left: bool) -> None:
        super().__init__(ReplyCode.ACCESS_REFUSED, f"{text} in exclusive use")
        self.perhaps_left = perhaps_left


def short_text(text: str) -> str:
    """``text`` as fits a short string: where it is too long, cut between characters, with three dots."""
    encoded = text.encode("utf-8", "replace")
    if len(encoded) <= MOST_TEXT_BYTES:
        return encoded.decode()
    return (encoded[: MOST_TEXT_BYTES - len(_DOTS)]).decode("utf-8", "ignore") + _DOTS.decode()


def erlang_binary(data: bytes) -> str:
    """Bytes as RabbitMQ's texts show them: in quotes where all can be printed, otherwise as numbers."""
    if data and all(0x20 <= each < 0x7F for each in data):
        text = data.decode("ascii").replace("\\", "\\\\").replace('"', '\\"')
        return f'<<"{text}">>'
    return erlang_numbers(data)


def erlang_numbers(data: bytes) -> str:
    """Bytes as numbers, the way RabbitMQ's texts have them."""
    return f"<<{','.join(map(str, data))}>>"


def frame_text(kind: int, payload: bytes) -> str:
    """How RabbitMQ's texts speak of a frame: its type and how it begins."""
    how = "all" if len(payload) <= _SHOWN_BYTES else f"first {_SHOWN_BYTES}"
    return f"type {kind}, {how} octets = {erlang_binary(payload[:_SHOWN_BYTES])}"
