"""How much a queue does in one go, before others have their turn."""

from __future__ import annotations

DISPATCH_BUDGET = 256
"""Deliveries in one go: what a receiving connection's actor takes from its inbox in one turn of the loop.

A demand for a million one-message batches is met in so many steps, with other work between them.
"""
TIMER_BUDGET = 4_096
"""Expired leases or due delays handled in one tick; the next deadline is then at once."""
EXPIRY_BUDGET = 256
"""Batches past their time to live that are dropped in one go; each may have to be read from the disk to know its time."""
DROP_BUDGET = 256
"""Batches, or parts of them, that a queue over its limit drops in one go."""
LOOK_BUDGET = 16_384
"""Messages of a queue with groups that it looks at in one go, about: some milliseconds of work."""
COUNT_BUDGET = 512
"""Batches whose bytes a queue counts in one go that is to drop what is over its limit of bytes."""
PURGE_BUDGET = 256
"""Batches, or parts of batches that are left of them, that a purge drops in one go: some milliseconds of work."""
JUDGE_BUDGET = 512
"""Parts of batches that other settings have a queue judge anew in one go: some milliseconds of work."""
IDS_BUDGET = 1_024
"""Messages that a queue which remembers ids accepts from its senders in one go, but for one batch: each may have an id to be looked at."""
