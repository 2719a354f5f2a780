"""What one connection of AMQP may have: bytes that wait, and seconds for what it, or the broker, waits for."""

from __future__ import annotations

from typing import Final

MOST_WAITING_BYTES: Final = 1 << 20
"""Of one connection's messages that wait for the room of their queues, before no more of it is read;"""
MOST_WAITING_CONSUMING: Final = 16 << 20
"""the same where it consumes too: it is read on, for its acknowledgements may be what makes room."""
ROOM_SECONDS: Final = 2.0
"""For which a broker that ends waits for the room of full queues."""
WINDOW_BYTES: Final = 4 << 20
"""On their way to a connection's first consumer: half of it for the second, a third for the third, and 48 MiB for 100,000 together.
Each may go beyond its own by a message."""
ANSWER_SECONDS: Final = 30.0
"""In which a command is carried out, unless the disk stands still."""
LEAVE_SECONDS: Final = 30.0
"""For which a client that closes its connection waits at most until all is stored that it has published: a queue may be full."""
