"""What a file of RabbitMQ's definitions comes to: what is read of it, what is planned, and what is said of one that is none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples_tried import tried
from transport.gateways.amqp.definitions import Plan, WantedBinding, WantedExchange, WantedQueue, plan_of
from transport.gateways.amqp.definitions_file import MAX_FILE_BYTES, DefinitionsError, read_definitions
from transport.gateways.amqp.equivalence import DeclaredWith

FILES = Path(__file__).parent / "definitions"
NAMES = sorted(file.name for file in FILES.iterdir())
HOUR = 3600.0


def planned(name: str, virtual_hosts: dict[str, str] | None = None, virtual_host: str | None = None) -> Plan:
    return plan_of(read_definitions((FILES / name).read_bytes(), name, virtual_host), virtual_hosts or {})


def of(document: dict[str, Any]) -> Plan:
    return plan_of(read_definitions(json.dumps(document).encode(), "f.json"), {})


def queue_of(plan: Plan, name: str) -> WantedQueue:
    (found,) = [queue for queue in plan.queues if queue.name == name]
    return found


def said(queue: WantedQueue) -> dict[str, Any]:
    """The settings of a queue that are not those of one that AMQP declares with no arguments."""
    plain = {
        "max_messages": None,
        "max_bytes": None,
        "overflow": "block",
        "max_receives": None,
        "dead_letter_queue": None,
        "delay": 0.0,
        "ttl": None,
        "exclusive": False,
        "durable": True,
        "dead_letter_exchange": None,
        "dead_letter_routing_key": None,
        "expires": None,
        "single_active_consumer": False,
        "drop_failed": False,
        "groups": False,
        "max_priority": None,
        "deduplication_window": None,
        "max_deduplication_ids": 1_000_000,
    }
    assert plain.keys() == queue.settings.keys()
    return {key: value for key, value in queue.settings.items() if value != plain[key]}


def test_a_queue_that_expires_and_one_with_a_single_active_consumer_are_imported_as_such() -> None:
    queues = [
        {"vhost": "/", "name": name, "durable": True, "auto_delete": False, "arguments": arguments}
        for name, arguments in (("goes", {"x-expires": 60_000}), ("single", {"x-single-active-consumer": True}))
    ]
    plan = of({"rabbit_version": "4.1.4", "queues": queues})
    assert said(queue_of(plan, "goes")) == {"expires": 60.0}
    assert said(queue_of(plan, "single")) == {"single_active_consumer": True}
    assert declared(queue_of(plan, "single")) == (False, {"x-single-active-consumer": True})


def test_an_exchange_of_the_plugin_that_has_messages_wait_is_imported_with_its_inner_type() -> None:
    def exchange(name: str, **arguments: Any) -> dict[str, Any]:
        said = {"durable": True, "auto_delete": False, "internal": False, "arguments": arguments}
        return {"vhost": "/", "name": name, "type": "x-delayed-message", **said}

    odd = exchange("odd", **{"x-delayed-type": "x-odd"})
    good = exchange("later", **{"x-delayed-type": "topic", "alternate-exchange": "rest"})
    plan = of({"rabbit_version": "4.1.4", "exchanges": [good, odd, exchange("none")]})
    assert plan.exchanges == (WantedExchange("later", "topic", True, False, False, "rest", delayed=True),)
    assert any("there is no kind 'x-odd' here" in each for each in plan.left)
    assert not any("later" in each for each in plan.left)


def declared(queue: WantedQueue) -> tuple[bool, dict[str, Any]]:
    """What is kept of a queue's declaration: whether it goes with its last consumer, and its arguments."""
    found = DeclaredWith.of(queue.declared_with)
    assert found is not None
    return found.auto_delete, {name: value for name, _, value in found.arguments}


# What there is.


def test_exchanges_queues_and_bindings_are_planned_by_the_names_that_the_broker_gives_them() -> None:
    plan = planned("rabbitmq-3.13.json")
    assert plan.exchanges == (
        WantedExchange("late", "fanout", True, False, False, None),
        WantedExchange("news", "topic", True, False, False, "late"),
        WantedExchange("shop/late", "direct", True, False, True, None),
    )
    names = ["audit.logins", "audit.calls", "tasks", "newest", "shop/orders", "shop/returns"]
    assert [queue.name for queue in plan.queues] == names
    assert plan.bindings == (
        WantedBinding("news", "audit.logins", False, "login.#", {}),
        WantedBinding("news", "late", True, "late.*", {}),
        WantedBinding("amq.headers", "tasks", False, "", {"x-match": "any", "kind": "tea", "weight": 5}),
        WantedBinding("shop/amq.topic", "shop/orders", False, "eu.*", {}),
    )


def test_arguments_become_settings_and_are_kept_as_they_are_declared_by_clients() -> None:
    payments = queue_of(planned("rabbitmq-4.1.json"), "payments")
    assert said(payments) == {
        "max_messages": 100_000,
        "overflow": "reject",
        "dead_letter_queue": "payments.failed",
    }
    assert declared(payments) == (
        False,
        {
            "x-queue-type": "quorum",
            "x-max-length": 100_000,
            "x-overflow": "reject-publish",
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": "payments.failed",
        },
    )
    assert declared(queue_of(planned("rabbitmq-3.13.json"), "shop/returns")) == (True, {"x-queue-type": "classic"})
    tasks = queue_of(planned("rabbitmq-3.13.json"), "tasks")
    wanted = {"x-max-priority": 10, "x-queue-type": "classic"}
    assert (said(tasks), declared(tasks)) == ({"max_priority": 10}, (False, wanted))


def test_a_policy_becomes_settings_of_the_queues_that_it_matches_and_is_no_part_of_their_declaration() -> None:
    plan = planned("rabbitmq-3.13.json")
    logins = queue_of(plan, "audit.logins")
    # The operator's is less than the user's.
    limited = {"max_messages": 1_000, "overflow": "reject"}
    assert said(logins) == limited | {"ttl": HOUR, "dead_letter_exchange": "late"}
    assert declared(logins) == (False, {})
    # Its own time to live is less still, and where its dead letters go it says itself.
    assert said(queue_of(plan, "audit.calls")) == limited | {"ttl": 60.0, "dead_letter_exchange": "calls.late"}
    policies = ("policy audit of virtual host /", "operator policy bounded of virtual host /")
    assert logins.policies == policies
    orders = queue_of(plan, "shop/orders")
    assert said(orders) == {
        "max_receives": 6,
        "dead_letter_exchange": "shop/late",
        "dead_letter_routing_key": "orders",
    }
    assert orders.policies == ("policy late orders of virtual host shop",)
    # One of quorum queues is not for others, and one of another virtual host neither.
    assert said(queue_of(plan, "shop/returns")) == {}


def test_of_policies_that_match_the_one_with_the_greatest_priority_counts_alone() -> None:
    policy = {"vhost": "/", "pattern": "^a", "apply-to": "queues"}
    document = {
        "queues": [{"vhost": "/", "name": "a"}, {"vhost": "/", "name": "b"}],
        "policies": [
            policy | {"name": "low", "priority": -1, "definition": {"message-ttl": 1, "dead-letter-exchange": "x"}},
            policy | {"name": "high", "priority": 7, "definition": {"message-ttl": 5000}},
            policy | {"name": "no such", "priority": 9, "pattern": "^aa"},
        ],
    }
    plan = of(document)
    assert [said(queue) for queue in plan.queues] == [{"ttl": 5.0}, {}]


@pytest.mark.parametrize(
    ("own", "policy", "receives"), [(-1, 5, 6), (5, -1, 6), (3, 5, 4), (5, 3, 4), (-1, -2, None), (0, 5, 1)]
)
def test_of_limits_of_deliveries_the_least_counts_that_is_one(own: int, policy: int, receives: int | None) -> None:
    # As RabbitMQ's resolve_delivery_limit.
    document = {
        "queues": [{"vhost": "/", "name": "a", "arguments": {"x-delivery-limit": own}}],
        "policies": [{"vhost": "/", "name": "p", "pattern": "a", "definition": {"delivery-limit": policy}}],
    }
    (queue,) = of(document).queues
    assert queue.settings["max_receives"] == receives


def test_what_is_left_is_said_with_why() -> None:
    assert planned("rabbitmq-4.1.json").left == (
        "user admin: only a hash of a password is there, which is of no use here: penstock user add NAME",
        "permission of user admin in virtual host /: penstock user grant admin configure write read --on '*'",
        "1 global parameter: there is nothing like it here",
    )
    assert planned("rabbitmq-3.13.json").left == (
        "exchange 'spread' in vhost '/': there is no kind 'x-consistent-hash' here: there are direct, fanout, topic, headers",
        "queue 'events' in vhost '/': it is a stream: a native subscription reads a queue again and again (docs/queue.md)",
        "queue 'brief' in vhost '/': it is not durable: whoever uses it declares it",
        "queue 'my tasks' in vhost '/': the queue name 'my tasks' has white space or unprintable characters",
        (
            "binding from exchange 'spread' to queue 'tasks' in vhost '/' by '1', "
            "binding from exchange 'news' to queue 'events' in vhost '/' by '#': one of its ends is left"
        ),
        "policy mirrored of virtual host /: no queue here has a setting for ha-mode, ha-sync-mode",
        "policy audit of virtual host /: no queue here has a setting for queue-mode",
        "policy unrouted of virtual host shop: it is one for exchanges",
        "policies: they are settings of the queues that they match now, and of none that is declared later",
        "virtual host shop: queues are quorum by default: here clients say x-queue-type themselves",
        "users till, guest: only a hash of a password is there, which is of no use here: penstock user add NAME",
        "permission of user guest in virtual host /: penstock user grant guest configure write read --on '*'",
        (
            "permission of user till in virtual host shop: penstock user grant till read --on 'shop/*'; "
            "write ^orders$ is a pattern: grant names, or beginnings of names"
        ),
        "1 topic permission: rights are on names, and not on routing keys",
        "1 vhost-limits parameter, 2 global parameters: there is nothing like it here",
    )


def test_what_is_left_for_one_reason_is_said_once_however_much_it_is() -> None:
    queues = [{"vhost": "/", "name": f"q{number}", "durable": False} for number in range(1_234)]
    places = ", ".join(f"queue 'q{number}' in vhost '/'" for number in range(3))
    assert of({"queues": queues}).left == (f"{places} and 1,231 more: it is not durable: whoever uses it declares it",)


def test_a_virtual_host_begins_as_it_is_told_and_a_file_of_one_is_for_the_one_that_it_says_or_another() -> None:
    plan = planned("rabbitmq-3.13.json", {"shop": "", "/": "main."})
    assert [queue.name for queue in plan.queues][-3:] == ["main.newest", "orders", "returns"]
    for virtual_host, name in ((None, "shop/carts"), ("/", "carts"), ("test", "test/carts")):
        plan = planned("rabbitmq-4.1-virtual-host.json", virtual_host=virtual_host)
        assert [queue.name for queue in plan.queues] == [name]
        assert said(plan.queues[0]) == {"ttl": 1.0}
        assert plan.bindings == (WantedBinding(name, name, False, "", {}),)


# What is none.

BROKEN: list[tuple[str, bytes, str]] = [
    ("text", b'{"queues": [\n  {"name": "a",}\n]}', ":2:16: is no JSON: "),
    ("bytes", b'{"queues":\n "\xff"}', ":2: is not UTF-8: invalid start byte 0xff"),
    ("deep", b"[" * 100_000, ": is no JSON that can be read: "),
    ("other", b'{"hello": 1}', ": has no definitions: it is to be an object with users, "),
    ("list", b"[]", ": has no definitions: it is to be an object with users, "),
    ("section", b'{"queues": {}}', ": queues is {}, not a list"),
    ("row", b'{"queues": [{"name": "a"}, 7]}', ": queues[1] is 7, not an object"),
    ("no name", b'{"queues": [{"name": "a"}, {}]}', ": queues[1] has no name, which is a text"),
    ("name", b'{"queues": [{"name": 5}]}', ": queues[0].name is 5, not a text"),
    ("half", b'{"queues": [{"name": "\\ud800"}]}', ": queues[0].name has half a character, and is no text"),
    (
        "nan",
        b'{"queues": [{"name": "a", "arguments": {"x": NaN}}]}',
        ": is no JSON that can be read: NaN is no number of JSON",
    ),
    ("infinity", b'{"queues": [{"name": 1e999}]}', ": is no JSON that can be read: 1e999 is no number of JSON"),
    (
        "half in arguments",
        b'{"bindings": [{"source": "a", "destination": "b", "arguments": {"k": ["\\ud800"]}}]}',
        ": bindings[0].arguments has half a character, and is no text",
    ),
    ("flag", b'{"queues": [{"name": "a", "durable": "yes"}]}', ': queues[0].durable is "yes", not true or false'),
    ("table", b'{"queues": [{"name": "a", "arguments": [1]}]}', ": queues[0].arguments is [1], not an object"),
    (
        "priority",
        b'{"policies": [{"name": "a", "pattern": "", "priority": true}]}',
        ": policies[0].priority is true, not a whole number",
    ),
    (
        "operator",
        b'{"parameters": [{"component": "operator_policy", "name": "a", "value": []}]}',
        ": parameters[0].value is [], not an object",
    ),
    ("host", b'{"vhosts": [{"name": "a", "metadata": 3}]}', ": vhosts[0].metadata is 3, not an object"),
]


@pytest.mark.parametrize(("data", "text"), [pytest.param(*case[1:], id=case[0]) for case in BROKEN])
def test_of_a_file_that_is_broken_it_is_said_where(data: bytes, text: str) -> None:
    with pytest.raises(DefinitionsError) as caught:
        read_definitions(data, "f.json")
    assert str(caught.value).startswith(f"f.json{text}")


def test_a_file_that_is_too_large_is_not_read() -> None:
    with pytest.raises(DefinitionsError, match="is larger than"):
        read_definitions(bytes(MAX_FILE_BYTES + 1), "f.json")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(data=st.data(), value=VALUES)
@settings(max_examples=tried(150))
def test_whatever_stands_in_a_file_is_planned_or_is_the_one_error_that_says_where(
    data: st.DataObject, value: Any
) -> None:
    document = json.loads((FILES / data.draw(st.sampled_from(NAMES))).read_bytes())
    at: Any = document
    # Somewhere down the file another value stands.
    while True:
        keys = list(at) if isinstance(at, dict) else list(range(len(at)))
        key = data.draw(st.sampled_from(keys))
        if not isinstance(at[key], dict | list) or not at[key] or data.draw(st.booleans()):
            break
        at = at[key]
    at[key] = value
    text = "f.json"
    try:
        of(document)
    except DefinitionsError as error:
        text = str(error)
    assert text.startswith("f.json")
