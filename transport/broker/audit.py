"""Who did what to which resource, and what they were refused: lines of the logger `penstock.audit`, each with its fields.

`INFO` is what was asked for and allowed, `WARNING` what was refused. The fields (``who``, ``what``, ``resource``, ``peer``) are in the
record too, so that a log of JSON has them apart.
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


def _fields(who: str, what: str, resource: str | None, peer: str) -> dict[str, str | None]:
    return {
        "who": shown(who),
        "what": shown(what),
        "resource": None if resource is None else shown(resource),
        "peer": shown(peer),
    }
