"""Whoever asks at the door, and the rights that what they ask for takes: part of `operations`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from transport.broker import audit
from transport.broker.operation_rows import OPERATIONS
from transport.errors import ForbiddenError
from transport.security.principal import RESOURCE_RIGHTS, Principal, Right, name_of

if TYPE_CHECKING:
    from transport.broker.services import Services


class Asking:
    """One who asks.

    Args:
        services: what the door opens on.
        principal: who.

    Attributes:
        principal: who.
        peer: from where, for the log; whoever takes the connection says it.
    """

    __slots__ = ("_attached", "_services", "peer", "principal")

    def __init__(self, services: Services, principal: Principal) -> None:
        self._services = services
        self.principal = principal
        self.peer = "?"
        # What is attached now, or is to be committed, takes these.
        self._attached: set[tuple[Right, str | None]] = set()

    def renew(self, principal: Principal) -> bool:
        """Whoever asks may do something else from now on; whether that still allows what is attached."""
        self.principal = principal
        return all(principal.may(right, resource) for right, resource in self._attached)

    # Inside

    def _attach(self, right: Right, resource: str | None, operation: str, kind: str = "") -> None:
        """Something takes this right from now on, and as long as it is attached."""
        self._need(right, resource, operation, kind)
        self._attached.add((right, resource))

    def _check(self, name: str, resource: str | None = None) -> None:
        right = OPERATIONS[name].right
        if right is not None:
            self._need(right, resource, name)

    def _need_any(self, resource: str, operation: str, kind: str = "") -> None:
        """Refuse who has no right on a resource at all; whoever tells them logs it, with one of the rights: `ForbiddenError.log`."""
        if any(self.principal.may(right, resource) for right in RESOURCE_RIGHTS):
            return
        error = self._forbidden(Right.READ, resource, kind)
        error.right = None
        who, peer = self.principal.name, self.peer
        error.log = lambda right: audit.refused(who, right, operation, resource, peer)
        raise error

    def _need(self, right: Right, resource: str | None, operation: str, kind: str = "") -> None:
        """Refuse, and log it, unless the principal has the right; ``kind`` is in words what a resource is that is no queue."""
        if self.principal.may(right, resource):
            return
        audit.refused(self.principal.name, name_of(right), operation, resource, self.peer)
        raise self._forbidden(right, resource, kind)

    def _forbidden(self, right: Right, resource: str | None, kind: str) -> ForbiddenError:
        what = "the broker" if resource is None else f"{kind}{resource!r:.255}"
        text = f"{self.principal} may not {name_of(right)} {what}"
        return ForbiddenError(text, user=self.principal.name, right=name_of(right), resource=resource)
