"""Where a cluster's register is, as it is written for ``--cluster``: an etcd that runs already, or machines that each run one.

- ``etcd://a:2379,b:2379,c:2379/orders``: the cluster ``orders``, in an etcd with these endpoints. ``etcds://`` is the same over TLS.
- ``a=HOST,b=HOST,c=HOST`` with ``--node a``: these machines, each of which runs its etcd beside its broker (`etcd_child.py`). A name behind
  it names the cluster, as in ``a=HOST/orders``; where there is none it is ``penstock``.

Behind a ``?`` stand the files of TLS, ``ca``, ``certificate`` and ``key``, and for an etcd with users ``user`` and ``password-file``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple
from urllib.parse import parse_qsl

from transport.config.clustered import checked_node_name, parse_place
from transport.errors import LocalProtocolError
from transport.wire.address import MAX_PORT, Address

PLAIN_SCHEME: Final = "etcd"
TLS_SCHEME: Final = "etcds"
ETCD_PORT: Final = 2379
"""Where an etcd serves its clients, if nothing else is said. The other machines' etcds reach it at the port behind it."""
DEFAULT_NAME: Final = "penstock"
"""Of a cluster whose machines run its etcd and that is given no other."""
MAX_ENDPOINTS: Final = 16
MAX_MACHINES: Final = 7
"""That run an etcd: each swap waits for half of them and one, and more machines fail more often."""
MAX_CLUSTER_TEXT: Final = 8_192
"""Characters of what is written for ``--cluster``."""

_HOST: Final = re.compile(r"[A-Za-z0-9._:-]+")
_FILES: Final = ("ca", "certificate", "key")
_ACCESS: Final = ("user", "password-file")


@dataclass(frozen=True, slots=True)
class EtcdTls:
    """Files of TLS, PEM.

    Attributes:
        ca: the authorities that are trusted; None for the system's.
        certificate: what is shown; None for nothing.
        key: its key; None where the certificate's file has it too.
    """

    ca: str | None = None
    certificate: str | None = None
    key: str | None = None


@dataclass(frozen=True, slots=True)
class EtcdAddress:
    """A register in an etcd.

    Attributes:
        name: the cluster's.
        endpoints: where the etcd serves clients, in the order in which they are tried.
        tls: None for none.
        user: who is to be authenticated; None for nobody.
        password_file: a file whose one line is the password.
    """

    name: str
    endpoints: tuple[Address, ...]
    tls: EtcdTls | None = None
    user: str | None = None
    password_file: str | None = None

    @property
    def key(self) -> str:
        """Of the document, in etcd."""
        return f"/penstock/{self.name}/cluster"


class Machine(NamedTuple):
    """A machine that runs an etcd.

    Attributes:
        clients: where its etcd serves clients.
        peers: where it serves the other machines' etcds.
    """

    clients: Address
    peers: Address


@dataclass(frozen=True, slots=True)
class OwnEtcd:
    """A register in an etcd that the cluster's own machines run.

    Attributes:
        name: the cluster's.
        node: which of them this one is.
        machines: by the names of the nodes.
        tls: files of this machine's etcd and of its clients; None for none.
    """

    name: str
    node: str
    machines: Mapping[str, Machine]
    tls: EtcdTls | None = None

    @property
    def own(self) -> Machine:
        """This machine."""
        return self.machines[self.node]

    @property
    def register(self) -> EtcdAddress:
        """Where the register is: in the etcd of this machine, or else of the others."""
        others = (machine.clients for name, machine in self.machines.items() if name != self.node)
        return EtcdAddress(self.name, (self.own.clients, *others), self.tls)


def parse_cluster(text: str, node: str | None = None) -> EtcdAddress | OwnEtcd:
    """What is written for ``--cluster`` and ``--node``.

    Raises:
        LocalProtocolError: there is a mistake in it; the text says which, and what to write.
    """
    if len(text) > MAX_CLUSTER_TEXT:
        raise LocalProtocolError(f"--cluster has {len(text)} characters, and can have {MAX_CLUSTER_TEXT}")
    if " " in text or not text.isprintable():
        raise LocalProtocolError(f"--cluster {text!r:.80} has white space or unprintable characters")
    scheme, marked, rest = text.rpartition("://")
    if not marked:
        return _own(text, node)
    if scheme not in (PLAIN_SCHEME, TLS_SCHEME):
        raise LocalProtocolError(
            f"--cluster begins with {scheme!r:.40}, and has to be {PLAIN_SCHEME}:// or {TLS_SCHEME}://"
        )
    if node is not None:
        checked_node_name(node, "--node")
    return _etcd(scheme, rest)


def _etcd(scheme: str, rest: str) -> EtcdAddress:
    listed, name, said = _parts(rest)
    if not name:
        raise LocalProtocolError(
            f"--cluster names no cluster: write its name behind the endpoints, as in {scheme}://a:2379/orders"
        )
    _refuse_user(listed)
    texts = listed.split(",")
    if len(texts) > MAX_ENDPOINTS:
        raise LocalProtocolError(f"--cluster has {len(texts)} endpoints, and can have {MAX_ENDPOINTS}")
    endpoints = tuple(_endpoint(each) for each in texts)
    if twice := sorted({str(each) for each in endpoints if endpoints.count(each) > 1}):
        raise LocalProtocolError(f"--cluster has the endpoint {twice[0]} twice")
    tls = _tls(said)
    if scheme == TLS_SCHEME:
        tls = tls or EtcdTls()
    elif tls is not None:
        raise LocalProtocolError(
            f"--cluster has files of TLS: write {TLS_SCHEME}:// for an etcd that is reached over TLS"
        )
    user, password = said.get("user"), said.get("password-file")
    if (user is None) != (password is None):
        raise LocalProtocolError("--cluster has one of user and password-file without the other: give both, or neither")
    if user is not None and tls is None and not all(each.is_loopback for each in endpoints):
        raise LocalProtocolError(
            f"--cluster has a user, and its password could be read on the way: write {TLS_SCHEME}://"
        )
    return EtcdAddress(name, endpoints, tls, user, password)


def _own(text: str, node: str | None) -> OwnEtcd:
    listed, name, said = _parts(text)
    for key in _ACCESS:
        if key in said:
            raise LocalProtocolError(f"--cluster has {key}, which is for an etcd that runs already ({PLAIN_SCHEME}://)")
    machines: dict[str, Machine] = {}
    for each in listed.split(","):
        member, equals, where = each.partition("=")
        if not equals:
            raise LocalProtocolError(
                f"--cluster {each!r:.80} is neither {PLAIN_SCHEME}://HOST:PORT,.../NAME nor a list of NODE=HOST"
            )
        checked_node_name(member, "--cluster: a node")
        if member in machines:
            raise LocalProtocolError(f"--cluster has the node {member!r} twice")
        machines[member] = _machine(where)
    if len(machines) > MAX_MACHINES or len(machines) % 2 == 0:
        raise LocalProtocolError(
            f"--cluster has {len(machines)} machines: an etcd goes on while more than half of them do, so list an odd number, "
            f"at most {MAX_MACHINES}; others can join by {PLAIN_SCHEME}://"
        )
    taken: dict[Address, str] = {}
    for member, machine in machines.items():
        for address in machine:
            other = taken.setdefault(address, member)
            if other != member:
                raise LocalProtocolError(
                    f"--cluster: the nodes {other!r} and {member!r} would both listen on {address}"
                )
    if node is None:
        raise LocalProtocolError(f"--cluster lists machines: say by --node which this one is, {', '.join(machines)}")
    if node not in machines:
        raise LocalProtocolError(f"--node {node!r:.80} is not in --cluster: there are {', '.join(machines)}")
    return OwnEtcd(name or DEFAULT_NAME, node, MappingProxyType(machines), _own_tls(said))


def _parts(text: str) -> tuple[str, str, dict[str, str]]:
    """The list, the name, and what is said behind a question mark."""
    text, asked, query = text.partition("?")
    listed, slash, name = text.partition("/")
    if slash and "/" in name.removesuffix("/"):
        raise LocalProtocolError(f"--cluster has the name {name!r:.80}, and a name has no '/'")
    name = name.removesuffix("/")
    if name:
        checked_node_name(name, "--cluster: the cluster's name")
    if not listed:
        raise LocalProtocolError(
            "--cluster lists no host: write etcd://a:2379,b:2379,c:2379/orders, or a=HOST,b=HOST,c=HOST"
        )
    said: dict[str, str] = {}
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=True, errors="strict") if asked else []
    except ValueError:
        raise LocalProtocolError(
            f"--cluster has {query!r:.80} behind the '?', and has to have name=value&name=value"
        ) from None
    for key, value in pairs:
        if key not in (*_FILES, *_ACCESS):
            raise LocalProtocolError(
                f"--cluster has {key!r:.80} behind the '?', and can have {', '.join((*_FILES, *_ACCESS))}"
            )
        if not value or key in said:
            raise LocalProtocolError(f"--cluster has {key} {'twice' if key in said else 'with no value'}")
        said[key] = value
    return listed, name, said


def _tls(said: Mapping[str, str]) -> EtcdTls | None:
    ca, certificate, key = (said.get(each) for each in _FILES)
    if key is not None and certificate is None:
        raise LocalProtocolError("--cluster has a key and no certificate: give the certificate that it is of")
    return None if ca is None and certificate is None else EtcdTls(ca, certificate, key)


def _own_tls(said: Mapping[str, str]) -> EtcdTls | None:
    tls = _tls(said)
    if tls is not None and None in (tls.ca, tls.certificate, tls.key):
        raise LocalProtocolError(
            "--cluster has files of TLS: the etcd of this machine needs ca, certificate and key, all three. It lets in only those "
            "whose certificate the ca has signed"
        )
    return tls


def _endpoint(text: str) -> Address:
    if not text:
        raise LocalProtocolError("--cluster has an empty place between its commas")
    try:
        address = parse_place(text, ETCD_PORT)
    except LocalProtocolError as error:
        raise LocalProtocolError(f"--cluster: {error}") from None
    if _HOST.fullmatch(address.host) is None:
        raise LocalProtocolError(
            f"--cluster: {address.host!r:.80} is no host: that is a name, an IPv4 or an [IPv6] address"
        )
    if address.port == 0:
        raise LocalProtocolError(f"--cluster: {address} has port 0, where nobody can be reached")
    return address


def _machine(text: str) -> Machine:
    clients = _endpoint(text)
    if clients.port == MAX_PORT:
        raise LocalProtocolError(
            f"--cluster: {clients} leaves no port behind it, where the other machines reach its etcd"
        )
    return Machine(clients, Address(clients.host, clients.port + 1))


def _refuse_user(listed: str) -> None:
    if "@" in listed:
        # What stands before it may be a password, so it is not shown.
        raise LocalProtocolError(
            "--cluster has an '@': everybody who lists processes would read a password there. Write ?user=NAME&password-file=FILE "
            "behind the cluster's name"
        )
