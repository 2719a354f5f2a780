"""The subscriber that is no more: takes its place where a subscription is kept longer than its subscriber (rule 3.13)."""

from __future__ import annotations

from typing import Any, Final

from streams.contract import Subscriber, Subscription


class _Nobody(Subscriber[Any]):
    """Hears nothing."""

    __slots__ = ()

    def on_subscribe(self, subscription: Subscription) -> None:
        """Nothing."""

    def on_next(self, element: Any) -> None:
        """Nothing."""

    def on_error(self, error: BaseException) -> None:
        """Nothing."""

    def on_complete(self) -> None:
        """Nothing."""


NOBODY: Final[Subscriber[Any]] = _Nobody()
