"""Who did what to which resource, and what they were refused: lines of the logger `penstock.audit`, each with its fields.

`INFO` is what was asked for and allowed, `WARNING` what was refused or could not be done, and `ERROR` what could not be read again. The
fields (``who``, ``what``, ``resource``, ``peer``) are in the record too, so that a log of JSON has them apart.
"""

from __future__ import annotations

import logging
from shlex import quote

from transport.wire.shown import shown

logger = logging.getLogger("penstock.audit")


def allowed(who: str, what: str, resource: str | None, peer: str, said: str | None = None) -> None:
    """``who`` has something done that takes the right to configure or to administer; ``said`` is what the message calls it."""
    logger.info(
        "%s: %s%s, from %s",
        shown(who),
        shown(said or what),
        "" if resource is None else f" {shown(resource)}",
        shown(peer),
        extra=_fields(who, what, resource, peer),
    )


def not_done(who: str, what: str, resource: str | None, peer: str, said: str, why: object) -> None:
    """What `allowed` has said of ``who`` was not done, or not to its end: the command was answered with an error."""
    logger.warning(
        "%s: %s%s, from %s, was not done: %s",
        shown(who),
        shown(said),
        "" if resource is None else f" {shown(resource)}",
        shown(peer),
        shown(str(why)),
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
    logger.warning(
        "%s from %s has not shown who they are%s", who, shown(peer), more, extra=_of(name, "authenticate", peer)
    )


def unknown_certificate(subject: str, peer: str, more: str = "") -> None:
    """A peer has a certificate that TLS has verified, and that stands for no user; ``more`` as of `unproved`."""
    # What is cut or escaped to be shown is nobody's subject.
    whole = quote(subject) if shown(subject) == subject else "SUBJECT"
    logger.warning(
        "no user has the certificate %s that came from %s: `penstock user certificate NAME %s` gives it to one%s",
        shown(subject),
        shown(peer),
        whole,
        more,
        extra=_of(subject, "authenticate", peer),
    )


def nothing_shown(peer: str, more: str = "") -> None:
    """A peer says nothing of who it is, where there are users; ``more`` as of `unproved`."""
    text = "somebody from %s says nothing of who they are, and this broker has users: give them a proof, as docs/access.md says%s"
    logger.warning(text, shown(peer), more, extra=_of(None, "authenticate", peer))


def not_secured(peer: str, why: str, more: str = "") -> None:
    """TLS with a peer has not come about; ``more`` as of `unproved`."""
    text = "the TLS handshake with %s failed: %s%s"
    logger.warning(text, shown(peer), shown(why), more, extra=_of(None, "tls", peer))


def ended(who: str, why: str, peer: str) -> None:
    """A connection of ``who`` is ended, for the users have changed."""
    logger.warning(
        "the connection of %s from %s is ended: %s", shown(who), shown(peer), why, extra=_fields(who, "end", None, peer)
    )


def not_read(what: str, why: object) -> None:
    """Something that was to be read again stays as it was."""
    logger.error("%s: not read again, and as before: %s", what, shown(str(why)), extra={"what": "reload"})


def _of(name: str | None, what: str, peer: str) -> dict[str, str | None]:
    """The fields of one who is not let in; what they say of themselves is proved by nothing."""
    return {"who": None if name is None else shown(name), "what": what, "resource": None, "peer": shown(peer)}


def _fields(who: str, what: str, resource: str | None, peer: str) -> dict[str, str | None]:
    return {
        "who": shown(who),
        "what": shown(what),
        "resource": None if resource is None else shown(resource),
        "peer": shown(peer),
    }
