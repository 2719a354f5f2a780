"""What would keep a broker from starting, and what it would warn of, found out without starting one.

Nothing is written and nothing listens. The directory's lock is taken for the moment of the look, where its file is there. Each address is
bound for a moment. A broker that starts in that very moment may find either taken.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from actors import StorageError, glance_storage
from transport.broker.acceptor import bind
from transport.broker.certificates import Certificates, key_readers
from transport.broker.descriptors import connections_allowed, raise_soft_limit
from transport.broker.entrance import users_of
from transport.config.exposure import PROTECTED, warnings_of
from transport.errors import LimitExceededError, LocalProtocolError, TransportError
from transport.security.users_file import UsersFileError
from transport.wire.address import parse_address

if TYPE_CHECKING:
    from transport.config.config import BrokerConfig


Place = tuple[int, str, int]
"""What one socket listens on: family, host, port."""
EVERY: Final = frozenset({"0.0.0.0", "::"})  # noqa: S104 - nothing is bound to it here
"""Hosts that stand for all."""


class SameAddressError(OSError):
    """Two addresses are one."""


class Problem(NamedTuple):
    """One thing that is wrong, or worth a word.

    Attributes:
        text: what, and what to do.
        error: what a start would end with; None where it would only warn.
    """

    text: str
    error: Exception | None


Check = Callable[["BrokerConfig"], Iterator[Problem]]


def check(config: BrokerConfig) -> list[Problem]:
    """Everything that is wrong, in the order in which a start would come to it."""
    return [problem for each in CHECKS for problem in each(config)]


def check_node(config: BrokerConfig) -> Iterator[Problem]:
    """Whether a node of a cluster can be made of the settings."""
    if config.cluster is None:
        return
    from transport.cluster.link_settings import read_keys  # noqa: PLC0415 - for brokers of clusters only
    from transport.cluster.plan import plan_of  # noqa: PLC0415 - likewise

    try:
        read_keys(plan_of(config).links)
    except LocalProtocolError as error:
        yield Problem(str(error), error)


def check_etcd(config: BrokerConfig) -> Iterator[Problem]:
    """Whether this machine's own etcd is there, and may be started, where the cluster is a list of machines."""
    if config.cluster is None or config.directory is None:
        return
    from transport.cluster.etcd_child import EtcdChild  # noqa: PLC0415 - likewise
    from transport.cluster.etcd_settings import ETCD_FOLDER  # noqa: PLC0415 - likewise
    from transport.cluster.plan import plan_of  # noqa: PLC0415 - likewise

    try:
        own = plan_of(config).own_etcd
    except LocalProtocolError:
        return  # `check_node` has said it
    if own is None:
        return
    try:
        # It is started by a call of its own.
        EtcdChild(own, Path(config.directory) / ETCD_FOLDER, insecure=config.insecure)
    except TransportError as error:
        yield Problem(str(error), error)


def check_directory(config: BrokerConfig) -> Iterator[Problem]:
    """Whether the data directory can be made or opened, and is this program's to open."""
    if config.directory is None:
        return
    directory = Path(config.directory)
    try:
        damaged = glance_storage(directory)
    except StorageError as error:
        yield Problem(str(error), error)
        return
    for finding in damaged:
        text = (
            f"the data directory {directory} cannot be opened: {finding.file.name}: {finding.text}; "
            f"`penstock journal verify {directory}` says more"
        )
        yield Problem(text, StorageError(text))
    if (problem := _not_writable(directory)) is not None:
        yield Problem(problem, StorageError(problem))


def check_open_files(config: BrokerConfig) -> Iterator[Problem]:
    """Whether this process may have as many files open as its connections take."""
    raise_soft_limit(config.max_connections)
    try:
        allowed = connections_allowed(config.max_connections)
    except LimitExceededError as error:
        yield Problem(str(error), error)
        return
    if allowed < config.max_connections:
        yield Problem(
            f"the limit of open files (ulimit -n) allows {allowed} connections, not the {config.max_connections} of max_connections",
            None,
        )


def check_addresses(config: BrokerConfig) -> Iterator[Problem]:
    """Whether each address can be bound."""
    addresses = config.addresses()
    found: dict[str, set[Place]] = {}
    for name, text in addresses.items():
        try:
            found[name] = _bind(text)
        except OSError as error:
            yield Problem(f"cannot listen on {error.strerror or error}", error)
    for one, other in combinations(found, 2):
        if _one_takes_the_others(found[one], found[other]):
            first, second = addresses[one], addresses[other]
            both = f"are both {first}" if first == second else f"({first}, {second}) are one address"
            text = f"{one} and {other} {both}: each needs a port of its own"
            yield Problem(text, SameAddressError(errno.EADDRINUSE, text))


def check_users(config: BrokerConfig) -> Iterator[Problem]:
    """Whether the users can be read, by the broker's user and by nobody else."""
    if config.users_file is not None:
        try:
            users_of(Path(config.users_file)).now()
        except UsersFileError as error:
            yield Problem(f"users_file: {error}", error)


def check_certificates(config: BrokerConfig) -> Iterator[Problem]:
    """Whether TLS can be set up with the files that are named."""
    try:
        Certificates(config).open()
    except LocalProtocolError as error:
        yield Problem(str(error), error)
    if (readers := key_readers(config)) is not None:
        yield Problem(readers, None)


def check_exposure(config: BrokerConfig) -> Iterator[Problem]:
    """What others can do who reach the broker, where it is told to let them."""
    addresses = [(parse_address(text), name in PROTECTED) for name, text in config.addresses().items()]
    for text in warnings_of(addresses, config):
        yield Problem(text, None)


CHECKS: Final[tuple[Check, ...]] = (
    check_node,
    check_users,
    check_certificates,
    check_directory,
    check_etcd,
    check_open_files,
    check_addresses,
    check_exposure,
)
"""All of them, in the order in which a start comes to what they look at."""


def _not_writable(directory: Path) -> str | None:
    """Why nothing can be written there, or the directory not be made."""
    there = directory
    while not there.exists() and there != there.parent:
        there = there.parent
    if os.access(there, os.R_OK | os.W_OK | os.X_OK):
        return None
    what = f"the data directory {directory} cannot be " + ("written" if there == directory else f"made in {there}")
    if os.statvfs(there).f_flag & os.ST_RDONLY:
        return f"{what}: the file system is read-only; name another (--data), or keep everything in memory (--memory)"
    return f"{what}: this process has no right to; give it to the user that the broker runs as"


def _bind(text: str) -> set[Place]:
    """What an address stands for, all of which could be bound."""
    address = parse_address(text)
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise OSError(errno.EADDRNOTAVAIL, f"{text}: {getattr(error, 'strerror', None) or error}") from None
    for each in bind(found, address.host, address.port):
        each.close()
    return {(family, str(where[0]), int(where[1])) for family, _, _, _, where in found}


def _one_takes_the_others(some: set[Place], others: set[Place]) -> bool:
    """Whether two addresses have a port in common: of one host, or where either stands for all hosts."""
    return any(
        port and (family, port) == (other_family, other_port) and (host == other or EVERY & {host, other})
        for family, host, port in some
        for other_family, other, other_port in others
    )
