"""Errors as Spark is to show them: what went wrong and what to do, without the stacks of what led to it.

Spark puts a worker's whole traceback into the exception that a user sees, chained causes first: dozens of lines of this package's and the
client's insides in front of the one that matters. An error that says everything by itself goes up without them. One that nobody
expected keeps its stack, which is then what is of use.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import wraps
from inspect import isgeneratorfunction
from typing import Any, NoReturn, ParamSpec, TypeVar

from pyspark.sql.datasource import DataSourceStreamReader

from spark_bridge._pyspark import ReadLimit, SupportsTriggerAvailableNow
from spark_bridge.errors import SparkBridgeError
from spark_bridge.worker_log import in_worker
from transport import TransportError

P = ParamSpec("P")
T = TypeVar("T")

TOLD = (SparkBridgeError, TransportError)
"""Errors whose text is for the user."""


HIDE_VARIABLE = "SPARK_HIDE_TRACEBACK"
"""Where it is not empty, Spark shows of a worker's error its type and text."""


def _alone(error: BaseException) -> BaseException:
    """``error`` as it is to be raised: without its stack, and in a worker of Spark's so that what is shown begins with its text.

    Such a worker reports the error and ends, so no other error loses its stack by it. Whoever sets the variable keeps what they set.
    """
    if in_worker():
        os.environ.setdefault(HIDE_VARIABLE, "1")
    return error.with_traceback(None)


def plainly(call: Callable[P, T]) -> Callable[P, T]:
    """A method of a reader or writer, whose errors leave their stack and their causes behind; its signature stays."""
    if isgeneratorfunction(call):

        @wraps(call)
        def rows(*args: P.args, **kwargs: P.kwargs) -> Iterator[Any]:
            try:
                yield from call(*args, **kwargs)
            except TOLD as error:
                raise _alone(error) from None

        return rows  # type: ignore[return-value]  # of a generator function, T is an iterator

    @wraps(call)
    def calling(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return call(*args, **kwargs)
        except TOLD as error:
            raise _alone(error) from None

    return calling


class FailedReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]  # PySpark has no type information
    """A reader that could not be made, and says why when it is first asked.

    Where ``streamReader()`` itself raises, Spark's worker fails once more as it cleans up, and its user reads of an UnboundLocalError.

    Args:
        error: why.
    """

    def __init__(self, error: SparkBridgeError) -> None:
        self._error = error

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name, as are those below
        """Raises."""
        self._fail()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Raises."""
        self._fail()

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Raises."""
        self._fail()

    def latestOffset(self, *_asked: Any) -> dict[str, Any]:  # noqa: N802
        """Raises."""
        self._fail()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """Raises."""
        self._fail()

    def partitions(self, *_asked: Any) -> list[Any]:
        """Raises."""
        self._fail()

    def commit(self, *_asked: Any) -> None:
        """Raises."""
        self._fail()

    def read(self, *_asked: Any) -> Iterator[Any]:
        """Raises."""
        self._fail()

    def stop(self) -> None:
        """Nothing is open."""

    def _fail(self) -> NoReturn:
        raise _alone(self._error) from None
