"""The door: nobody but the broker's own rooms touches its queues, and whoever wants something of them goes through `Operations`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

import pytest

from transport.broker.broker_connection import PORTS
from transport.broker.operations import COMMANDS, OPERATIONS
from transport.security.principal import Right
from transport.wire.protocol import RECEIVING_ROLES, SENDING_ROLES

if TYPE_CHECKING:
    from collections.abc import Iterable

DOOR = "transport.broker.operations"
BEHIND_IT = {DOOR} | {
    f"transport.broker.{name}"
    for name in ("declarations", "operation_rows", "services", "broker", "commands", "listings")
}
"""They hold the queues, list them, and carry out what the door lets in."""
ROLES_ACTORS = {"SendToQueueSubscriber", "ReceiveFromQueuePublisher", "SubscriptionPublisher"}
QUEUES = {"QueueDirectory", "QueueActor"}
GATEWAYS_SEE = {DOOR, "transport.broker.takers", "transport.broker.publishers", "transport.broker.asked_to_publish"} | {
    f"transport.broker.{name}" for name in ("listener", "served", "attached", "strangers")
}
"""What a gateway may import of the broker: the door and what it gives, and what a connection of whatever protocol is made of."""
BROKERS = "transport.broker."
GATEWAYS = "transport.gateways."
NO_GATEWAY = "transport.gateways.listeners"
"""Makes the listeners that a broker's options ask for, Penstock's own among them."""
CARRIES_NATIVE = ("transport.gateways.http.upgrade", "transport.broker.broker_connection")
"""WebSocket carries the native protocol, whose connection goes through the door by itself."""


def past_the_door(sources: Iterable[Any]) -> list[str]:
    """Whoever starts a role's actor, has a queue or the directory, or as a gateway imports more of the broker than is for it."""
    found = []
    for source in sources:
        name = source.module
        if not name.startswith((BROKERS, GATEWAYS)):
            continue
        for node in ast.walk(source.tree):
            if isinstance(node, ast.ImportFrom):
                names = {alias.name for alias in node.names}
                if name != DOOR and names & ROLES_ACTORS:
                    found.append(f"{name} imports {sorted(names & ROLES_ACTORS)}: {DOOR} starts them")
                if name not in BEHIND_IT | {"transport.broker.watermarks"} and names & QUEUES:
                    found.append(f"{name} imports {sorted(names & QUEUES)}")
                module = node.module or ""
                if (
                    name.startswith(GATEWAYS)
                    and name != NO_GATEWAY
                    and module.startswith(BROKERS)
                    and module not in GATEWAYS_SEE
                    and (name, module) != CARRIES_NATIVE
                ):
                    found.append(f"{name} imports {module}: a gateway sees {sorted(GATEWAYS_SEE)}")
            elif isinstance(node, ast.Attribute) and node.attr == "queues" and name not in BEHIND_IT:
                found.append(f"{name}:{node.lineno} has queues")
    return found


def test_nobody_goes_past_the_door(product: Any) -> None:
    assert past_the_door(product) == []


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("transport/broker/sending_ports.py", "from actors import SendToQueueSubscriber"),
        ("transport/broker/receiving_ports.py", "def f(broker):\n    return broker.queues.get('q')"),
        ("transport/gateways/a/b.py", "from actors.queue.directory import QueueDirectory"),
        ("transport/gateways/a/b.py", "from transport.broker.commands import Commands"),
        ("transport/gateways/a/b.py", "def f(host):\n    return host.queues"),
    ],
)
def test_who_goes_past_the_door_is_found(snippet: Any, path: str, text: str) -> None:
    assert len(past_the_door([snippet(text, path)])) == 1


def test_what_goes_through_the_door_passes(snippet: Any) -> None:
    assert (
        past_the_door([snippet("from transport.broker.operations import Operations", "transport/gateways/a.py")]) == []
    )


def test_every_role_has_a_port_and_a_row() -> None:
    assert set(PORTS) == SENDING_ROLES | RECEIVING_ROLES
    assert {name for name, operation in OPERATIONS.items() if operation.handler is None} == set(PORTS)


def test_every_operation_asks_for_one_right_or_says_why_not() -> None:
    # An administrator is asked for each command.
    assert {name for name, operation in OPERATIONS.items() if operation.right is None} == {"admin"}
    for name in COMMANDS:
        operation = OPERATIONS[name]
        of_the_broker = operation.right in (Right.MONITOR, Right.ADMINISTER)
        assert of_the_broker is (operation.resource is None), name
