"""Why a change of exchanges or bindings, or a publish, is refused. Nothing has changed by what is refused, and no connection ends by it."""

from __future__ import annotations

from actors.errors import QueueError


class ExchangeError(QueueError):
    """A change of definitions, or a publish to an exchange, was refused."""

    close = False


class InvalidExchangeNameError(ExchangeError, ValueError):
    """A name that no exchange can have."""

    code = "invalid-name"


class InvalidDefinitionError(ExchangeError, ValueError):
    """An unknown kind, or arguments or headers that are not what they have to be; the text says which, and what is possible."""

    code = "protocol-error"


class ReservedExchangeError(ExchangeError):
    """The exchange is the broker's own, or would have a name that the broker keeps for itself.

    Attributes:
        exchange: its name; empty for the default exchange.
    """

    code = "forbidden"

    def __init__(self, exchange: str, sentence: str) -> None:
        super().__init__(sentence)
        self.exchange = exchange


class InternalExchangeError(ExchangeError):
    """A message is published to an exchange that takes messages from other exchanges only.

    Attributes:
        exchange: its name.
    """

    code = "forbidden"

    def __init__(self, exchange: str) -> None:
        super().__init__(
            f"exchange {exchange!r} is internal, and takes messages from other exchanges only: publish to one that is "
            "bound to it"
        )
        self.exchange = exchange


class ExchangeNotFoundError(ExchangeError):
    """A command or a publish names an exchange that there is not.

    Attributes:
        exchange: its name.
    """

    code = "not-found"

    def __init__(self, exchange: str) -> None:
        super().__init__(f"there is no exchange {exchange!r:.255}: declare it first")
        self.exchange = exchange


class BoundQueueNotFoundError(ExchangeError):
    """A queue is to be bound that there is not.

    Attributes:
        queue: its name.
    """

    code = "not-found"

    def __init__(self, queue: str) -> None:
        super().__init__(f"there is no queue {queue!r:.255} that could be bound: declare it first")
        self.queue = queue


class ExchangeExistsError(ExchangeError):
    """An exchange is declared that is there already, and is another.

    Attributes:
        exchange: its name.
        field: what differs.
        present: what it is.
        declared: what it was declared as.
    """

    code = "already-exists"

    def __init__(self, exchange: str, field: str, present: object, declared: object) -> None:
        super().__init__(
            f"exchange {exchange!r} is there with {field} {present!r:.300}, and is declared with {declared!r:.300}: "
            "declare it as it is, or delete it first"
        )
        self.exchange = exchange
        self.field = field
        self.present = present
        self.declared = declared


class ExchangeInUseError(ExchangeError):
    """An exchange is to be deleted if nothing is bound to it, and something is.

    Attributes:
        exchange: its name.
        bindings: how many bindings it has.
    """

    code = "in-use"

    def __init__(self, exchange: str, bindings: int) -> None:
        super().__init__(
            f"exchange {exchange!r} has {bindings} bindings, and was to be deleted only if it has none: unbind them, or "
            "delete it with them"
        )
        self.exchange = exchange
        self.bindings = bindings


class TooManyPatternsError(ExchangeError):
    """An exchange has so many patterns that may match a message that it is not looked for which do.

    Attributes:
        bound: the value of MAX_MATCH_STEPS.
    """

    # Not a limit that passes: who sends it again, after a reconnect, is refused again.
    code = "protocol-error"

    def __init__(self, exchange_kind: str, bound: int, advice: str) -> None:
        super().__init__(
            f"the bindings of a {exchange_kind} exchange take more than the {bound} steps of MAX_MATCH_STEPS to match with "
            f"this message: {advice}"
        )
        self.bound = bound


class ExchangeLimitError(ExchangeError):
    """There would be more of something than there may be.

    Attributes:
        size: how much there would be.
        limit: the limit's name.
        bound: its value.
    """

    code = "limit-exceeded"

    def __init__(self, what: str, size: int, limit: str, bound: int, advice: str) -> None:
        super().__init__(f"{size} {what} exceed {limit} of {bound}: {advice}")
        self.size = size
        self.limit = limit
        self.bound = bound


class StoppingError(QueueError):
    """The broker is about to end, and what waits for the room of a queue is not stored any more: send it again later."""

    code = "shutting-down"

    def __init__(self) -> None:
        super().__init__("the broker is stopping; connect again later")
