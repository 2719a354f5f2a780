"""What a broker's settings come to for a node of a cluster: where the register is, whom it begins with, and where everybody reaches it."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from actors.replication.document import DocumentError, Member, Places
from transport.cluster.addresses import EtcdAddress, OwnEtcd, parse_cluster
from transport.cluster.link_settings import LinkSettings, LinkTls
from transport.config.clustered import CLUSTER_PORT, parse_members
from transport.config.exposure import problems_together
from transport.errors import LocalProtocolError
from transport.wire.address import Address, parse_address

if TYPE_CHECKING:
    from transport.config.config import BrokerConfig

EVERYWHERE: Final = "0.0.0.0"  # noqa: S104 - where a name stands for this machine; links have a secret or TLS
_WILDCARDS: Final = frozenset({"0.0.0.0", "::"})  # noqa: S104


@dataclass(frozen=True, slots=True)
class Plan:
    """Of one node.

    Attributes:
        name: the node's.
        register: where the register is.
        own_etcd: of the machine's own etcd; None where there is none.
        first: the nodes that the cluster begins with, and where each is met; empty where nobody has said so.
        links: of its links.
        replication: where the other nodes reach it.
        clients: where clients do.
        mode: of a cluster that begins.
    """

    name: str
    register: EtcdAddress
    own_etcd: OwnEtcd | None
    first: Mapping[str, Address]
    links: LinkSettings
    replication: str
    clients: Places
    mode: str

    def member(self, directory: str) -> Member:
        """What others read of this node in the document, once the id of its directory is known."""
        return Member(directory, replication=self.replication, **self.clients._asdict())


def plan_of(config: BrokerConfig) -> Plan:
    """The plan of a broker with ``cluster`` in its settings.

    Raises:
        LocalProtocolError: something cannot be; the text says what to write.
    """
    assert config.cluster is not None, "it is of a cluster"
    for _, problem in problems_together(config):
        raise LocalProtocolError(problem)
    cluster, node = parse_cluster(config.cluster, config.cluster_node), config.cluster_node
    if node is None:
        raise LocalProtocolError("a broker of a cluster has a name among its nodes: give cluster_node")
    if config.cluster_certificate is not None and config.cluster_ca is None:
        raise LocalProtocolError("cluster_certificate and cluster_ca go together: give both, or neither")
    own = cluster if isinstance(cluster, OwnEtcd) else None
    host = _advertised(config, own)
    address = config.cluster_address or str(Address(_bound(host), CLUSTER_PORT))
    replication = _at(host, "cluster_address", address)
    if config.cluster_members is not None:
        first = parse_members(config.cluster_members)
    elif own is not None:
        # A port that stands there is that of a machine's etcd.
        first = {
            name: Address(machine.clients.host, parse_address(replication).port)
            for name, machine in own.machines.items()
        }
    else:
        first = {}
    clients = Places(
        _at(host, "send_address", config.send_address),
        _at(host, "receive_address", config.receive_address),
        None if config.http is None else _at(host, "http", config.http),
        None if config.amqp is None else _at(host, "amqp", config.amqp),
        None if config.amqps is None else _at(host, "amqps", config.amqps),
    )
    tls = None
    if config.cluster_certificate is not None and config.cluster_ca is not None:
        tls = LinkTls(config.cluster_ca, config.cluster_certificate, config.cluster_key)
    links = LinkSettings(address, config.cluster_secret_file, tls)
    register = own.register if own else _etcd(cluster)
    plan = Plan(node, register, own, first, links, replication, clients, config.cluster_mode)
    try:
        plan.member("0" * 32)
    except DocumentError as error:
        raise LocalProtocolError(f"this node cannot be in a cluster: {error}") from None
    return plan


def _etcd(cluster: EtcdAddress | OwnEtcd) -> EtcdAddress:
    return cluster if isinstance(cluster, EtcdAddress) else cluster.register


def _advertised(config: BrokerConfig, own: OwnEtcd | None) -> str:
    """The host by which others reach this node."""
    if config.cluster_advertise is not None:
        return config.cluster_advertise
    if own is not None:
        return own.own.clients.host
    host = None if config.cluster_address is None else parse_address(config.cluster_address).host
    if host is None or host in _WILDCARDS:
        raise LocalProtocolError(
            "say by --advertise (cluster_advertise) at which host clients and the other nodes reach this one"
        )
    return host


def _bound(host: str) -> str:
    """Where to listen for those who reach this machine by ``host``: at the address that it is, or everywhere where it is a name."""
    if host == "localhost":
        return host
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return EVERYWHERE
    return host


def _at(host: str, setting: str, address: str) -> str:
    port = parse_address(address).port
    if port == 0:
        raise LocalProtocolError(
            f"{setting} has port 0, and clients of a cluster have to know where to find it: name one"
        )
    return str(Address(host, port))
