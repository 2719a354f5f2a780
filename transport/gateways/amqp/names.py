"""Names of what is in a virtual host, and what the broker calls it.

A virtual host is a beginning of names: what is called ``orders`` in the virtual host ``shop`` is the broker's
``shop/orders``. So rights on ``shop/*`` are rights on the virtual host. The virtual host ``/``, where everybody is who
asks for no other, has no beginning.
"""

from __future__ import annotations

from typing import Final

from transport.gateways.amqp.errors import AmqpError
from transport.gateways.amqp.reply_codes import ReplyCode

DEFAULT: Final = "/"
RESERVED: Final = "amq."
"""What begins so is the broker's own."""
_SEPARATOR: Final = "/"
_LINE_ENDS: Final = str.maketrans("", "", "\r\n")


class Names:
    """Those of one virtual host.

    Args:
        virtual_host: its name.

    Attributes:
        virtual_host: as given.
    """

    __slots__ = ("_beginning", "virtual_host")

    def __init__(self, virtual_host: str) -> None:
        self.virtual_host = virtual_host
        self._beginning = "" if virtual_host == DEFAULT else virtual_host + _SEPARATOR

    def queue(self, name: str) -> str:
        """What the broker calls a queue."""
        return self._beginning + name

    def exchange(self, name: str) -> str:
        """What the broker calls an exchange: those that are there from the start it has once, for all virtual hosts."""
        return name if not name or name.startswith(RESERVED) else self._beginning + name

    def shown_exchange(self, name: str) -> str:
        """What an exchange of the broker's is called here; one of another virtual host keeps its name."""
        return name.removeprefix(self._beginning)

    def queue_text(self, name: str) -> str:
        """How texts speak of a queue, as RabbitMQ's."""
        return f"queue '{name}' in vhost '{self.virtual_host}'"

    def exchange_text(self, name: str) -> str:
        """Likewise of an exchange."""
        return f"exchange '{name}' in vhost '{self.virtual_host}'"


def on_one_line(name: str) -> str:
    """A name without line ends, which RabbitMQ leaves out too."""
    return name.translate(_LINE_ENDS)


def check_new(kind: str, name: str) -> None:
    """Whether something may be made with this name.

    Raises:
        AmqpError: ACCESS_REFUSED: the name is reserved.
    """
    if name.startswith(RESERVED):
        raise AmqpError(ReplyCode.ACCESS_REFUSED, f"{kind} name '{name}' contains reserved prefix 'amq.*'")
