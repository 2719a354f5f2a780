"""What goes wrong with links, logged once for each cause and not for each attempt; again when it was well in between."""

from __future__ import annotations

import logging
from collections import OrderedDict
from typing import Final

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
