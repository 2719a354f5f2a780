"""Which source of a setting goes before which, where each value is from, and what is said of one that cannot be."""

from __future__ import annotations

import dataclasses
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors import QueueSettings
from transport.config.config import DEFAULT_DIRECTORY, BrokerConfig
from transport.config.settings import OPTIONS, QUEUE_OPTIONS, Option
from transport.config.settings_file import FileValue, SettingsError, SettingsFile, parse_settings
from transport.config.settings_sources import Resolved, resolve

SAMPLES: dict[str, tuple[str, Any, str, Any, str, Any]] = {
    # For each option three different values: as the file has them, the environment, the command line.
    "send_address": ('"[::1]:1"', "[::1]:1", "[::1]:2", "[::1]:2", "[::1]:3", "[::1]:3"),
    "receive_address": ('"[::1]:1"', "[::1]:1", "[::1]:2", "[::1]:2", "[::1]:3", "[::1]:3"),
    "data": ('"a"', "folder/a", "b", "b", "c", "c"),
    "memory": ("true", True, "true", True, "true", True),
    "heartbeat": ("1", 1, "2s", 2.0, "3", 3.0),
    "drain": ("1", 1, "2s", 2.0, "3", 3.0),
    "log_level": ('"info"', "info", "debug", "debug", "error", "error"),
    "log_format": ('"json"', "json", "text", "text", "json", "json"),
    "users_file": ('"a"', "folder/a", "b", "b", "/c", "/c"),
    "http": ('"127.0.0.1:1"', "127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:2", "", None),
    "amqp": ('"127.0.0.1:1"', "127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:2", "", None),
    "amqp_max_message_bytes": ('"1MiB"', 2**20, "2MiB", 2**21, "3", 3),
    "amqps": ('"127.0.0.1:1"', "127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:2", "", None),
    "amqp_virtual_hosts": ('"a"', {"a": "a/"}, "a, b=c.", {"a": "a/", "b": "c."}, "", {}),
    "smq_source": ('"127.0.0.1:1"', "127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:2", "", None),
    "smq_sink": ('"127.0.0.1:1"', "127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:2", "", None),
    "smq_queue": ('"a"', "a", "b", "b", "c", "c"),
    "insecure": ("true", True, "true", True, "true", True),
    "tls_certificate": ('"a"', "folder/a", "b", "b", "/c", "/c"),
    "tls_key": ('"a"', "folder/a", "b", "b", "/c", "/c"),
    "tls_client_ca": ('"a"', "folder/a", "b", "b", "/c", "/c"),
    "tls_client_certificates": ('"required"', "required", "optional", "optional", "required", "required"),
    "max_connections": ("1", 1, "2", 2, "3_0", 30),
    "max_unauthenticated": ("1", 1, "2", 2, "3", 3),
    "max_queues": ("1", 1, "2", 2, "3", 3),
    "memory_watermark": ('"10%"', 0.1, "0.2", 0.2, "30%", 0.3),
    "disk_floor": ('"1GiB"', 2**30, "2GiB", 2**31, "0", 0),
    "transaction_timeout": ('"1h"', 3600.0, "2m", 120.0, "3", 3.0),
    "sync": ('"interval"', "interval", "never", "never", "always", "always"),
    "sync_interval": ('"10ms"', 0.01, "20ms", 0.02, "0.03", 0.03),
    "segment_bytes": ('"1MiB"', 2**20, "2MiB", 2**21, "4194304", 2**22),
    "cache_bytes": ("0", 0, "2MiB", 2**21, "1", 1),
    "max_queue_messages": ("1", 1, "2", 2, "3", 3),
    "max_queue_bytes": ('"1kB"', 1000, "2kB", 2000, "3", 3),
    "visibility_timeout": ('"1m"', 60.0, "2m", 120.0, "3", 3.0),
    "overflow": ('"reject"', "reject", "block", "block", "reject", "reject"),
    "max_receives": ("1", 1, "2", 2, "never", None),
    "dead_letter_queue": ('"a"', "a", "b", "b", "", None),
    "delay": ("1", 1, "2s", 2.0, "3s", 3.0),
    "ttl": ('"1h"', 3600.0, "2h", 7200.0, "never", None),
    "exclusive": ("true", True, "false", False, "true", True),
    "max_staged_messages": ("1", 1, "2", 2, "3", 3),
    "max_staged_bytes": ('"1kB"', 1000, "2kB", 2000, "3", 3),
    "subscription_expiry": ('"7d"', 7 * 86400.0, "2h", 7200.0, "never", None),
    "durable": ("false", False, "true", True, "false", False),
    "dead_letter_exchange": ('"a"', "a", "b", "b", "", None),
    "dead_letter_routing_key": ('"a"', "a", "b", "b", "", None),
    "expires": ('"30m"', 1800.0, "2h", 7200.0, "never", None),
    "single_active_consumer": ("true", True, "false", False, "true", True),
    "retry_delay": ('"2s"', 2.0, "500ms", 0.5, "0", 0.0),
    "retry_max_delay": ('"10m"', 600.0, "1h", 3600.0, "0", 0.0),
    "drop_failed": ("true", True, "true", True, "false", False),
    "groups": ("true", True, "true", True, "false", False),
    "max_priority": ("5", 5, "9", 9, "none", None),
    "deduplication_window": ('"10m"', 600.0, "1h", 3600.0, "never", None),
    "max_deduplication_ids": ("5", 5, "6", 6, "7", 7),
    "cluster": ('"etcd://h/a"', "etcd://h/a", "etcd://h/b", "etcd://h/b", "etcd://h/c", "etcd://h/c"),
    "node": ('"a"', "a", "b", "b", "c", "c"),
    "cluster_members": ('"a=h"', "a=h", "a=i", "a=i", "a=j", "a=j"),
    "cluster_address": ('"[::1]:1"', "[::1]:1", "[::1]:2", "[::1]:2", "[::1]:3", "[::1]:3"),
    "advertise": ('"a"', "a", "b", "b", "c", "c"),
    "cluster_mode": ('"all"', "all", "one", "one", "majority", "majority"),
    "cluster_secret_file": ('"a"', "folder/a", "b", "b", "/c", "/c"),
    "cluster_certificate": ('"a"', "folder/a", "b", "b", "/c", "/c"),
    "cluster_key": ('"a"', "folder/a", "b", "b", "/c", "/c"),
    "cluster_ca": ('"a"', "folder/a", "b", "b", "/c", "/c"),
    "cluster_log_bytes": ('"1GiB"', 2**30, "2GiB", 2**31, "1MiB", 2**20),
    "auto_heal": ("true", True, "true", True, "false", False),
}

WITH_SECRET = '[cluster]\nregister = "etcd://h/o"\nsecret_file = "s"\n'

BASES = {
    # A dead-letter queue needs something that sends there.
    "dead_letter_queue": "[queue_defaults]\nttl = 9\n",
    "dead_letter_exchange": "[queue_defaults]\nttl = 9\n",
    "dead_letter_routing_key": '[queue_defaults]\nttl = 9\ndead_letter_exchange = "x"\n',
    "amqps": '[security]\ntls_certificate = "c"\ntls_key = "k"\n[amqp]\n',
    "tls_key": '[security]\ntls_certificate = "c"\n',
    "tls_client_ca": '[security]\ntls_certificate = "c"\n',
    "tls_client_certificates": '[security]\ntls_certificate = "c"\ntls_client_ca = "d"\n',
    **dict.fromkeys(("node", "cluster_members", "cluster_address", "advertise", "cluster_certificate"), WITH_SECRET),
    "cluster_secret_file": '[cluster]\nregister = "etcd://h/o"\ncertificate = "c"\nca = "d"\n',
    "cluster_key": f'{WITH_SECRET}certificate = "c"\n',
    "cluster_ca": f'{WITH_SECRET}certificate = "c"\n',
}
"""What some need that cannot be alone."""


def written(text: str, path: str = "folder/penstock.toml") -> SettingsFile:
    return SettingsFile(Path(path), tuple(parse_settings(text.encode(), path)))


def resolved(text: str = "", **sources: Any) -> Resolved:
    return resolve(
        sources.get("command_line", {}), sources.get("environment", {}), written(text), sources.get("queues", ())
    )


def problems(text: str = "", **sources: Any) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        resolved(text, **sources)
    return list(caught.value.problems)


def of(found: Resolved, key: str) -> tuple[Any, str]:
    (one,) = [setting for setting in found.in_force if setting.key == key]
    return one.value, str(one.origin)


# Precedence


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_the_command_line_goes_before_the_environment_and_that_before_the_file_and_that_before_the_default(
    option: Option,
) -> None:
    in_file, filed, in_environment, environed, on_line, lined = SAMPLES[option.name]
    base = BASES.get(option.name, "")
    header = "" if base else f"[{option.section}]\n"
    text = f"{base}{header}{option.key} = {in_file}\n"
    line = text.count("\n")
    environment, command_line = {option.variable: in_environment}, {option.name: on_line}
    assert of(resolved(base), option.path)[1] == "default"
    assert of(resolved(text), option.path) == (filed, f"folder/penstock.toml:{line}")
    assert of(resolved(text, environment=environment), option.path) == (environed, option.variable)
    both = resolved(text, environment=environment, command_line=command_line)
    assert of(both, option.path) == (lined, option.flag)


@pytest.mark.parametrize("option", [one for one in OPTIONS if one.name != "memory"], ids=lambda option: option.name)
def test_what_is_in_force_is_what_the_broker_gets(option: Option) -> None:
    value = SAMPLES[option.name][3]
    found = resolved(BASES.get(option.name, ""), environment={option.variable: SAMPLES[option.name][2]})
    assert getattr(found.config, option.field) == value
    if option.section == "queue_defaults":
        assert getattr(found.config.queue_settings(), option.key) == value


def test_every_field_of_the_configuration_can_be_set_and_every_setting_of_a_queue() -> None:
    fields = {field.name for field in dataclasses.fields(BrokerConfig)}
    assert {option.field for option in OPTIONS} == fields - {"queues"}
    assert list(QUEUE_OPTIONS) == [field.name for field in dataclasses.fields(QueueSettings)]
    assert SAMPLES.keys() == {option.name for option in OPTIONS}


def test_an_empty_variable_says_nothing() -> None:
    found = resolved('[journal]\nsync = "never"', environment={"PENSTOCK_SYNC": ""})
    assert of(found, "journal.sync") == ("never", "folder/penstock.toml:2")


# Where the journal is


def test_without_a_word_the_journal_is_in_the_folder_that_is_documented() -> None:
    found = resolved()
    assert found.config.directory == DEFAULT_DIRECTORY
    assert of(found, "broker.data") == (DEFAULT_DIRECTORY, "default")


def test_a_folder_in_the_file_is_beside_the_file_and_one_elsewhere_is_where_the_broker_starts() -> None:
    assert resolved('[broker]\ndata = "x/y"').config.directory == "folder/x/y"
    assert resolved('[broker]\ndata = "/x"').config.directory == "/x"
    assert resolved(command_line={"data": "x"}).config.directory == "x"


def test_a_tilde_is_the_users_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/users/ann")
    assert resolved('[broker]\ndata = "~/x"').config.directory == "/users/ann/x"
    assert resolved(environment={"PENSTOCK_DATA": "~/y"}).config.directory == "/users/ann/y"


@pytest.mark.parametrize(
    ("text", "environment", "command_line", "directory"),
    [
        ('[broker]\ndata = "x"', {"PENSTOCK_MEMORY": "true"}, {}, None),
        ("[broker]\nmemory = true", {"PENSTOCK_DATA": "y"}, {}, "y"),
        ("[broker]\nmemory = true", {"PENSTOCK_MEMORY": "no"}, {}, DEFAULT_DIRECTORY),
        ("", {"PENSTOCK_MEMORY": "1"}, {"data": "z"}, "z"),
        ("", {"PENSTOCK_DATA": "y"}, {"memory": "true"}, None),
        ('[broker]\nmemory = false\ndata = "/x"', {}, {}, "/x"),
    ],
)
def test_of_folder_and_memory_the_source_that_goes_first_decides(
    text: str, environment: dict[str, str], command_line: dict[str, str], directory: str | None
) -> None:
    found = resolved(text, environment=environment, command_line=command_line)
    assert found.config.directory == directory
    assert of(found, "broker.memory")[0] == (directory is None)


def test_folder_and_memory_from_one_source_exclude_one_another() -> None:
    assert problems(command_line={"data": "x", "memory": "true"}) == [
        "--memory: broker.memory and broker.data (--data) exclude one another"
    ]
    (problem,) = problems('[broker]\ndata = "x"\nmemory = true')
    assert problem.startswith("folder/penstock.toml:3: broker.memory and broker.data (folder/penstock.toml:2) exclude")


# Queues


def test_a_declared_queue_has_its_own_settings_and_the_defaults_for_the_rest() -> None:
    found = resolved(
        '[queue_defaults]\nttl = "1h"\nmax_messages = 7\n[queues.orders]\nmax_messages = 8\n[queues."a.b"]\nttl = "never"\n'
    )
    assert set(found.config.queues) == {"orders", "a.b"}
    orders, dotted = found.config.queues["orders"], found.config.queues["a.b"]
    assert (orders.max_messages, orders.ttl) == (8, 3600.0)
    assert (dotted.max_messages, dotted.ttl) == (7, None)
    assert of(found, "queues.orders.max_messages") == (8, "folder/penstock.toml:5")
    assert of(found, "queues.orders.ttl") == (3600.0, "folder/penstock.toml:2")
    assert of(found, "queues.orders.delay") == (0.0, "default")
    assert of(found, 'queues."a.b".ttl') == (None, "folder/penstock.toml:7")


def test_a_queue_in_memory_gets_the_limits_of_memory() -> None:
    found = resolved("[broker]\nmemory = true\n[queues.a]\n")
    assert found.config.queues["a"] == QueueSettings(max_staged_bytes=256 * 2**20)


def test_queues_are_declared_in_the_environment_and_on_the_command_line_too_setting_by_setting() -> None:
    found = resolved(
        "[queues.orders]\nmax_receives = 1\nmax_messages = 1\nttl = 1\n",
        environment={"PENSTOCK_QUEUES": "orders max_receives=2 max_messages=2\n\n  logs=x:y  ttl=5m exclusive=yes"},
        queues=["orders max_receives=3 dead_letter_queue=failed", "plain"],
    )
    orders = found.config.queues["orders"]
    assert (orders.max_receives, orders.max_messages, orders.ttl, orders.dead_letter_queue) == (3, 2, 1, "failed")
    assert of(found, "queues.orders.max_receives") == (3, "--queue")
    assert of(found, "queues.orders.max_messages") == (2, "PENSTOCK_QUEUES")
    logs = found.config.queues["logs=x:y"]
    assert (logs.ttl, logs.exclusive) == (300.0, True)
    assert found.config.queues["plain"] == found.config.queue_settings()


# Problems


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('sync = "always"', "1: unknown key sync; it belongs in [journal]"),
        ("[broker]\nmemmory = true", "2: unknown key broker.memmory; did you mean memory?"),
        ("[broker]\n\nzzz = true", "3: unknown key broker.zzz"),
        ("[broker]\nsync = 1", "2: unknown key broker.sync; it belongs in [journal]"),
        ("[jurnal]\nsync = 1", "1: unknown section jurnal; did you mean journal?"),
        (
            "[zzz.y]",
            "1: unknown section zzz; there are broker, security, http, amqp, smq, limits, journal, cluster, queue_defaults, queues",
        ),
        ("journal = 3", "1: journal is a section: write [journal] and its settings below it"),
        ("queues = 3", "1: queues is a section: write [queues.NAME] for each queue"),
        ("[journal.sync]", "1: journal.sync is a setting, not a section"),
        ("[journal]\nsync.x = 3", "2: journal.sync is a setting, not a section"),
        ("[journal.x]\ny = 3", "1: unknown section journal.x"),
        ('[journal]\nsync = "no"', "2: journal.sync: sync is 'no', not one of always, interval, never"),
        ("[journal]\nsync = 1", "2: journal.sync: 1 is not a text in quotes"),
        ('[journal]\nsegment_bytes = "5m"', "2: journal.segment_bytes: '5m' is no size: write bytes, or"),
        ("[journal]\nsegment_bytes = 1.5", "2: journal.segment_bytes: 1.5 is not a number of bytes or a text such as"),
        ("[journal]\ncache_bytes = true", "2: journal.cache_bytes: true is not a number of bytes"),
        ("[journal]\nsync_interval = [1]", "2: journal.sync_interval: [1] is not a number of seconds"),
        ("[broker]\nheartbeat = inf", "2: broker.heartbeat: inf is not a number of seconds"),
        ("[broker]\nheartbeat = 0", "2: broker.heartbeat: heartbeat is 0; it must be more than zero"),
        ('[broker]\nsend_address = "x"', "2: broker.send_address: the address 'x' is not host:port"),
        ('[limits]\nmax_queues = "7"', "2: limits.max_queues: '7' is not a whole number"),
        ('[limits]\nmemory_watermark = "101%"', "2: limits.memory_watermark: '101%' is no share"),
        ('[broker]\nmemory = "yes"', "2: broker.memory: 'yes' is not true or false"),
        (
            "[queue_defaults]\nmax_messages = 0",
            "2: queue_defaults.max_messages: max_messages is 0; 1 or more is possible",
        ),
        ('[queue_defaults]\nmax_receives = "x"', "2: queue_defaults.max_receives: 'x' is no whole number"),
        (
            "[queue_defaults]\nttl = false",
            '2: queue_defaults.ttl: false is not a number of seconds or a text such as "10s", or',
        ),
        (
            '[queue_defaults]\ndead_letter_queue = "q"\ndrop_failed = true',
            "2: drop_failed is set, and a place for dead letters is named",
        ),
        ("[queues.orders]\ntll = 3", "2: unknown key queues.orders.tll; did you mean ttl?"),
        ("[queues.orders]\nzzz = 3", "2: unknown key queues.orders.zzz; there are max_messages, max_bytes,"),
        ('[queues.orders]\nttl = "soon"', "2: queues.orders.ttl: 'soon' is no duration"),
        ("[queues]\norders = 3", "2: queues.orders is no setting: write [queues.NAME] for each queue"),
        (
            "[queues.orders.eu]\nttl = 1",
            "1: unknown section queues.orders.eu; a queue's name with a dot goes in quotes",
        ),
        ('[queues."a b"]', "1: the queue name 'a b' has white space"),
        (
            '[queues.q]\ndead_letter_queue = "d"\ndrop_failed = true',
            "2: queues.q: drop_failed is set, and a place",
        ),
        (
            '[queues.q]\nttl = 1\ndead_letter_queue = "a b"',
            "3: queues.q.dead_letter_queue: the dead-letter queue name 'a b'",
        ),
    ],
)
def test_a_problem_in_the_file_names_the_file_the_line_and_itself(text: str, problem: str) -> None:
    assert [said for said in problems(text) if not said.startswith(f"folder/penstock.toml:{problem}")] == []
    assert len(problems(text)) == 1


@pytest.mark.parametrize(
    ("sources", "problem"),
    [
        ({"environment": {"PENSTOCK_SYNC": "no"}}, "PENSTOCK_SYNC: sync is 'no', not one of"),
        ({"environment": {"PENSTOCK_EXCLUSIVE": "maybe"}}, "PENSTOCK_EXCLUSIVE: 'maybe' is neither true nor false"),
        ({"command_line": {"segment_bytes": "1"}}, "--segment-bytes: segment_bytes is 1, not between"),
        ({"command_line": {"data": ""}}, "--data: the journal's directory is an empty name"),
        ({"queues": ["a b=c"]}, "--queue: unknown key queues.a.b; there are"),
        ({"queues": ["a ttl"]}, "--queue: 'ttl' is not KEY=VALUE"),
        ({"environment": {"PENSTOCK_QUEUES": "a ttl=x"}}, "PENSTOCK_QUEUES: queues.a.ttl: 'x' is no duration"),
        ({"command_line": {"max_queues": "1"}, "queues": ["a", "b"]}, "2 queues are declared, and max_queues is 1"),
    ],
)
def test_a_problem_elsewhere_names_the_variable_or_the_option(sources: dict[str, Any], problem: str) -> None:
    (said,) = problems(**sources)
    assert said.startswith(problem)


def test_all_problems_are_told_at_once() -> None:
    said = problems("[broker]\nx = 1\n[journal]\nsync = 2\n", environment={"PENSTOCK_TTL": "x"}, queues=["a b"])
    assert [line.split(": ")[0] for line in said] == [
        "folder/penstock.toml:2",
        "folder/penstock.toml:4",
        "PENSTOCK_TTL",
        "--queue",
    ]


def test_a_value_that_another_source_replaces_must_still_be_one() -> None:
    assert problems('[journal]\nsync = "no"', command_line={"sync": "never"}) != []


def test_variables_that_name_no_setting_are_told_and_no_error() -> None:
    environment = {"PENSTOCK_SNYC": "x", "PENSTOCK_SERVICE_HOST": "h", "PENSTOCK_CONFIG": "f", "HOME": "h"}
    assert resolved(environment=environment).ignored == ("PENSTOCK_SERVICE_HOST", "PENSTOCK_SNYC")


ANY_VALUE = st.one_of(
    st.booleans(),
    st.integers(),
    st.sampled_from([10**24 - 1, -(10**24), 1 << 63, 1 << 1023, 1 << 1024, 1 << 20_000, -(1 << 20_000)]),
    st.floats(),
    st.text(max_size=5),
    st.lists(st.integers() | st.just(1 << 20_000), max_size=2),
    st.datetimes() | st.dates() | st.times(),
)
PLACES = [(option.section, option.key) for option in OPTIONS] + [("queues", "q", key) for key in QUEUE_OPTIONS]


@given(st.sampled_from(PLACES), ANY_VALUE)
def test_whatever_stands_in_any_place_of_the_file_it_is_settings_or_their_error(
    keys: tuple[str, ...], value: Any
) -> None:
    values = [FileValue(keys[:at], None, 1) for at in range(1, len(keys))] + [FileValue(keys, value, 2)]
    with suppress(SettingsError):
        assert resolve({}, {}, SettingsFile(Path("penstock.toml"), tuple(values))).in_force


def test_no_limit_is_said_of_all_queues_and_of_one() -> None:
    options = {"max_queue_messages": "none"}
    resolved = resolve(options, {}, None, ["one max_bytes=none max_messages=7", "other"])
    assert resolved.config.queue_settings().max_messages is None
    one, other = resolved.config.queues["one"], resolved.config.queues["other"]
    assert (one.max_messages, one.max_bytes) == (7, None)
    assert (other.max_messages, other.max_bytes is None) == (None, False)
    shown = {each.key: (each.text, each.value) for each in resolved.in_force}
    assert shown["queue_defaults.max_messages"] == ("none", None)
    assert shown["queues.one.max_bytes"] == ("none", None)
    with pytest.raises(SettingsError, match="1 or more is possible"):
        resolve({"max_queue_messages": "0"}, {})
