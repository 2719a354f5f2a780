"""How a transaction and a stage of it are named in HELLO's options; docs/protocol.md, "Transactions"."""

from __future__ import annotations

from actors.queue.vocabulary.stages import EnlistedStage as EnlistedStage  # noqa: PLC0414 - transport gives it from here
from actors.queue.vocabulary.stages import StageKey
from transport.errors import LocalProtocolError, RemoteProtocolError
from transport.wire.field_checks import MAX_INTEGER
from transport.wire.messages import Options, brief
from transport.wire.names import check_name

WRITER, VERSION, STAGE = "writer", "version", "stage"
"""The options."""


def transaction_options(writer: str, version: int) -> Options:
    """The options of a client.

    Raises:
        LocalProtocolError: a version that cannot be.
        InvalidNameError: a writer that cannot be named so.
    """
    if type(version) is not int or not 0 <= version <= MAX_INTEGER:
        raise LocalProtocolError(f"a transaction's version is a whole number of zero or more, not {version!r:.40}")
    return {WRITER: check_name(writer, "writer"), VERSION: version}


def read_transaction(options: Options) -> tuple[str, int]:
    """Writer and version, as a client has said them.

    Raises:
        RemoteProtocolError: one is absent or of the wrong type.
        InvalidNameError: a writer out of its limits.
    """
    writer, version = options.get(WRITER), options.get(VERSION)
    if not isinstance(writer, str):
        raise RemoteProtocolError(f"HELLO: a transaction's writer is a name, not {brief(writer)}")
    if type(version) is not int or not 0 <= version <= MAX_INTEGER:
        raise RemoteProtocolError(f"HELLO: a transaction's version is a number of zero or more, not {brief(version)}")
    return check_name(writer, "writer"), version


def read_stage(options: Options) -> StageKey | None:
    """The stage that a sender has named; None where it has named none.

    Raises:
        RemoteProtocolError: some of the three options and not all, or one of the wrong type.
        InvalidNameError: a name out of its limits.
    """
    if options.keys().isdisjoint((WRITER, VERSION, STAGE)):
        return None
    writer, version = read_transaction(options)
    stage = options.get(STAGE)
    if not isinstance(stage, str):
        raise RemoteProtocolError(f"HELLO: a sender in a transaction names its stage, not {brief(stage)}")
    return StageKey(writer, version, check_name(stage, "stage"))
