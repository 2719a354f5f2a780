"""What goes by at a device, as tcpdump would see it: enough of a TCP segment to tell a silent cut from one that answers."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, NamedTuple, Self

from tests.fault.machines.machines import Machines

ETH_P_ALL: Final = 0x0003
ETHERNET_BYTES: Final = 14
IPV4, TCP = 0x0800, 6
FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16
FRAME_BYTES: Final = 65_536
MOST_SEGMENTS: Final = 100_000
"""That are kept; more of them is an error, and not memory."""


class Segment(NamedTuple):
    """One TCP segment.

    Attributes:
        source: address.
        target: address.
        flags: `SYN`, `RST` and so on, together.
        sequence: its number.
        size: of what it carries.
    """

    source: str
    target: str
    flags: int
    sequence: int
    size: int


class Sniffer:
    """Hears what goes through a machine's cable, at the hub's end, while the context lasts; what the machine sends into a cut, too.

    Attributes:
        segments: TCP's, in order.
    """

    def __init__(self, machines: Machines, name: str) -> None:
        from tests.fault.machines.namespaces import inside

        with inside(machines.hub):
            self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
            self._socket.bind((machines.port(name), ETH_P_ALL))
        self.segments: list[Segment] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def wait(self, done: Callable[[list[Segment]], bool], seconds: float) -> list[Segment]:
        """All segments so far, as soon as ``done`` says that it has seen enough.

        Raises:
            TimeoutError: it has not, within this time.
        """
        waiting = select.poll()
        waiting.register(self._socket, select.POLLIN)
        end = time.monotonic() + seconds
        while not done(self.segments):
            if not waiting.poll(max(end - time.monotonic(), 0) * 1000):
                raise TimeoutError(f"{len(self.segments)} segments within {seconds:.0f} s, and they are not enough")
            if len(self.segments) >= MOST_SEGMENTS:
                raise TimeoutError(f"{MOST_SEGMENTS} segments, and they are not enough")
            if (segment := read(self._socket.recv(FRAME_BYTES))) is not None:
                self.segments.append(segment)
        return self.segments


def read(frame: bytes) -> Segment | None:
    """The TCP segment in an Ethernet frame; None where it has none."""
    if len(frame) < ETHERNET_BYTES + 40 or int.from_bytes(frame[12:14], "big") != IPV4 or frame[23] != TCP:
        return None
    packet = frame[ETHERNET_BYTES:]
    header = (packet[0] & 15) * 4
    segment = packet[header : int.from_bytes(packet[2:4], "big")]
    return Segment(
        socket.inet_ntoa(packet[12:16]),
        socket.inet_ntoa(packet[16:20]),
        segment[13],
        int.from_bytes(segment[4:8], "big"),
        len(segment) - (segment[12] >> 4) * 4,
    )
