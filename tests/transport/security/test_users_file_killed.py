"""A program that keeps changing the users file is killed at some moment: the old users or the new ones are in force, whole."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from transport.security.principal import Grant, Proof, Right
from transport.security.users import User, Users
from transport.security.users_file import change_users, read_users
from transport.security.verifier import LEAST_ITERATIONS, Verifier

CHANGES = """
import sys
from pathlib import Path
from transport.security.changes import granted, revoked
from transport.security.principal import Right
from transport.security.users_file import change_users

path = Path(sys.argv[1])
print("ready", flush=True)
while True:
    change_users(path, lambda users: granted(users, "ann", Right.WRITE, "orders"))
    change_users(path, lambda users: revoked(users, "ann", Right.WRITE, "orders"))
    print("changed", flush=True)
"""
ANN = Verifier.of("pencil", LEAST_ITERATIONS, b"salt")
BEN = User("ben", Verifier.of("eraser", LEAST_ITERATIONS, b"salt"), Right.ADMINISTER)
BOTH = Right.READ | Right.WRITE
DEADLINE = 30.0


def grants_of_ann(path: Path) -> Right:
    """What she may on orders; all else must be as it was."""
    users = read_users(path)
    ann = users.get("ann")
    assert ann is not None
    assert (ann.password, users.get("ben"), len(users)) == (ANN, BEN, 2)
    return users.principal("ann", Proof.PASSWORD).grants.on("orders")


def kills(directory: Path, count: int) -> set[Right]:
    """What was found after each kill."""
    path = directory / "users.toml"
    change_users(path, lambda _: Users([User("ann", ANN, grants=(Grant("orders", Right.READ),)), BEN]))
    found = set()
    for number in range(count):
        process = subprocess.Popen([sys.executable, "-c", CHANGES, str(path)], stdout=subprocess.PIPE)
        try:
            assert process.stdout is not None
            # At another moment of a change each time: so many changes on, as soon as that is heard.
            for _ in range(1 + number % 7):
                assert process.stdout.readline()
        finally:
            process.kill()
            process.wait(DEADLINE)
            process.stdout.close()  # type: ignore[union-attr] # it is a pipe
        found.add(grants_of_ann(path))
        assert path.stat().st_mode & 0o777 == 0o600
        # What the killed one left aside does not hold up the next.
        change_users(path, lambda users: users)
        assert len(os.listdir(directory)) <= 3, os.listdir(directory)
    return found


def test_whoever_is_killed_in_a_change_leaves_the_old_users_or_the_new(tmp_path: Path) -> None:
    assert kills(tmp_path, 4) <= {Right.READ, BOTH}


@pytest.mark.soak
def test_two_hundred_kills_leave_the_old_users_or_the_new(tmp_path: Path) -> None:
    assert kills(tmp_path, 200) == {Right.READ, BOTH}
