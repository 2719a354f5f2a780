"""The register: where the cluster's one document lies. Two operations, and what each of them can come to.

Whoever implements it keeps these rules, which the contract's tests hold over each (`tests/transport/cluster/register_contract.py`):

- ``read`` is linearizable: it gives a document that was the newest at some instant between its call and its answer.
- ``swap`` is atomic: of two from the same version at most one is carried out.
- A version is never used again, and a later one is greater. 0 stands for a register that holds nothing.
- Each call ends within the implementation's deadline.
- A call is never sent a second time where the first may have been carried out.

**A swap whose answer was lost** may have been carried out, may be carried out later, or never. Nobody can tell by waiting. `outcome_of`
tells by what is read next: once the version has moved, the swap can do nothing any more. As long as it has not, the swap is open. Whoever
has to know swaps the same document again, from the same version: of both at most one is carried out.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from actors.errors import ActorError

if TYPE_CHECKING:
    from actors.replication.document import ClusterDocument

NOTHING: Final = 0
"""The version of a register that holds no document."""


class RegisterError(ActorError):
    """Root of what a call of the register can come to but an answer."""


class RegisterMovedError(RegisterError):
    """The document is not at the version that a swap was from; nothing was changed.

    Attributes:
        version: the version that it is at.
    """

    def __init__(self, version: int) -> None:
        super().__init__(f"the cluster's document is at version {version} by now: read it again")
        self.version = version


class RegisterUnavailableError(RegisterError):
    """The register could not be asked, or refused to answer; nothing was changed, and nothing will be by this call. The text says why."""


class SwapUnknownError(RegisterError):
    """A swap was sent and its answer was lost: it may have been carried out, and may yet be. Read again, never guess (`outcome_of`)."""


class Versioned(NamedTuple):
    """What the register holds.

    Attributes:
        version: of the document; ``NOTHING`` where there is none.
        document: None where there is none.
    """

    version: int
    document: ClusterDocument | None


class Register(Protocol):
    """One versioned document, somewhere else."""

    async def read(self) -> Versioned:
        """The newest document.

        Raises:
            RegisterUnavailableError: it cannot be asked.
            DocumentError: what lies there is no document.
        """

    async def swap(self, version: int, document: ClusterDocument) -> int:
        """Put ``document`` in the place of the one that is at ``version``; ``NOTHING`` where there is to be none yet.

        Returns:
            its version.

        Raises:
            RegisterMovedError: it is at another version.
            RegisterUnavailableError: nothing was done.
            SwapUnknownError: the answer was lost.
            DocumentError: it is too large.
        """


class Outcome(Enum):
    """What became of a swap whose answer was lost, by what was read afterwards."""

    OPEN = "open"
    """The version has not moved: it was not carried out, and may yet be."""
    WON = "won"
    """The document is its own."""
    PASSED = "passed"
    """The document is another's. It was not carried out, or others have swapped behind it; it can do nothing any more."""


def outcome_of(version: int, document: ClusterDocument, read: Versioned) -> Outcome:
    """What became of ``swap(version, document)`` with a lost answer, if this was ``read`` after it.

    It goes by the document's ``writer``, so that has to be another one at each swap.
    """
    if read.version == version:
        return Outcome.OPEN
    if read.document is not None and read.document.writer == document.writer:
        return Outcome.WON
    return Outcome.PASSED
