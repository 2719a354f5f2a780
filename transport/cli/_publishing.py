"""What ``send --exchange`` has beside: where it publishes, and what no queue took."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from transport.cli import _written as written
from transport.cli._exchange_options import check_or_default, check_text, shown_exchange
from transport.cli._run import tell

if TYPE_CHECKING:
    from transport.clients.sender_session import ReturnedMessage

MOST_TOLD: Final = 10
"""Messages that came back of which a line tells; the others are counted."""


def check_routing_key(said: str | None) -> str | None:
    """Typer callback: a text that can be a routing key."""
    if check_text(said):
        from actors.exchanges.limits import MAX_ROUTING_KEY_BYTES  # noqa: PLC0415 - where one is given

        size = len((said or "").encode())
        if size > MAX_ROUTING_KEY_BYTES:
            raise typer.BadParameter(f"{size} bytes, and a routing key has {MAX_ROUTING_KEY_BYTES} at most")
    return said


Exchange = Annotated[
    str | None,
    typer.Option(
        "--exchange",
        metavar="E",
        help="Publish to this exchange, in place of a queue; '' is the default exchange.",
        callback=check_or_default,
    ),
]
RoutingKey = Annotated[
    str | None,
    typer.Option(
        "--routing-key",
        metavar="K",
        help="With --exchange: of the messages that have no key of their own.",
        callback=check_routing_key,
    ),
]
Mandatory = Annotated[bool, typer.Option("--mandatory", help="With --exchange: say what no queue took, and fail then.")]


class CameBack:
    """What came back, told as it comes: the first few message by message.

    Attributes:
        count: how many did.
    """

    def __init__(self, verb: str) -> None:
        self._verb = verb
        self.count = 0

    def __call__(self, returned: ReturnedMessage) -> None:
        """One came back."""
        self.count += 1
        if self.count > MOST_TOLD:
            return
        key = (returned.message.key or b"").decode("utf-8", "replace")
        # The reason is that of the first of several, and says its key.
        why = f": {returned.reason}" if self.count == 1 or repr(key) in returned.reason else " too"
        named = f", key {key}," if key else ""
        tell(self._verb, f"message {returned.sequence + 1:,}{named} came back{why}")

    def tell_the_rest(self) -> None:
        """Count those that no line tells of."""
        if self.count > MOST_TOLD:
            tell(self._verb, f"{written.count(self.count - MOST_TOLD)} more came back")


class Target(NamedTuple):
    """Where messages go: a queue, or an exchange.

    Attributes:
        queue, exchange: the name of one of them.
        routing_key: of messages that have no key.
        mandatory: whether what no queue takes comes back.
        came_back: what did.
    """

    queue: str | None
    exchange: str | None
    routing_key: str | None
    mandatory: bool
    came_back: CameBack

    def __str__(self) -> str:
        if self.exchange is None:
            return f"in queue {self.queue}"
        return f"by exchange {shown_exchange(self.exchange)}"

    def options(self) -> dict[str, Any]:
        """What a sender to an exchange is given beside."""
        if self.exchange is None:
            return {}
        told = {"mandatory": True, "on_returned": self.came_back} if self.mandatory else {}
        return {"exchange": self.exchange, "routing_key": self.routing_key, **told}


def target_of(
    verb: str,
    queue: str | None,
    exchange: str | None,
    routing_key: str | None,
    key: str | None,
    *,
    mandatory: bool,
    no_create: bool,
) -> Target:
    """Where messages are to go; what cannot be is wrong usage."""
    if queue is None and exchange is None:
        raise typer.BadParameter("--queue Q is missing, or --exchange E in its place")
    if queue is not None and exchange is not None:
        raise typer.BadParameter("--queue and --exchange exclude one another")
    if exchange is None:
        if routing_key is not None or mandatory:
            raise typer.BadParameter(f"{'--mandatory' if mandatory else '--routing-key'} goes with --exchange")
    elif no_create:
        raise typer.BadParameter("--no-create goes with --queue: an exchange makes no queue")
    elif routing_key is not None and key is not None:
        raise typer.BadParameter("--key and --routing-key exclude one another: the key is what an exchange goes by")
    return Target(queue, exchange, routing_key, mandatory, CameBack(verb))
