"""Who is asking, and what they may do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum, Flag, auto
from typing import Any, Final

from transport.wire.names import check_name


class Right(Flag):
    """What may be done. The first three are of a resource, under the names that RabbitMQ has for them; the others of the broker.

    ``CONFIGURE`` makes, changes and deletes it, ``WRITE`` puts messages in, ``READ`` takes them out; ``MONITOR`` sees statistics of
    everything, ``ADMINISTER`` may do what concerns everybody.
    """

    NONE = 0
    CONFIGURE = auto()
    WRITE = auto()
    READ = auto()
    MONITOR = auto()
    ADMINISTER = auto()


ALL_OF_RESOURCE: Final = Right.CONFIGURE | Right.WRITE | Right.READ
ALL_OF_BROKER: Final = Right.MONITOR | Right.ADMINISTER
ALL_RIGHTS: Final = ALL_OF_RESOURCE | ALL_OF_BROKER
RESOURCE_RIGHTS: Final = tuple(ALL_OF_RESOURCE)
BROKER_RIGHTS: Final = tuple(ALL_OF_BROKER)
EVERYTHING: Final = "*"
"""The pattern of every name."""


class Proof(Enum):
    """How somebody showed who they are."""

    NOT_ASKED = "not asked"
    SCRAM = "scram"
    PASSWORD = "password"  # noqa: S105 - the name of a proof
    TOKEN = "token"  # noqa: S105 - as above
    ACCESS_KEY = "access key"
    CERTIFICATE = "certificate"


@dataclass(frozen=True, slots=True)
class Grant:
    """Some rights on the resources of a pattern.

    Attributes:
        pattern: a name, or the beginning of names and ``*``.
        rights: those of `RESOURCE_RIGHTS` that it gives.
    """

    pattern: str
    rights: Right

    def __post_init__(self) -> None:
        """Refuse what grants nothing.

        Raises:
            ValueError: a pattern that no name fits, or no right of a resource.
        """
        if "*" in self.pattern[:-1]:
            raise ValueError(
                f"the pattern {self.pattern!r:.80} has a * that is not its end: it is a name, or a beginning and *"
            )
        if self.pattern != EVERYTHING:
            check_name(self.pattern.removesuffix("*"), "pattern's")
        if not self.rights or self.rights & ~ALL_OF_RESOURCE:
            raise ValueError(f"a grant gives one or more of {', '.join(name_of(right) for right in RESOURCE_RIGHTS)}")


MOST_KNOWN: Final = 256
"""Names whose rights are remembered, of each principal."""


class Grants:
    """Grants, made ready to be asked: what a question costs does not grow with their number."""

    __slots__ = ("_known", "_lengths", "_of_beginning", "_of_name")

    def __init__(self, grants: Iterable[Grant] = ()) -> None:
        self._of_name: dict[str, Right] = {}
        self._of_beginning: dict[str, Right] = {}
        for grant in grants:
            beginning = grant.pattern.endswith("*")
            kept, name = (self._of_beginning, grant.pattern[:-1]) if beginning else (self._of_name, grant.pattern)
            kept[name] = kept.get(name, Right.NONE) | grant.rights
        self._lengths = sorted({len(beginning) for beginning in self._of_beginning})
        # What was asked before: nearly all requests are about one of a few.
        self._known: dict[str, Right] = {}

    def __iter__(self) -> Iterator[Grant]:
        """One of each pattern, by pattern."""
        patterns = {**self._of_name, **{f"{beginning}*": rights for beginning, rights in self._of_beginning.items()}}
        return iter([Grant(pattern, patterns[pattern]) for pattern in sorted(patterns)])

    def within(self, beginning: str) -> bool:
        """Whether there is any right on a name that begins so."""
        return any(name.startswith(beginning) for name in self._of_name) or any(
            each.startswith(beginning) or beginning.startswith(each) for each in self._of_beginning
        )

    def on(self, name: str) -> Right:
        """The rights on the resource of this name."""
        known = self._known.get(name)
        if known is not None:
            return known
        rights = self._of_name.get(name, Right.NONE)
        for length in self._lengths:
            if length > len(name):
                break
            rights |= self._of_beginning.get(name[:length], Right.NONE)
        if len(self._known) >= MOST_KNOWN:
            self._known.clear()
        self._known[name] = rights
        return rights


@dataclass(frozen=True, slots=True)
class Principal:
    """Somebody who asks for something.

    Attributes:
        name: the user's.
        rights: of the broker.
        grants: of resources.
        proof: how they came in.
        shown: what they showed for it, as it is kept: with it they can be looked up again when the users have changed.
    """

    name: str
    rights: Right = Right.NONE
    grants: Grants = field(default_factory=Grants, repr=False)
    proof: Proof = Proof.NOT_ASKED
    shown: Any = field(default=None, repr=False, compare=False)

    def may(self, right: Right, resource: str | None = None) -> bool:
        """Whether they have the right: on the resource of that name, or of the broker.

        Whoever administers the broker may also see its statistics. On resources even they have what was granted.
        """
        if resource is not None:
            return right in self.grants.on(resource)
        return right in self.rights or (right is Right.MONITOR and Right.ADMINISTER in self.rights)

    def __str__(self) -> str:
        return self.name


ANYONE: Final = Principal(
    "anyone",
    ALL_OF_BROKER,
    Grants([Grant(EVERYTHING, ALL_OF_RESOURCE)]),
)
"""Who asks a broker that has no users."""


def name_of(right: Right) -> str:
    """The word for one right, in the users file and in messages."""
    assert right.name is not None, "one right"
    return right.name.lower()


def grants_of(grants: Iterable[Grant]) -> list[dict[str, Any]]:
    """Grants as they are told: each with its pattern, and the words for its rights."""
    return [
        {"on": grant.pattern, "rights": [name_of(right) for right in RESOURCE_RIGHTS if right in grant.rights]}
        for grant in grants
    ]


def right_of(name: str) -> Right:
    """The right of that name.

    Raises:
        ValueError: there is none.
    """
    for right in (*RESOURCE_RIGHTS, *BROKER_RIGHTS):
        if name == name_of(right):
            return right
    raise ValueError(
        f"there is no right {name!r:.40}: there are {', '.join(map(name_of, (*RESOURCE_RIGHTS, *BROKER_RIGHTS)))}"
    )
