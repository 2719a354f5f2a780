"""When to give memory back to the operating system that was freed and that the C library keeps: from numbers alone, looked at every second.

What many clients took at once is free again when they have left, in pieces between what stays. The C library keeps such pieces, for
good, until it is told to give back the pages in them that nobody uses.
"""

from __future__ import annotations

WORTH_BYTES = 4 * 2**20
"""Freed bytes from which on it is worth giving them back. It holds the loop: 0.06 ms a MiB where what was freed is large, and half a
millisecond where it lies in small pieces."""
WORTH_SHARE = 32
"""One part of so many of what is in use, where that is more: a large process gives back in larger steps."""
LOOKS_BETWEEN = 5
"""Looks from one time to the next: what is given back and soon needed again costs its pages anew, a millisecond for 10 MiB."""


class FreedMemory:
    """How much is freed and still resident, as far as figures of the whole process tell, and whether to give it back now.

    Args:
        used: resident bytes at the start.
        kept: bytes that the C library keeps free; None where it does not tell.
        small: bytes in use of those that Python divides by itself, in megabytes that the C library knows nothing of.
    """

    def __init__(self, used: int, kept: int | None, small: int = 0) -> None:
        self._freed = self._looks = self._floor = 0
        self._least = self._most = used
        self._most_small = small
        self.given_back(used, kept, small)

    def due(self, used: int, kept: int | None, small: int = 0, *, pressed: bool = False) -> bool:
        """Take in a look; whether to give back now: it is worth it, and no more is about to come, or memory is scarce."""
        self._most_small = max(self._most_small, small)
        before, self._freed = self._freed, max(self._take_in(used, kept), self._most_small - small)
        self._looks += 1
        worth = max(WORTH_BYTES, used // WORTH_SHARE)
        calm = self._freed < before + worth
        return pressed or (self._freed >= worth and calm and self._looks >= LOOKS_BETWEEN)

    def given_back(self, used: int, kept: int | None, small: int = 0) -> None:
        """It was tried. What the C library keeps all the same takes no memory, until it is used and freed again."""
        self._least = self._most = used
        self._most_small = small
        self._floor = kept or 0
        self._freed = self._looks = 0

    def _take_in(self, used: int, kept: int | None) -> int:
        """What has been freed since it was last given back, and is still resident: that at most."""
        self._least, self._most = min(self._least, used), max(self._most, used)
        if kept is None:
            return max(used - self._least, self._most - used)
        self._floor = min(self._floor, kept)
        # Either says too little by itself: what was freed may have been live before, or have been given back and used again.
        return max(kept - self._floor, min(kept, used - self._least))
