"""Virtual hosts of AMQP as they are set: which there are, and how the broker's names in each begin."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Final

from transport.errors import LocalProtocolError
from transport.wire.names import MAX_NAME_BYTES

SEPARATOR: Final = "/"
"""Behind a virtual host's name, where nothing else is said of how names in it begin."""
RESERVED: Final = "amq."
"""What begins so is the broker's own."""
MOST_VIRTUAL_HOSTS: Final = 1_000
"""Each has five exchanges of its own."""
MOST_BEGINNING_BYTES: Final = 128
"""Of a beginning: what is left of a name's 255 bytes is for the names in the virtual host."""


def parse_virtual_hosts(text: str) -> dict[str, str]:
    """Virtual hosts, each with the beginning of its names: ``shop, billing=invoices.`` are ``shop/`` and ``invoices.``.

    Raises:
        ValueError: one that cannot be read, or stands there twice.
    """
    found: dict[str, str] = {}
    for part in text.split(","):
        said = part.strip()
        if not said and not text.strip():
            break
        name, equals, beginning = said.partition("=")
        name = name.strip()
        if not name:
            raise ValueError("a virtual host has no name: write them as shop, billing=invoices.")
        if name in found:
            raise ValueError(f"the virtual host {name!r:.60} stands there twice")
        found[name] = beginning.strip() if equals or name == SEPARATOR else name + SEPARATOR
    check_virtual_hosts(found)
    return found


def show_virtual_hosts(virtual_hosts: Mapping[str, str]) -> str:
    """What `parse_virtual_hosts` takes."""
    return ", ".join(
        name if name != SEPARATOR and beginning == name + SEPARATOR else f"{name}={beginning}"
        for name, beginning in virtual_hosts.items()
    )


def check_virtual_hosts(virtual_hosts: Mapping[str, str]) -> None:
    """Whether these can be.

    Raises:
        LocalProtocolError: too many, a name that none can have, or names of one virtual host that begin as those of another.
    """
    if len(virtual_hosts) > MOST_VIRTUAL_HOSTS:
        raise LocalProtocolError(
            f"{len(virtual_hosts)} virtual hosts exceed MOST_VIRTUAL_HOSTS of {MOST_VIRTUAL_HOSTS}"
        )
    for name, beginning in virtual_hosts.items():
        _check(name, beginning)
    # Who may see all names sees those of the others too: it is told by its rights what is theirs.
    parted = {name: beginning for name, beginning in virtual_hosts.items() if beginning}
    ordered = sorted(parted.items(), key=lambda item: item[1])
    for (first, shorter), (second, longer) in pairwise(ordered):
        if longer.startswith(shorter):
            raise LocalProtocolError(
                f"the names of virtual host {second!r:.60} begin with {longer!r:.60}, and so with {shorter!r:.60}, as those of "
                f"{first!r:.60} do: give one of them another beginning, as {second:.60}=OTHER"
            )


def _check(name: str, beginning: str) -> None:
    size = len(name.encode("utf-8", "surrogatepass"))
    if not 1 <= size <= MAX_NAME_BYTES or not name.isprintable() or "," in name or "=" in name:
        raise LocalProtocolError(
            f"{name!r:.60} cannot be the name of a virtual host: it has 1 to {MAX_NAME_BYTES} printable bytes, and no comma "
            "or equals sign"
        )
    size = len(beginning.encode("utf-8", "surrogatepass"))
    if size > MOST_BEGINNING_BYTES:
        raise LocalProtocolError(
            f"names in virtual host {name!r:.60} would begin with {size} bytes, more than MOST_BEGINNING_BYTES of "
            f"{MOST_BEGINNING_BYTES}: give it a shorter beginning, as {name:.60}=SHORT/"
        )
    if not beginning.isprintable() or set(" ,*") & set(beginning) or beginning.startswith(RESERVED):
        raise LocalProtocolError(
            f"names in virtual host {name!r:.60} cannot begin with {beginning!r:.60}: a beginning is printable, has no blank, comma or "
            f"star, and is not {RESERVED}"
        )
