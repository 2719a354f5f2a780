"""What a call costs, counted in lines of Python that it runs: a measure that does not depend on the machine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, Final

COSTLY: Final = 10_000
"""Lines after which a call that should return quickly is stopped: a graph of a hundred stages needs fewer."""


class TooCostlyError(BaseException):
    """Stops a call that runs more than `COSTLY` lines; no Exception, because the call may catch those and go on."""


def is_quick(call: Callable[[], object]) -> bool:
    """Whether ``call`` returns within `COSTLY` lines; it is stopped if it does not. Work done in C is not seen."""
    lines = 0

    def count(_frame: FrameType, event: str, _argument: Any) -> Callable[..., Any]:
        nonlocal lines
        if event == "line":
            lines += 1
            if lines > COSTLY:
                raise TooCostlyError
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        call()
    except TooCostlyError:
        return False
    finally:
        sys.settrace(before)
    return True
