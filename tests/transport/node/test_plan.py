"""What a broker's settings come to for a node of a cluster, and what is said of settings that cannot be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from actors.replication.document import Places
from transport import BrokerConfig
from transport.cluster.link_settings import read_keys
from transport.cluster.plan import plan_of
from transport.config.cluster_together import cluster_problems, without_cluster
from transport.config.clustered import CLUSTER_PORT, parse_members
from transport.errors import LocalProtocolError
from transport.wire.address import Address

OWN = "a=10.0.0.1,b=10.0.0.2,c=host-c.example/orders"


def config(**fields: Any) -> BrokerConfig:
    given = {
        "cluster": OWN,
        "cluster_node": "b",
        "directory": "data",
        "cluster_secret_file": "secret",
        "send_address": "10.0.0.2:9182",
        "receive_address": "10.0.0.2:9183",
    }
    return BrokerConfig(**(given | fields))


def test_machines_that_run_its_etcd_are_the_members_that_it_begins_with() -> None:
    plan = plan_of(config(http="10.0.0.2:9180", insecure=True))
    assert (plan.name, plan.mode) == ("b", "majority")
    assert plan.own_etcd is not None
    assert plan.register == plan.own_etcd.register
    assert plan.first == {
        "a": Address("10.0.0.1", CLUSTER_PORT),
        "b": Address("10.0.0.2", CLUSTER_PORT),
        "c": Address("host-c.example", CLUSTER_PORT),
    }
    assert plan.links.address == "10.0.0.2:9184"
    member = plan.member("d" * 32)
    assert (member.send, member.receive) == ("10.0.0.2:9182", "10.0.0.2:9183")
    assert (member.replication, member.http) == ("10.0.0.2:9184", "10.0.0.2:9180")


def test_a_name_is_advertised_and_listened_for_everywhere() -> None:
    plan = plan_of(config(cluster_node="c", send_address="0.0.0.0:1", receive_address="0.0.0.0:2", insecure=True))
    assert plan.links.address == "0.0.0.0:9184"
    assert plan.clients == Places("host-c.example:1", "host-c.example:2")
    assert plan.replication == "host-c.example:9184"


def test_an_etcd_that_runs_already_says_nothing_of_members_so_settings_do() -> None:
    fields = {"cluster": "etcd://10.9.0.1:2379/orders", "cluster_address": "10.0.0.2:7000", "insecure": True}
    plan = plan_of(config(**fields))
    assert (plan.own_etcd, plan.first, plan.register.name) == (None, {}, "orders")
    assert plan.replication == "10.0.0.2:7000"
    plan = plan_of(config(cluster_members="a=10.0.0.1,b=10.0.0.2:7000,c=[::1]", **fields))
    assert plan.first == {"a": Address("10.0.0.1", 9184), "b": Address("10.0.0.2", 7000), "c": Address("::1", 9184)}


def test_machines_that_run_its_etcd_are_met_at_the_port_of_this_nodes_address_unless_members_say_another() -> None:
    """A port in ``--cluster`` is that of a machine's etcd."""
    fields = {"cluster": "a=10.0.0.1:4000,b=10.0.0.2,c=10.0.0.3", "cluster_address": "0.0.0.0:7000", "insecure": True}
    assert plan_of(config(**fields)).first == {
        name: Address(f"10.0.0.{number}", 7000) for number, name in enumerate("abc", 1)
    }
    listed = plan_of(config(cluster_members="a=10.0.0.1:7001,b=10.0.0.2:7000", **fields))
    assert listed.first == {"a": Address("10.0.0.1", 7001), "b": Address("10.0.0.2", 7000)}


def test_where_it_speaks_amqp_is_advertised_as_all_else() -> None:
    plan = plan_of(config(amqp="0.0.0.0:5672", amqps="0.0.0.0:5671", tls_certificate="c", insecure=True))
    member = plan.member("d" * 32)
    assert (member.amqp, member.amqps) == ("10.0.0.2:5672", "10.0.0.2:5671")
    with pytest.raises(LocalProtocolError, match="amqp has port 0"):
        plan_of(config(amqp="0.0.0.0:0", insecure=True))


def test_what_is_advertised_goes_before_all_else() -> None:
    plan = plan_of(config(cluster_advertise="b.example", cluster_address="0.0.0.0:7000", insecure=True))
    assert plan.clients[:2] == ("b.example:9182", "b.example:9183")
    assert plan.replication == "b.example:7000"


def test_files_of_tls_take_the_place_of_a_secret() -> None:
    plan = plan_of(config(cluster_secret_file=None, cluster_certificate="c.pem", cluster_ca="ca.pem", insecure=True))
    assert plan.links.secret_file is None
    assert plan.links.tls is not None
    assert (plan.links.tls.ca, plan.links.tls.certificate, plan.links.tls.key) == ("ca.pem", "c.pem", None)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"cluster_node": None}, "say by --node which this one is"),
        ({"cluster_node": None, "cluster": "etcd://h/o", "cluster_advertise": "h"}, "give cluster_node"),
        ({"cluster_node": "d"}, "'d' is not in --cluster"),
        ({"directory": None}, "give a directory"),
        ({"sync": "never"}, "breaks what cluster_mode 'majority' promises"),
        ({"cluster_secret_file": None}, "none without a secret or TLS"),
        ({"cluster_certificate": "c.pem"}, "go together"),
        ({"cluster_ca": "ca.pem"}, "no use without cluster_certificate"),
        ({"cluster_key": "k.pem"}, "no use without cluster_certificate"),
        ({"send_address": "10.0.0.2:0"}, "port 0"),
        ({"cluster": "etcd://10.9.0.1/orders"}, "say by --advertise"),
        ({"cluster": "etcd://10.9.0.1/orders", "cluster_address": "0.0.0.0:9184"}, "say by --advertise"),
    ],
)
def test_settings_that_cannot_be_together_are_refused_in_one_sentence(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(LocalProtocolError, match=said):
        plan_of(config(**({"insecure": True} | fields)))


def test_async_forgets_by_promise_so_it_may_be_synced_as_one_likes() -> None:
    assert plan_of(config(sync="interval", cluster_mode="async", insecure=True)).mode == "async"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"cluster_mode": "most"}, "not one of async, one, majority, all"),
        ({"cluster_log_bytes": 7}, "at least 1048576"),
        ({"cluster_node": "-"}, "cluster_node"),
        ({"cluster_address": "nowhere"}, "nowhere"),
        ({"cluster_members": "a"}, "list of NODE=HOST"),
        ({"cluster_members": "a=1.1.1.1,a=1.1.1.2"}, "'a' twice"),
        ({"cluster_members": "a=" + "1" * 5000}, "can have 4096"),
    ],
)
def test_a_setting_that_cannot_be_is_refused_by_itself(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(LocalProtocolError, match=said):
        config(**fields)


def test_without_a_cluster_its_settings_are_of_no_use_and_that_is_said() -> None:
    alone = BrokerConfig(cluster_node="a", cluster_ca="ca.pem")
    assert [field for field, _ in cluster_problems(alone)] == ["cluster_node", "cluster_ca"]
    assert list(cluster_problems(BrokerConfig())) == []
    assert list(cluster_problems(without_cluster(config()))) == []


def test_members_are_read_with_and_without_ports() -> None:
    assert parse_members("a=h1, b=h2:1") == {"a": Address("h1", CLUSTER_PORT), "b": Address("h2", 1)}


def test_a_secret_that_is_not_there_is_said_before_anything_is_opened(tmp_path: Path) -> None:
    plan = plan_of(config(cluster_secret_file=str(tmp_path / "none"), insecure=True))
    with pytest.raises(LocalProtocolError, match="cannot be read"):
        read_keys(plan.links)
