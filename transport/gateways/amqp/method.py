"""What all methods of AMQP have in common; each is a class of its own, in the modules that `methods` lists."""

from __future__ import annotations

from typing import ClassVar


class Method:
    """A method with its arguments, frozen. Short strings are text, long strings bytes, bits truths, tables `Table`.

    Attributes:
        INDEX: class and method number in one, as on the wire: the class in the upper 16 bits.
        NAME: as it is spoken of, ``queue.declare-ok``.
        LAYOUT: the type of each argument, in order, with spaces between.
        ANSWERS: the indices of the methods that answer it; empty for one that is not synchronous.
        CONTENT: whether a content header and bodies follow it.
    """

    __slots__ = ()

    INDEX: ClassVar[int]
    NAME: ClassVar[str]
    LAYOUT: ClassVar[str] = ""
    ANSWERS: ClassVar[tuple[int, ...]] = ()
    CONTENT: ClassVar[bool] = False

    @property
    def synchronous(self) -> bool:
        """Whether an answer is waited for: ``nowait`` asks for none."""
        return bool(self.ANSWERS) and not getattr(self, "nowait", False)
