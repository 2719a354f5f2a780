"""What the listeners of gateways are called, for who speaks of them without loading them."""

from __future__ import annotations

from typing import Final

AMQP: Final = "amqp"
AMQPS: Final = "amqps"
"""In plain and under TLS."""
HTTP: Final = "http"
SMQ_SOURCE: Final = "smq-source"
SMQ_SINK: Final = "smq-sink"
