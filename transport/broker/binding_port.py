"""What the ports of the receiving address share: WELCOME that waits until the queue is bound, as the client has asked for."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Final

from transport.broker.commands import refusal
from transport.broker.operations import Operations
from transport.broker.port import Client, Port
from transport.wire.messages import Options
from transport.wire.receiver_bindings import BOUND, Binding

ATTACHED: Final = "attached"
"""That the queue knows the client, among what WELCOME waits for."""


class BindingPort(Port):
    """A port whose client may have its queue bound before anything is delivered."""

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self._greeting: Options = {}
        self._awaited = {ATTACHED}

    def bind_first(
        self, operations: Operations, queue: str, bindings: Sequence[Binding], *, only: bool = False
    ) -> None:
        """Have the queue bound, and with ``only`` to nothing else of these exchanges; WELCOME says that it is."""
        if bindings:
            self._awaited.add(BOUND)
            bind = operations.bind_only if only else operations.bind
            operations.tasks.start(self._bind(bind(queue, bindings), len(bindings)), f"bind {queue:.40}")

    def greet(self, options: Options) -> None:
        """WELCOME has these options too."""
        self._greeting |= options

    def attached(self, options: Options) -> None:
        """The queue knows the client; WELCOME has these options."""
        self._came(ATTACHED, options)

    async def _bind(self, work: Awaitable[None], count: int) -> None:
        try:
            await work
        except Exception as error:  # noqa: BLE001 - it ends this connection only
            known = refusal(error)
            if known is None:
                self._client.failed(error)
            else:
                self._client.refused(*known)
        else:
            self._came(BOUND, {BOUND: count})

    def _came(self, what: str, options: Options) -> None:
        self._greeting |= options
        self._awaited.discard(what)
        if not self._awaited:
            self._client.welcome(self._greeting)
