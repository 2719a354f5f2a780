"""The names of the journal's files: what each says, and how to read it back. See journal/format.py, "Directory"."""

from __future__ import annotations

import re

LOCK = "lock"
NEWEST = "newest"
ENCOUNTERED = "encountered"
REPAIRED = "repaired"
"""The journal was repaired, and no start has looked since at what that has lost (actors/storage/after_repair.py)."""
RESERVE = "reserve"
REPLICA = "replica"
TRANSFER = "transfer"
INSTALLING = "installing"
"""What is moved into the place of a replica's journal (journal/installing.py)."""
INCOMING = "incoming"
"""The directory that a transfer is taken into, in that of the replica that it is for."""
BACKUP = "backup.json"
"""What a backup is (journal/backup.py)."""
ASIDE = ".tmp"
"""End of the name of a file that is being written; it gets its own name when it is whole and durable."""

_CHECKPOINT = re.compile(r"checkpoint-(\d{20})")
_SEGMENT = re.compile(r"(\d{20})-([0-9a-f]{8,16})\.segment")
_INDEX = re.compile(r"(\d{20}-[0-9a-f]{8,16})\.index")
_SPARE = re.compile(r"spare-[0-9a-f]{8,16}\.segment")


def stem_of(first_lsn: int, segment_id: int) -> str:
    """What the names of a segment and its index share."""
    return f"{first_lsn:020d}-{segment_id:08x}"


def segment_name(stem: str) -> str:
    """The segment of a stem."""
    return f"{stem}.segment"


def index_name(stem: str) -> str:
    """The index of a stem."""
    return f"{stem}.index"


def spare_name(segment_id: int) -> str:
    """A dead segment that waits to be written over."""
    return f"spare-{segment_id:08x}.segment"


def torn_name(stem: str, offset: int) -> str:
    """The copy of what was cut off a segment."""
    return f"torn-{stem}-{offset}"


def checkpoint_name(lsn: int) -> str:
    """The checkpoint of an lsn."""
    return f"checkpoint-{lsn:020d}"


def parse_checkpoint(name: str) -> int | None:
    """The lsn of a checkpoint's name; None for any other name."""
    match = _CHECKPOINT.fullmatch(name)
    return int(match[1]) if match else None


def parse_segment(name: str) -> tuple[int, int] | None:
    """(first lsn, segment id) of a segment's name; None for any other name, a spare one's included."""
    match = _SEGMENT.fullmatch(name)
    return (int(match[1]), int(match[2], 16)) if match else None


def parse_index(name: str) -> str | None:
    """The stem of an index's name; None for any other name."""
    match = _INDEX.fullmatch(name)
    return match[1] if match else None


def is_part(name: str) -> bool:
    """Whether only a journal has a file of this name, whole or being written: where there is none, there is no journal."""
    own = name.removesuffix(ASIDE)
    return own == NEWEST or any(parse(own) is not None for parse in (parse_checkpoint, parse_segment, parse_index))


def is_spare(name: str) -> bool:
    """Whether it is the name of a spare segment."""
    return _SPARE.fullmatch(name) is not None
