"""What goes wrong with links, logged once for each cause and not for each attempt; again when it was well in between."""

from __future__ import annotations

import logging
import os
from collections import OrderedDict
from typing import Final

from transport.cluster.hello import CODES, LinkRefusedError
from transport.wire.shown import MAX_LINE_BYTES, shown

MAX_CAUSES: Final = 256
"""That are remembered: of strangers there may be any number."""

logger = logging.getLogger("penstock.cluster")


class Causes:
    """What was said already."""

    def __init__(self) -> None:
        self._said: OrderedDict[tuple[str, str], None] = OrderedDict()

    def tell(self, who: str, cause: str, text: str) -> bool:
        """Log ``text``, once for who it is about and the cause of it; whether it was logged."""
        key = (who, cause)
        if key in self._said:
            self._said.move_to_end(key)
            return False
        self._said[key] = None
        if len(self._said) > MAX_CAUSES:
            self._said.popitem(last=False)
        logger.warning("%s", shown(text, MAX_LINE_BYTES), extra={"peer": shown(who)})
        return True

    def well(self, who: str) -> None:
        """It is well with them: what goes wrong from now on is said anew."""
        for key in [key for key in self._said if key[0] == who]:
            del self._said[key]


def cause_of(error: Exception) -> str:
    """What kind of thing went wrong: it is said once. There are few, whatever a peer gives for a reason."""
    return error.reason if isinstance(error, LinkRefusedError) and error.reason in CODES else type(error).__name__


def why(error: Exception) -> str:
    """What went wrong, in words: the system's where it has any."""
    if isinstance(error, LinkRefusedError) and error.by_peer:
        return f"it refuses this node ({shown(error.reason)}): {error}"
    if isinstance(error, TimeoutError) and not str(error):
        return "nothing answers"
    number = getattr(error, "errno", None)
    # The number of an error of TLS is none of the system's.
    if type(number) is int and number > 0 and (isinstance(error, ConnectionError) or type(error) is OSError):
        return os.strerror(number)
    return str(error) or type(error).__name__
