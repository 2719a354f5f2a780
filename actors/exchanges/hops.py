"""How far a message could go from exchange to exchange: a way that is too long is refused before it is made.

A message visits an exchange once, so no way is endless; but a chain of thousands would cost each message as many steps. The steps through a
new way are judged by the furthest exchange from which its beginning can be reached, and the furthest that its end reaches. That may be more
than any one message takes where ways are a circle, never less. A way that becomes longer because a shorter one was taken away is found
when a message goes there (``routing.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from actors.exchanges.definitions import Definitions
from actors.exchanges.errors import ExchangeLimitError
from actors.exchanges.vocabulary import Destination

ADVICE = "bind the queues nearer to where is published"


def check_hops(definitions: Definitions, source: str, destination: str, bound: int) -> None:
    """Whether ``source`` may lead to ``destination``, by a binding or as its alternate, which either may be missing yet.

    Raises:
        ExchangeLimitError: a message could take more than ``bound`` steps through it.
    """
    if Destination(destination, is_exchange=True) in definitions.onward(source):
        return
    steps = 1 + _furthest(source, definitions.inward, bound) + _furthest(destination, definitions.onward, bound)
    if steps > bound:
        raise too_far(steps, bound)


def too_far(steps: int, bound: int) -> ExchangeLimitError:
    """The error for a way of so many steps."""
    return ExchangeLimitError("steps from exchange to exchange", steps, "max_hops", bound, ADVICE)


def _furthest(start: str, ways: Callable[[str], Mapping[Destination, int]], bound: int) -> int:
    """The steps to the furthest exchange that ``ways`` reach; what is further than ``bound`` is not looked for."""
    seen = {start}
    here = [start]
    steps = 0
    while steps <= bound:
        following = {there.name: None for name in here for there in ways(name) if there.name not in seen}
        if not following:
            break
        seen.update(following)
        here = list(following)
        steps += 1
    return steps
