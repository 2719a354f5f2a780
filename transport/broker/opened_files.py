"""What a broker that starts reads before it lets anybody in: as one that is alone, or as one of a node that has read it before."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transport.broker.certificates import Certificates
    from transport.broker.entrance import Entrance
    from transport.broker.leadership import Leadership


async def open_files(entrance: Entrance, certificates: Certificates, leadership: Leadership | None) -> None:
    """Read what a broker that starts needs before it lets anybody in.

    Raises:
        LocalProtocolError: something cannot be read, and nothing was before.
    """
    if leadership is None:
        entrance.open()
        certificates.open()
        return
    await entrance.open_of(leadership.files)
    await certificates.open_of(leadership.files)
