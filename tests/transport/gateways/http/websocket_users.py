"""Users of a broker: Ann has a password and may do everything with orders; Bob has a token, and may read them."""

from __future__ import annotations

from pathlib import Path

from transport.security.principal import Grant, Right
from transport.security.proofs import TokenRecord, make_token, token_hash
from transport.security.users import User, Users
from transport.security.users_file import change_users
from transport.security.verifier import LEAST_ITERATIONS, Verifier


def users_of(folder: Path) -> tuple[str, str]:
    """Where they are, and Bob's token."""
    token = make_token()
    ann = (Grant("orders", Right.CONFIGURE | Right.WRITE | Right.READ),)
    bob = (Grant("orders", Right.READ),)
    path = folder / "users.toml"
    users = [
        User("ann", Verifier.of("secret", LEAST_ITERATIONS), Right.MONITOR, ann),
        User("bob", None, Right.NONE, bob, (TokenRecord(token_hash(token)),)),
    ]
    change_users(path, lambda _: Users(users))
    return str(path), token
