"""How many exchanges and bindings there may be, how large they are, and what one message may ask of them.

Everything here is in memory and, where it is durable, in each checkpoint, so all of it has a bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MAX_EXCHANGES: Final = 10_000
"""Exchanges beside the predeclared ones: as many as queues."""
MAX_BINDINGS: Final = 100_000
"""Bindings of all exchanges together: a queue has ten, where there are as many queues as may be."""
MAX_EXCHANGE_BINDINGS: Final = 50_000
"""Bindings of one exchange, so that one program leaves room for the others, and the end of one exchange is soon over."""
MAX_DEFINITION_BYTES: Final = 128 * 1024 * 1024
"""What all definitions take in memory, about. What a checkpoint writes of those that are durable is a tenth of it."""
DEFINITION_OVERHEAD_BYTES: Final = 1_024
"""Counted for each exchange and each binding beside its names, its key and its arguments: about what its objects take;"""
WORD_OVERHEAD_BYTES: Final = 320
"""for each word of a key, which may be a node of a trie;"""
ENTRY_OVERHEAD_BYTES: Final = 512
"""for each name in a table of arguments, which is found by its value too;"""
ITEM_OVERHEAD_BYTES: Final = 128
"""and for each item of an array in one."""
MAX_ARGUMENTS_BYTES: Final = 16 * 1024
"""Arguments of one exchange or one binding. What is larger belongs in a message."""
MAX_TABLE_DEPTH: Final = 16
"""Tables and arrays in one another, of arguments and of a message's headers. Nobody matches on what is deeper."""
MAX_ROUTING_KEY_BYTES: Final = 255
"""A routing key or a binding's key, in UTF-8: a short string of AMQP (0-9-1, 4.2.5.3)."""
MAX_ROUTING_KEYS: Final = 1_000
"""Keys of one message: its own, and those that its headers CC and BCC name."""
MAX_HOPS: Final = 64
"""Steps from exchange to exchange that one message may take. Programs use two or three."""
MAX_MATCH_STEPS: Final = 100_000
"""Words of patterns, or patterns of headers, that an exchange looks at for one message: some 50 ms. Patterns with several ``#`` could have
it look at all of theirs for each word of a key."""
MAX_DESTINATIONS: Final = 10_000
"""Queues that one message may go to: one record names them all."""
MAX_CACHED_KEYS: Final = 20_000
"""Routes that are kept, one for each exchange and key;"""
MAX_CACHED_DESTINATIONS: Final = 400_000
"""and queues that these name, all together: 3 MB of references."""
MAX_CACHED_TOGETHER: Final = 4
"""Keys of one message whose route is kept: each may have 255 bytes, and there are twenty thousand routes."""


@dataclass(frozen=True, slots=True)
class ExchangeLimits:
    """The limits of one set of definitions. Each has the value of the constant of its name where none is given."""

    max_exchanges: int = MAX_EXCHANGES
    max_bindings: int = MAX_BINDINGS
    max_exchange_bindings: int = MAX_EXCHANGE_BINDINGS
    max_definition_bytes: int = MAX_DEFINITION_BYTES
    max_arguments_bytes: int = MAX_ARGUMENTS_BYTES
    max_routing_keys: int = MAX_ROUTING_KEYS
    max_hops: int = MAX_HOPS
    max_destinations: int = MAX_DESTINATIONS
    max_cached_keys: int = MAX_CACHED_KEYS
    max_cached_destinations: int = MAX_CACHED_DESTINATIONS
