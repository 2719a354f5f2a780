"""Who did what to which resource, and what they were refused: lines of the logger `penstock.audit`, each with its fields.

`INFO` is what was asked for and allowed, `WARNING` what was refused, and `ERROR` what could not be read again. The fields (``who``,
``what``, ``resource``, ``peer``) are in the record too, so that a log of JSON has them apart.
"""

from __future__ import annotations

import logging

from transport.wire.shown import shown

logger = logging.getLogger("penstock.audit")


def allowed(who: str, what: str, resource: str | None, peer: str) -> None:
    """``who`` has something done that takes the right to configure or to administer."""
    logger.info(
        "%s: %s%s, from %s",
        shown(who),
        shown(what),
        "" if resource is None else f" {shown(resource)}",
        shown(peer),
        extra=_fields(who, what, resource, peer),
    )


def refused(who: str, right: str, what: str, resource: str | None, peer: str) -> None:
    """``who`` may not: the right is missing."""
    logger.warning(
        "refused: %s may not %s %s (%s), from %s",
        shown(who),
        right,
        "the broker" if resource is None else shown(resource),
        shown(what),
        shown(peer),
        extra=_fields(who, what, resource, peer),
    )


def unproved(name: str | None, peer: str, more: str = "") -> None:
    """A peer that says it is ``name`` has shown a proof that is none; ``more`` is what else there is to say."""
    who = "somebody" if name is None else shown(name)
    fields = {"who": None if name is None else who, "what": "authenticate", "resource": None, "peer": shown(peer)}
    logger.warning("%s from %s has not shown who they are%s", who, shown(peer), more, extra=fields)


def ended(who: str, why: str, peer: str) -> None:
    """A connection of ``who`` is ended, for the users have changed."""
    logger.warning(
        "the connection of %s from %s is ended: %s", shown(who), shown(peer), why, extra=_fields(who, "end", None, peer)
    )


def not_read(what: str, why: object) -> None:
    """Something that was to be read again stays as it was."""
    logger.error("%s: not read again, and as before: %s", what, shown(str(why)), extra={"what": "reload"})


def _fields(who: str, what: str, resource: str | None, peer: str) -> dict[str, str | None]:
    return {
        "who": shown(who),
        "what": shown(what),
        "resource": None if resource is None else shown(resource),
        "peer": shown(peer),
    }
