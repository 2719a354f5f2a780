"""Names of what is in a virtual host, and what the broker calls it.

A virtual host is a beginning of names: what is called ``orders`` in the virtual host ``shop`` is the broker's
``shop/orders``, unless it is told another beginning. So rights on ``shop/*`` are rights on the virtual host. The
virtual host ``/``, where everybody is who asks for no other, has no beginning: it has all names of the broker, as they
are.
"""

from __future__ import annotations

import re
from typing import Final

from transport.gateways.amqp.errors import AmqpError
from transport.gateways.amqp.reply_codes import ReplyCode

DEFAULT: Final = "/"
RESERVED: Final = "amq."
"""What begins so is the broker's own."""
_LINE_ENDS: Final = str.maketrans("", "", "\r\n")
_IN_TEXT: Final = r"(?:(?<=[\s'\"(])|^)"
"""Where in a text a name may begin."""


class Names:
    """Those of one virtual host.

    Args:
        virtual_host: its name.
        beginning: of all names in it; empty for none.

    Attributes:
        virtual_host: as given.
        beginning: likewise.
    """

    __slots__ = ("_in_texts", "beginning", "virtual_host")

    def __init__(self, virtual_host: str = DEFAULT, beginning: str = "") -> None:
        self.virtual_host = virtual_host
        self.beginning = beginning
        self._in_texts = re.compile(_IN_TEXT + re.escape(beginning)) if beginning else None

    def queue(self, name: str) -> str:
        """What the broker calls a queue."""
        return self.beginning + name

    def exchange(self, name: str) -> str:
        """What the broker calls an exchange. The default exchange it has once: where that leads depends on its sender (`beginning`)."""
        return self.beginning + name if name else name

    def shown_name(self, name: str) -> str:
        """What a queue or an exchange of the broker's is called here; one of another virtual host keeps its name."""
        return name.removeprefix(self.beginning)

    def shown(self, text: str) -> str:
        """A text of the broker's, with names as they are here."""
        return text if self._in_texts is None else self._in_texts.sub("", text)

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
