"""The type variable of materialized values, which may be left out: ``Source[int]`` is ``Source[int, Any]``.

To type checkers that is a default (PEP 696). At run time only Python 3.13 knows such a thing in its own ``typing``, and
``typing_extensions`` takes longer to import than a client has. Nobody counts a type's arguments at run time. So the classes of which the
last may be left out take any number of them. `Generic` stands here for the one of ``typing``, in the manner of ``list[int]``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import Generic, Never

    from typing_extensions import TypeVar

    V_co = TypeVar("V_co", covariant=True, default=Any)
    W = TypeVar("W", default=Any)
    E = TypeVar("E", default=Any)

    class Valued(Generic[V_co]):
        """What has a materialized value and tells the type checker so. None of these methods is there at run time.

        They tell apart what an overload could not. A value of unknown type (Any) has them in each of the shapes that are asked for.
        """

        def _may_be(self, value: V_co, /) -> None:  # type: ignore[misc]  # covariant all the same: nobody can call it
            """For those that have a value (`SourceWith`, `FlowWith`): it takes something that is not None."""
            ...

        def _its_value(self) -> V_co:
            """For those that have none (`SourceWithout`, `FlowWithout`): it gives None."""
            ...

        def __delattr__(self, name: Never, /) -> Never:  # type: ignore[override]  # descriptions cannot be changed
            """For `ShortFlow` and `ShortSink`, which are to be everything but these: every other object has it as ``object`` has it."""
            ...

else:
    from types import GenericAlias
    from typing import TypeVar

    V_co = TypeVar("V_co", covariant=True)
    W = TypeVar("W")
    E = TypeVar("E")

    class Generic:
        """A class whose arguments nobody counts."""

        __slots__ = ()

        __class_getitem__ = classmethod(GenericAlias)

    class Valued(Generic):
        """A class with a materialized value."""

        __slots__ = ()


__all__ = ["E", "Generic", "V_co", "Valued", "W"]
