"""How many schedules there may be, how large each is, and how far it looks."""

from __future__ import annotations

from typing import Final

MAX_SCHEDULES: Final = 1_000
"""Schedules of one broker."""
MAX_SCHEDULES_BYTES: Final = 2 * 1024 * 1024
"""What all of their definitions take. Each checkpoint writes them, beside what gateways have to remember."""
MAX_SCHEDULED_PAYLOAD_BYTES: Final = 2 * 1024
"""The payload of one: it stands in a command, of which a frame's header has 4 KiB. What is larger goes elsewhere, and the message says
where."""
MAX_SCHEDULED_HEADERS_BYTES: Final = 1024
"""The headers of one, packed, with the two that are added."""
MAX_SCHEDULED_KEY_BYTES: Final = 255
"""The key of its messages, in UTF-8."""
MAX_EXPRESSION_BYTES: Final = 255
"""A cron expression or an interval, and the name of a time zone: what people write has thirty."""
MIN_INTERVAL_SECONDS: Final = 1
"""The resolution: nothing is due more often than once a second;"""
MAX_INTERVAL_SECONDS: Final = 366 * 24 * 3600
"""and the longest interval, a leap year."""
MISSED_SECONDS: Final = 10
"""A time that is longer ago than this when it is looked at was missed: what is done then is the schedule's to say."""
MAX_MISSED: Final = 256
"""Times that were missed and are made up for, of one schedule: the last of them, and no more of a cron expression are counted. A schedule
of every minute reaches it in four hours. Each of them has to be looked for, a fraction of a millisecond long."""
