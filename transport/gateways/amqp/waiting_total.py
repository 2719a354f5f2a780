"""What all connections of AMQP have published that waits for the room of its queues: how much memory it may take together.

A connection whose messages wait is read no more, but its last message may be a large one. A hundred publishers to full queues would keep a
hundred of them. So a large one that has to wait while others take the memory is refused, by a code that the specification has for it.
"""

from __future__ import annotations

from typing import Final

from transport.gateways.amqp.basic_methods import BasicPublish
from transport.gateways.amqp.errors import AmqpError
from transport.gateways.amqp.reply_codes import ReplyCode

MOST_WAITING_OF_ALL: Final = 256 << 20
"""Bytes that wait of all connections, above which a large message that would wait too is refused: two of the largest."""
LARGE_BYTES: Final = 1 << 20
"""Of a message that is refused then; smaller ones wait within what each connection may have."""


class WaitingTotal:
    """Of one gateway.

    Attributes:
        bytes: that wait now.
    """

    def __init__(self) -> None:
        self.bytes = 0

    def check(self, more: int, channel: int, *, counted: bool = False) -> None:
        """Whether so many bytes of a channel, with a large message, may wait beside what does; ``counted`` says that they are among it.

        Raises:
            AmqpError: CONTENT_TOO_LARGE: others take the memory.
        """
        others = self.bytes - more if counted else self.bytes
        if others > MOST_WAITING_OF_ALL:
            text = (
                f"{more} bytes wait for the room of their queues, and of what others have published {others} do, "
                f"more than {MOST_WAITING_OF_ALL}: publish it again later"
            )
            raise AmqpError(ReplyCode.CONTENT_TOO_LARGE, text, BasicPublish.INDEX, channel)
