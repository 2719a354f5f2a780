"""Loopback addresses: they mean another machine on each machine, so a task that Spark runs elsewhere seeks its broker in vain.

The worker that plans says where it is, and the task compares. Where both are the same, or the address is no loopback one, nothing is done.
Elsewhere a broker, or a way to it, may be at the same loopback address all the same: that is tried once, before the client that would
seek it for a minute.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Sequence

from spark_bridge.errors import OptionError
from transport import parse_address

PROBE_SECONDS = 1.0
"""For one connection within a machine."""


def is_loopback(address: str) -> bool:
    """Whether ``host:port`` means the machine itself, whichever that is."""
    host = parse_address(address).host
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost" or host.lower().endswith(".localhost")


def planned_on(addresses: Sequence[str]) -> str:
    """What a task is told of where it was planned: this host's name if all ``addresses`` are loopback ones, else nothing."""
    return socket.gethostname() if all(is_loopback(address) for address in addresses) else ""


def check_not_elsewhere(option: str, addresses: Sequence[str], planner: str) -> None:
    """Refuse loopback addresses on another host than ``planner``, unless somebody answers at one.

    Args:
        option: which has the addresses.
        addresses: of brokers, one of which is enough.
        planner: the host that planned; empty where that makes no difference.

    Raises:
        OptionError: nobody answers.
    """
    here = socket.gethostname()
    if not planner or planner == here or not all(is_loopback(address) for address in addresses):
        return
    for address in addresses:
        try:
            socket.create_connection(parse_address(address), PROBE_SECONDS).close()
        except OSError:
            continue
        return
    raise OptionError(
        f"option {option} names {', '.join(addresses)}, which is each machine itself: this task runs on {here}, where no broker answers "
        f"there; the query was planned on {planner}. Have the broker listen at an address that every executor reaches, and name that"
    )
