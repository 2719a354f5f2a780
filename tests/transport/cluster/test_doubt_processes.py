"""Three brokers as processes, two of which confirm: one of the two has its last write damaged, and does not lead with the third."""

from __future__ import annotations

from typing import TYPE_CHECKING

from journal import OsFiles
from journal.scan import SegmentScan
from tests.transport.cluster.test_cluster_processes import Brokers, brokers, penstock

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["brokers"]


def damage_last_write(folder: Path, payload: bytes) -> None:
    """Flip a bit of the last record in a log, which holds a payload."""
    path = max(path for path in folder.glob("*.segment") if path.name[0].isdigit())
    with SegmentScan(OsFiles(), path) as scan:
        *_, last = scan.records()
    assert payload in bytes(last.payload), "something else was written behind it"
    content = bytearray(path.read_bytes())
    content[last.end - 1] ^= 4
    path.write_bytes(bytes(content))


def kill(brokers: Brokers, name: str) -> None:
    process = brokers.running.pop(name).process
    process.kill()
    process.wait()


def sent(brokers: Brokers, folder: Path, text: str, *names: str) -> None:
    path = folder / "message"
    path.write_text(text + "\n")
    done = penstock("send", "--queue", "q", str(path), "--address", brokers.address(*names))
    assert done.returncode == 0, done.stderr


def test_what_two_have_confirmed_outlives_damage_in_the_last_write_of_one_of_them(
    brokers: Brokers, tmp_path: Path
) -> None:
    facts = brokers.until(lambda facts: [row["in_step"] for row in facts["members"]] == [True] * 3)
    led = facts["leader"]
    other, off = sorted(set("abc") - {led})
    sent(brokers, tmp_path, "first")
    brokers.until(lambda facts: all(row["lag_records"] == 0 and row["in_step"] for row in facts["members"]))
    kill(brokers, off)
    sent(brokers, tmp_path, "last", led, other)
    for name in (led, other):
        kill(brokers, name)
    damage_last_write(tmp_path / led, b"last")
    for name in (led, off):
        brokers.start(name)
    for name in (led, off):
        brokers.until_said(name, f"nobody can lead: {led} cut a write at the end of the log")
    shown = penstock("cluster", "status", "--address", brokers.address(off))
    assert "no leader" in shown.stdout
    assert f"{led} cut a write at the end of its log that was damaged or not finished" in shown.stdout
    assert "half and one of the members have to be there, and at least half of all without such a doubt" in shown.stdout
    brokers.start(other)
    brokers.until(lambda facts: all(row["in_step"] and row["doubt"] is False for row in facts["members"]))
    brokers.until_said(led, "has all again that it may have answered for")
    received = ",".join(f"127.0.0.1:{ports[1]}" for ports in brokers.ports.values())
    got = penstock("receive", "--queue", "q", "--count", "2", "--address", received)
    assert got.stdout.split() == ["first", "last"]
