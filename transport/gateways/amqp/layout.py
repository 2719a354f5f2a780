"""How a frame is laid out: type, channel, bytes of the payload, the payload, an octet that ends it (AMQP 0-9-1, 2.3.5 and 4.2.3)."""

from __future__ import annotations

from struct import Struct
from typing import Final

FRAME_METHOD, FRAME_HEADER, FRAME_BODY, FRAME_HEARTBEAT = 1, 2, 3, 8
FRAME_END: Final = 0xCE
FRAME_HEAD: Final = Struct(">BHI")
"""Type, channel, bytes of the payload."""
HEAD_BYTES: Final = FRAME_HEAD.size
EMPTY_FRAME_BYTES: Final = HEAD_BYTES + 1
"""Of a frame without a payload; ``frame_max`` counts them."""
MIN_FRAME_MAX: Final = 8192
"""The ``frame_max`` before one is agreed on, and the least that may be, as RabbitMQ 4 has it."""
PROTOCOL_HEADER: Final = b"AMQP\0\0\x09\x01"
"""What a client says first, and what one that says anything else is told."""
