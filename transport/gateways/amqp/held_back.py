"""Messages that no queue takes and that transactions keep until their commits: how much memory they may take together.

A client has them back with the commit. One that commits on none of its channels would have the broker keep some of each, and so would a
hundred such clients. So they are counted of a connection, whose client may not read what it has back, and of all.
"""

from __future__ import annotations

from typing import Final

from transport.gateways.amqp.basic_methods import BasicPublish
from transport.gateways.amqp.errors import AmqpError
from transport.gateways.amqp.reply_codes import ReplyCode

MOST_RETURNED_BYTES: Final = 16 << 20
"""Of all transactions of one connection."""
MOST_RETURNED_OF_ALL: Final = 128 << 20
"""Of all connections together."""


class HeldBack:
    """Of one connection, or of all.

    Args:
        of_all: what counts for all connections; None for that itself.

    Attributes:
        bytes: that are kept now.
    """

    def __init__(self, of_all: HeldBack | None = None) -> None:
        self.bytes = 0
        self._of_all = of_all

    def of_connection(self) -> HeldBack:
        """One connection's, where this is all connections'."""
        return HeldBack(self)

    def add(self, more: int) -> None:
        """So many bytes more are kept, or less."""
        self.bytes += more
        if self._of_all is not None:
            self._of_all.add(more)

    def too_much(self) -> AmqpError | None:
        """Why the transaction is to end that has added the last; None where it may go on."""
        others = 0 if self._of_all is None else self._of_all.bytes
        if self.bytes > MOST_RETURNED_BYTES:
            text = (
                f"{self.bytes} bytes of messages that no queue takes wait for the commit, above MOST_RETURNED_BYTES of "
                f"{MOST_RETURNED_BYTES} for a connection: commit more often, or bind a queue"
            )
        elif others > MOST_RETURNED_OF_ALL:
            text = (
                f"{others} bytes of messages that no queue takes wait for commits of all connections, above MOST_RETURNED_OF_ALL of "
                f"{MOST_RETURNED_OF_ALL}: commit more often, or bind a queue"
            )
        else:
            return None
        return AmqpError(ReplyCode.PRECONDITION_FAILED, text, BasicPublish.INDEX)
