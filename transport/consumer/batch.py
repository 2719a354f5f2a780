"""A list of messages on its way through a batch handler: what the handler gets, and what each message has come to."""

from __future__ import annotations

from typing import Any

from transport.clients.delivery import Delivery
from transport.consumer.parameters import Parameters
from transport.errors import PartlyFailedError

Outcomes = list[tuple[Delivery, Exception | None]]
"""The messages of a batch, and what each has failed with."""


class Batch:
    """A list of messages, decoded; what cannot be decoded has failed and is left out.

    Attributes:
        values: what the handler gets.
        errors: what has failed so far, by the message's place.
    """

    def __init__(self, parameters: Parameters, deliveries: list[Delivery]) -> None:
        self.values: list[Any] = []
        self.errors: dict[int, Exception] = {}
        self._places: list[int] = []
        self._deliveries = deliveries
        for place, delivery in enumerate(deliveries):
            try:
                (value,) = parameters.of(delivery)
            except Exception as error:  # noqa: BLE001 - it is this message's alone
                self.errors[place] = error
            else:
                self.values.append(value)
                self._places.append(place)

    def failed(self, error: Exception) -> None:
        """The handler has raised ``error``: all have failed, or those that it names."""
        failed: dict[int, Exception] = dict.fromkeys(range(len(self._places)), error)
        if isinstance(error, PartlyFailedError):
            if error.failed.keys() <= failed.keys():
                failed = error.failed
            else:
                error.add_note(
                    f"a batch of {len(failed)} has no other places than 0 to {len(failed) - 1}: all have failed"
                )
        self.errors |= {
            # Something else in an exception's place says at least that it has failed.
            self._places[place]: each if isinstance(each, Exception) else error
            for place, each in failed.items()
        }

    def outcomes(self) -> Outcomes:
        """Each message, and what it has failed with."""
        return [(delivery, self.errors.get(place)) for place, delivery in enumerate(self._deliveries)]
