"""What can be changed of the users: each function gives the users as they are afterwards, and changes nothing itself."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from shlex import quote

from transport.security.principal import Grant, Right, name_of
from transport.security.proofs import TokenRecord
from transport.security.users import User, Users, UsersError
from transport.security.verifier import Verifier
from transport.wire.shown import shown


def added(users: Users, user: User) -> Users:
    """With one more."""
    if users.get(user.name) is not None:
        raise UsersError(
            f"there is a user {user.name} already: `penstock user passwd` changes the password, `grant` the rights"
        )
    return users.but([*users, user])


def removed(users: Users, name: str) -> Users:
    """Without this one."""
    gone = user_of(users, name)
    return users.but(user for user in users if user is not gone)


def with_password(users: Users, name: str, password: Verifier | None) -> Users:
    """With another password, or none."""
    return _changed(users, replace(user_of(users, name), password=password))


def granted(users: Users, name: str, rights: Right, pattern: str | None) -> Users:
    """With more rights: on the resources of a pattern, or of the broker."""
    user = user_of(users, name)
    if pattern is None:
        return _changed(users, replace(user, rights=user.rights | rights))
    before = Right.NONE
    for grant in user.grants:
        if grant.pattern == pattern:
            before |= grant.rights
    others = tuple(grant for grant in user.grants if grant.pattern != pattern)
    return _changed(users, replace(user, grants=(*others, Grant(pattern, before | rights))))


def revoked(users: Users, name: str, rights: Right, pattern: str | None) -> Users:
    """With fewer rights.

    Raises:
        UsersError: a right that is to go is not there; it may be given by another pattern.
    """
    user = user_of(users, name)
    if pattern is None:
        _expect(user, rights, user.rights, "")
        return _changed(users, replace(user, rights=user.rights & ~rights))
    had = Right.NONE
    for grant in user.grants:
        if grant.pattern == pattern:
            had |= grant.rights
    _expect(user, rights, had, f" on {pattern}")
    left = [grant for grant in user.grants if grant.pattern != pattern]
    if had & ~rights:
        left.append(Grant(pattern, had & ~rights))
    return _changed(users, replace(user, grants=tuple(left)))


def _expect(user: User, rights: Right, had: Right, where: str) -> None:
    missing = [name_of(right) for right in rights & ~had]
    if missing:
        raise UsersError(
            f"{user.name} was not granted {', '.join(missing)}{where}: `penstock user list` shows what was"
        )


def with_token(users: Users, name: str, record: TokenRecord) -> Users:
    """With one more token."""
    user = user_of(users, name)
    return _changed(users, replace(user, tokens=(*user.tokens, record)))


def with_access_key(users: Users, name: str, key_id: str) -> Users:
    """With one more access key."""
    user = user_of(users, name)
    return _changed(users, replace(user, access_keys=(*user.access_keys, key_id)))


def with_certificate(users: Users, name: str, subject: str) -> Users:
    """With one more certificate that stands for them.

    Raises:
        UsersError: it stands for somebody already.
    """
    user = user_of(users, name)
    owner = users.of_certificate(subject)
    if owner is not None:
        raise UsersError(
            f"the certificate {shown(subject)} stands for the user {owner.name} already: "
            f"`penstock user revoke {owner.name} --proof {quote(shown(subject))}` takes it away"
        )
    return _changed(users, replace(user, certificates=(*user.certificates, subject)))


def without_proof(users: Users, name: str, proof: str) -> Users:
    """Without the token, access key or certificate of that name."""
    user = user_of(users, name)
    less = replace(
        user,
        tokens=tuple(record for record in user.tokens if record.name != proof),
        access_keys=_without(user.access_keys, proof),
        certificates=_without(user.certificates, proof),
    )
    if less == user:
        raise UsersError(
            f"{name} has no token, access key or certificate {proof!r:.80}: `penstock user list` shows which there are"
        )
    return _changed(users, less)


def _without(names: Iterable[str], gone: str) -> tuple[str, ...]:
    return tuple(name for name in names if name != gone)


def user_of(users: Users, name: str) -> User:
    """The user of that name.

    Raises:
        UsersError: there is none.
    """
    user = users.get(name)
    if user is None:
        raise UsersError(f"there is no user {name!r:.80}: `penstock user list` shows who there is")
    return user


def _changed(users: Users, changed: User) -> Users:
    return users.but(changed if user.name == changed.name else user for user in users)
