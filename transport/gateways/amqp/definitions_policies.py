"""RabbitMQ's policies as arguments of queues: which policy counts for a queue, and what it comes to with the queue's own arguments.

A policy goes by a pattern of names and by its priority: of those that match the one counts whose priority is greatest,
and one of operators beside it. Numbers of several count as the least of them; else a queue's own argument goes before a
policy, and a policy before an operator's.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from transport.gateways.amqp.definitions_file import DefinedPolicy, DefinedQueue

DELIVERY_LIMIT: Final = "delivery-limit"
LEAST: Final = ("message-ttl", "expires", "max-length", "max-length-bytes", DELIVERY_LIMIT)
"""Keys whose least value counts."""
KEYS: Final = (*LEAST, "overflow", "dead-letter-exchange", "dead-letter-routing-key")
"""Keys that are arguments of queues too, with ``x-`` before them."""
_OF_QUEUES: Final = frozenset({"all", "queues"})


class _Policy(NamedTuple):
    """A policy whose pattern is ready."""

    policy: DefinedPolicy
    pattern: re.Pattern[str]

    def matches(self, queue: DefinedQueue) -> bool:
        """Whether it is one for this queue."""
        policy = self.policy
        kinds = {*_OF_QUEUES, f"{queue.kind}_queues"}
        return (
            policy.virtual_host == queue.virtual_host
            and policy.applies_to in kinds
            and self.pattern.search(queue.name) is not None
        )


class Policies:
    """The policies of a file.

    Args:
        policies: those of users and of operators.

    Attributes:
        left: policies that cannot be applied to a queue, or not all of them, each with why.
    """

    def __init__(self, policies: Iterable[DefinedPolicy]) -> None:
        self.left: list[tuple[str, str]] = []
        found: list[_Policy] = []
        for policy in policies:
            if policy.applies_to in ("exchanges", "streams"):
                self.left.append((policy_text(policy), f"it is one for {policy.applies_to}"))
                continue
            try:
                pattern = re.compile(policy.pattern)
            except re.error as error:
                why = f"its pattern {policy.pattern!r:.80} cannot be read: {error}"
                self.left.append((policy_text(policy), why))
                continue
            found.append(_Policy(policy, pattern))
            unknown = [key for key in policy.definition if key not in KEYS]
            if unknown:
                self.left.append((policy_text(policy), f"no queue here has a setting for {', '.join(unknown)}"))
        # Of two with one priority the first of the file.
        self._of_users = sorted((each for each in found if not each.policy.of_operator), key=_greatest_first)
        self._of_operators = sorted((each for each in found if each.policy.of_operator), key=_greatest_first)

    def applied(self, queue: DefinedQueue) -> tuple[dict[str, Any], tuple[str, ...]]:
        """The arguments that a queue has with its policies, and which these are."""
        effective = dict(queue.arguments)
        names = []
        for policies in (self._of_users, self._of_operators):
            one = next((each.policy for each in policies if each.matches(queue)), None)
            if one is None:
                continue
            given = {key: value for key, value in one.definition.items() if key in KEYS}
            if given:
                names.append(policy_text(one))
            for key, value in given.items():
                _take(effective, key, value)
        return effective, tuple(names)


def policy_text(policy: DefinedPolicy) -> str:
    """How a policy is spoken of."""
    kind = "operator policy" if policy.of_operator else "policy"
    return f"{kind} {policy.name} of virtual host {policy.virtual_host}"


def _take(effective: dict[str, Any], key: str, value: Any) -> None:
    name = f"x-{key}"
    there = effective.get(name)
    if there is None:
        effective[name] = value
    elif key in LEAST and type(there) is int and type(value) is int:
        # Of a limit of deliveries less than 0 is none.
        least = max if key == DELIVERY_LIMIT and min(there, value) < 0 else min
        effective[name] = least(there, value)


def _greatest_first(policy: _Policy) -> int:
    return -policy.policy.priority
