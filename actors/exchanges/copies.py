"""CC and BCC: headers by which a message has more routing keys than its own.

Each is an array of texts, and its name is written in capitals. What is in the array and is no text is left out. BCC is taken out of the
headers before the message is stored, so that no receiver sees it. So RabbitMQ has it ("Sender-selected Distribution" in its documentation).
"""

from __future__ import annotations

from typing import Final

from actors.exchanges.errors import InvalidDefinitionError
from actors.exchanges.tables import Table

SEEN: Final = "CC"
UNSEEN: Final = "BCC"


def addressed(key: str, headers: Table | None) -> tuple[tuple[str, ...], Table | None]:
    """All routing keys of a message, its own first and each once, and the headers that receivers see.

    The headers are the same object where there is no BCC in them.

    Raises:
        InvalidDefinitionError: CC or BCC is no array.
    """
    if not headers or (SEEN not in headers and UNSEEN not in headers):
        return (key,), headers
    keys = {key: None}
    for name in (SEEN, UNSEEN):
        more = headers.get(name, ())
        if not isinstance(more, list | tuple):
            raise InvalidDefinitionError(
                f"the header {name} is of type {type(more).__name__}: it is an array of routing keys"
            )
        keys.update((one, None) for one in more if isinstance(one, str))
    if UNSEEN in headers:
        headers = {name: value for name, value in headers.items() if name != UNSEEN}
    return tuple(keys), headers
