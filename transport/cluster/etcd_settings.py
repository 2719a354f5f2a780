"""The settings of the machine's own etcd, made from the list of machines. One file has all of them, and etcd reads nothing else then."""

from __future__ import annotations

import ipaddress
import json
import os
from collections.abc import Collection
from pathlib import Path
from typing import Any, Final

from transport.cluster.addresses import EtcdTls, OwnEtcd
from transport.errors import LocalProtocolError
from transport.security.secret_files import replace_file
from transport.security.tls_files import check_there
from transport.wire.address import Address

ETCD_FOLDER: Final = "etcd"
"""Of all that is of an etcd, in the broker's data directory."""
SETTINGS_FILE: Final = "etcd.json"
DATA_FOLDER: Final = "data"
FOLDER_MODE: Final = 0o700
"""Others have no business in it, and etcd warns of any more."""
EVERYWHERE: Final = "0.0.0.0"  # noqa: S104 - where a name stands for this machine; see `_listen`
KEPT_REVISIONS: Final = 1_000
"""Old documents, which nobody reads: more are given up now and then."""
MAX_BYTES: Final = 64 << 20
"""Of its database, which holds one document and some old ones."""


def settings_of(own: OwnEtcd, folder: Path, *, insecure: bool) -> dict[str, Any]:
    """What etcd is told, by its names of settings.

    Args:
        own: which machine this is, and the others.
        folder: where its data and settings are.
        insecure: whether other machines may reach it without TLS.

    Raises:
        LocalProtocolError: strangers could write in the register, or a file of TLS is not there.
    """
    tls = own.tls
    if tls is None and not insecure and not own.own.clients.is_loopback:
        raise LocalProtocolError(
            f"this machine's etcd at {own.own.clients} can be reached from other machines, and whoever reaches it may say who leads: "
            "give it ?ca=FILE&certificate=FILE&key=FILE behind --cluster, or say --insecure where whoever reaches it may do everything"
        )
    scheme = "http" if tls is None else "https"
    clients, peers = own.own
    settings: dict[str, Any] = {
        "name": own.node,
        "data-dir": str(folder / DATA_FOLDER),
        "listen-client-urls": f"{scheme}://{_listen(clients)}",
        "advertise-client-urls": f"{scheme}://{clients}",
        "listen-peer-urls": f"{scheme}://{_listen(peers)}",
        "initial-advertise-peer-urls": f"{scheme}://{peers}",
        "initial-cluster": ",".join(f"{name}={scheme}://{each.peers}" for name, each in own.machines.items()),
        "initial-cluster-token": f"penstock-{own.name}",
        # What is on without a file is off with one.
        "enable-grpc-gateway": True,
        "strict-reconfig-check": True,
        # One that was cut off and comes back asks before it has the others vote: else it would unseat their leader each time.
        "pre-vote": True,
        "auto-compaction-mode": "revision",
        "auto-compaction-retention": str(KEPT_REVISIONS),
        "quota-backend-bytes": MAX_BYTES,
        "logger": "zap",
        "log-outputs": ["stderr"],
        "log-level": "info",
    }
    if tls is not None:
        check_there(tls.ca, tls.certificate, tls.key)
        settings["client-transport-security"] = settings["peer-transport-security"] = _security(tls)
    return settings


def write_settings(folder: Path, settings: dict[str, Any], *, joins: Collection[str] = ()) -> None:
    """Put them into the folder, which is made where there is none.

    Args:
        folder: where.
        settings: of `settings_of`.
        joins: the members of the etcd that it comes into, this machine too, by the URLs by which they know one another; empty where it
            begins one with the others. Of no meaning once it has begun.

    Raises:
        OSError: it cannot be written.
    """
    whole = settings | {"initial-cluster-state": "existing" if joins else "new"}
    if joins:
        # Whoever comes has to name those that are there, and nobody else.
        named = settings["initial-cluster"].split(",")
        whole["initial-cluster"] = ",".join(each for each in named if each.partition("=")[2] in joins)
    folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    (folder / DATA_FOLDER).mkdir(mode=FOLDER_MODE, exist_ok=True)
    # JSON is YAML too, which is what etcd reads.
    replace_file(folder / SETTINGS_FILE, json.dumps(whole, indent=1).encode() + b"\n")


def _security(tls: EtcdTls) -> dict[str, Any]:
    # Relative to where the broker was started, and etcd runs in its folder.
    ca, certificate, key = (os.path.abspath(each or "") for each in (tls.ca, tls.certificate, tls.key))
    return {"trusted-ca-file": ca, "cert-file": certificate, "key-file": key, "client-cert-auth": True}


def _listen(address: Address) -> str:
    """What to listen on. etcd takes no names; on many machines their own name is one of loopback's addresses, where nobody else gets."""
    if address.host == "localhost":
        return str(address)
    try:
        ipaddress.ip_address(address.host)
    except ValueError:
        return f"{EVERYWHERE}:{address.port}"
    return str(address)
