"""docs/security.md says of each operation what `OPERATIONS` asks for."""

from __future__ import annotations

from pathlib import Path

from transport.broker.operations import OPERATIONS
from transport.security.principal import BROKER_RIGHTS, name_of

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "security.md").read_text()


def test_the_table_of_operations_is_the_brokers() -> None:
    rows = [line for line in PAGE.split("| operation |")[1].split("\n\n")[0].splitlines() if line.startswith("| `")]
    expected = []
    for name, operation in sorted(OPERATIONS.items()):
        right = operation.right
        of = "" if right is None else "the broker" if right in BROKER_RIGHTS else f"`{operation.resource}`"
        said = "" if right is None else name_of(right)
        expected.append(f"| `{name}` | {said} | {of} |".replace("|  |", "| |").replace("|  |", "| |"))
    assert rows == expected
