"""The users of a broker, and who somebody is that proves it in one of four ways."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, TypeVar

from transport.security.principal import Grant, Grants, Principal, Proof, Right
from transport.security.proofs import TokenRecord, looks_like_token, token_hash
from transport.security.saslprep import saslprep
from transport.security.verifier import Verifier
from transport.wire.names import check_name

K = TypeVar("K")
V = TypeVar("V")

MAX_USERS: Final = 10_000
DECOY_KEY_BYTES: Final = 32
MAX_GRANTS: Final = 1_000
"""Of one user."""
MAX_TOKENS: Final = 100
"""Of one user."""
MAX_ACCESS_KEYS: Final = 100
"""Of one user."""
MAX_CERTIFICATES: Final = 100
"""Of one user."""


class UsersError(ValueError):
    """Users that cannot be; no secret is in the text."""


@dataclass(frozen=True, slots=True)
class User:
    """What is kept of one user.

    Attributes:
        name: unlike any other's.
        password: the record of their password; None where they have none.
        rights: of the broker.
        grants: on resources.
        tokens: records of their tokens.
        access_keys: the public halves.
        certificates: subjects of client certificates that stand for them, as RFC 4514 writes them.
    """

    name: str
    password: Verifier | None = field(default=None, repr=False)
    rights: Right = Right.NONE
    grants: tuple[Grant, ...] = ()
    tokens: tuple[TokenRecord, ...] = ()
    access_keys: tuple[str, ...] = ()
    certificates: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_name(self.name, "user's")
        if saslprep(self.name, "name of the user") != self.name:
            raise UsersError(
                f"the name {self.name!r:.80} has characters that have another form (SASLprep): write it in that form"
            )
        for what, many, most in (
            ("grants", self.grants, MAX_GRANTS),
            ("tokens", self.tokens, MAX_TOKENS),
            ("access keys", self.access_keys, MAX_ACCESS_KEYS),
            ("certificates", self.certificates, MAX_CERTIFICATES),
        ):
            if len(many) > most:
                raise UsersError(f"the user {self.name} has {len(many)} {what}, {most} is the most")


class Users:
    """All users, as they are at one moment: a change makes another `Users`.

    Args:
        users: each with a name of its own.
        decoy_key: what the records of names that nobody has are made with; a new one by default. It is kept with the users: else a name
            that nobody has would be known by another salt after each start.

    Raises:
        UsersError: two have a name, a token, an access key or a certificate in common, or there are too many.
    """

    def __init__(self, users: Iterable[User] = (), decoy_key: bytes | None = None) -> None:
        self._users: dict[str, User] = {}
        self._principals: dict[str, Principal] = {}
        self._tokens: dict[bytes, tuple[TokenRecord, User]] = {}
        self._access_keys: dict[str, User] = {}
        self._certificates: dict[str, User] = {}
        self.decoy_key = secrets.token_bytes(DECOY_KEY_BYTES) if decoy_key is None else decoy_key
        for user in users:
            self._add(user)
        if len(self._users) > MAX_USERS:
            raise UsersError(f"there are {len(self._users)} users, {MAX_USERS} is the most")

    def _add(self, user: User) -> None:
        if user.name in self._users:
            raise UsersError(f"two users are called {user.name}")
        self._users[user.name] = user
        self._principals[user.name] = Principal(user.name, user.rights, Grants(user.grants))
        for record in user.tokens:
            self._claim(self._tokens, record.hash, (record, user), f"the token {record.name}", user)
        for key in user.access_keys:
            self._claim(self._access_keys, key, user, f"the access key {key}", user)
        for subject in user.certificates:
            self._claim(self._certificates, subject, user, f"the certificate {subject!r:.80}", user)

    @staticmethod
    def _claim(taken: dict[K, V], key: K, value: V, what: str, user: User) -> None:
        if key in taken:
            raise UsersError(f"{what} of the user {user.name} is there twice")
        taken[key] = value

    def __iter__(self) -> Iterator[User]:
        return iter(self._users.values())

    def __len__(self) -> int:
        return len(self._users)

    def but(self, users: Iterable[User]) -> Users:
        """Others in the place of these."""
        return Users(users, self.decoy_key)

    def get(self, name: str) -> User | None:
        """The user of that name."""
        return self._users.get(name)

    # Proofs

    def verifier(self, name: str) -> Verifier:
        """The record that a password of this name is checked with. One who is not there, or has no password, has one that none fits."""
        user = self._users.get(name)
        return Verifier.of_nobody(name, self.decoy_key) if user is None or user.password is None else user.password

    def principal(self, name: str, proof: Proof, shown: object = None) -> Principal:
        """The user of that name, who has proved it; ``shown`` is what with, unless it was the password."""
        plain = self._principals[name]
        shown = self._users[name].password if shown is None else shown
        return Principal(plain.name, plain.rights, plain.grants, proof, shown)

    def of_password(self, name: str, password: str) -> Principal | None:
        """Who says this name and this password; None for nobody. Takes a fifth of a second, for nobody too: not for an event loop."""
        if not self.verifier(name).fits(password):
            return None
        return self.principal(name, Proof.PASSWORD)

    def of_token(self, token: str, now: datetime) -> Principal | None:
        """Whose token it is; None where it is nobody's, or its time is over."""
        if not looks_like_token(token):
            return None
        digest = token_hash(token)
        record, user = self._tokens.get(digest, (None, None))
        if record is None or user is None or not hmac.compare_digest(record.hash, digest) or not record.holds(now):
            return None
        return self.principal(user.name, Proof.TOKEN, digest)

    def of_access_key(self, key_id: str) -> Principal | None:
        """Whose access key it is: the signature is to be checked with its secret."""
        user = self._access_keys.get(key_id)
        return None if user is None else self.principal(user.name, Proof.ACCESS_KEY, key_id)

    def of_certificate(self, subject: str) -> Principal | None:
        """For whom a client certificate stands that TLS has verified."""
        user = self._certificates.get(subject)
        return None if user is None else self.principal(user.name, Proof.CERTIFICATE, subject)

    # Those who came in before

    def again(self, before: Principal, now: datetime) -> Principal | None:
        """Who they are now who came in as ``before``, perhaps under other users; None where their proof is none any more."""
        if before.proof is Proof.NOT_ASKED:
            return before
        user: User | None
        if before.proof is Proof.TOKEN:
            record, user = self._tokens.get(before.shown, (None, None))
            if record is None or not record.holds(now):
                return None
        elif before.proof is Proof.ACCESS_KEY:
            user = self._access_keys.get(before.shown)
        elif before.proof is Proof.CERTIFICATE:
            user = self._certificates.get(before.shown)
        else:
            user = self._users.get(before.name)
            if user is None or user.password is None or user.password != before.shown:
                return None
        return (
            None if user is None or user.name != before.name else self.principal(user.name, before.proof, before.shown)
        )

    def next_end(self, now: datetime) -> datetime | None:
        """When the next token's time is over; None where none has an end before it."""
        ends = (record.until for record, _ in self._tokens.values() if record.until is not None and record.until > now)
        return min(ends, default=None)
