"""The damages of `tests.fault.damages` over real files: ``python -m tests.fault.damages --real 40``.

The same stores are damaged in the same places, in a directory of the operating system. What looks, mends, starts and receives are
processes: ``penstock journal verify`` and ``repair``, ``penstock broker``, and a client that drains every queue. Asked is that

- ``verify`` changes no file, and its exit code says whether something is damaged; ``repair`` leaves a directory that it calls whole;
- a broker that cannot start, or that comes upon damage, ends with code 74 and one line that names the command which repairs;
- the start after an end on damage refuses, with the same file, until ``repair`` has been there;
- every message that was confirmed is received or acknowledged, or ``repair`` has named what is lost; nothing else is received.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from journal.names import ENCOUNTERED
from tests.fault.damaged_files import DATA, Hit, untold
from tests.fault.damages import QUEUES, UNCHANGED, Case, Start, Store, cases, may_be_read_later, struck, verify_true
from tests.transport.programs import DEADLINE, Program
from transport import Administration, Backoff, Receiver, TransportError

LISTENS = re.compile(r"penstock broker: sending (\S+), receiving (\S+), ")
ANY_PORT = "127.0.0.1:0"
IMPATIENT = Backoff(0.01, 0.05, give_up_after=2.0)
EXIT_STORAGE = 74
STEP = 11
"""Of `cases`, each so manieth: a few of them are of many kinds and places. It divides no number of kinds, places and positions."""


@dataclass(slots=True)
class Life:
    """One run of a broker, from its start to its end.

    Attributes:
        served: whether it listened.
        code: its exit code.
        lines: what it said, without that it listens and without warnings.
        warnings: what it logged.
        received: payloads with their numbers, by queue.
    """

    served: bool = False
    code: int = 0
    lines: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    received: dict[str, list[tuple[int, bytes]]] = field(default_factory=dict)


def penstock(*arguments: str) -> tuple[int, list[str], str]:
    """A run of the command: exit code, lines, and the one line on stderr."""
    with Program(*arguments) as program:
        code, out, err = program.finish()
    assert len(err.splitlines()) == 1, err
    return code, out.decode().splitlines(), err


def live(data: Path) -> Life:
    """Start a broker, receive everything, and stop it, if it does not end by itself."""
    life = Life()
    addresses = ("--send-address", ANY_PORT, "--receive-address", ANY_PORT)
    with Program("broker", *addresses, "--data", str(data), stdin=subprocess.DEVNULL) as broker:
        text = ""
        while not (listens := LISTENS.search(text)) and (part := broker._read(broker.stderr, at_end=b"")):
            text += part.decode()
        if listens:
            life.served = True
            if asyncio.run(drain(listens[1], listens[2], life)):
                broker.process.terminate()
        text += broker.rest(broker.stderr).decode()
        life.code = broker.end()
    for line in text.splitlines():
        if not LISTENS.match(line):
            (life.warnings if " WARNING penstock." in line else life.lines).append(line)
    return life


async def drain(sending: str, receiving: str, life: Life) -> bool:
    """Receive and acknowledge all that is ready in each queue; False where the broker ends before that is done."""
    with suppress(TransportError):
        async with asyncio.timeout(DEADLINE):
            async with Administration(sending) as administration:
                ready = {row["name"]: row["ready"] for row in await administration.queues()}
            for name, count in ready.items():
                found = life.received.setdefault(name, [])
                if count:
                    receiver = Receiver(receiving, queue=name, reconnect=IMPATIENT)
                    async for each in receiver.take(count):
                        found.append((each.sequence, bytes(each.payload)))
        return True
    return False


def chosen(seed: int, count: int) -> Iterator[Case]:
    """``count`` cases, of many kinds and places."""
    for number, case in enumerate(cases(seed, count * STEP)):
        if number % STEP == 0:
            yield case


def verify_real(case: Case) -> str:
    """Ask what the module's docstring says of one damage; returns what came of it, AssertionError where it does not hold."""
    whole, disk, hits = struck(case)
    if not hits:
        return UNCHANGED
    with TemporaryDirectory(prefix="penstock-damages-") as folder:
        data, other = Path(folder) / "data", Path(folder) / "other"
        data.mkdir()
        for name, content in disk.files(DATA).items():
            (data / name).write_bytes(content)
        shutil.copytree(data, other)
        code, found, _ = penstock("journal", "verify", str(data))
        assert {path.name: path.read_bytes() for path in data.iterdir()} == disk.files(DATA), "verify changes nothing"
        assert code in {0, 1}
        verify_unmended(case, whole, other, damaged=code == 1)
        code, said, _ = penstock("journal", "repair", str(data))
        assert code == 0, said
        assert bool(said) == any(": damaged: " in line or "it cannot be told" in line for line in found), (found, said)
        assert penstock("journal", "verify", str(data))[0] == 0
        mended = live(data)
        assert (mended.served, mended.code, mended.lines) == (True, 0, []), mended.lines
        doubtful = {each for hit in hits for each in in_doubt(whole, hit)}
        lost = verify_nothing_unsaid(whole, mended, doubtful, said)
        assert penstock("journal", "verify", str(data))[0] == 0
    return f"{'damaged' if any(': damaged: ' in line for line in found) else 'whole'}, {'some' if lost else 'nothing'} lost"


def in_doubt(whole: Store, hit: Hit) -> set[bytes]:
    """What nobody can tell of one damaged file."""
    return set() if hit.content is None else untold(whole.disk, hit.name, hit.offset)


def verify_unmended(case: Case, whole: Store, data: Path, *, damaged: bool) -> None:
    """A broker on a directory that nobody has repaired: it serves what is whole, or ends as it must; then it is repaired after all."""
    life = live(data)
    verify_true(whole, Start(received=life.received))
    if not damaged or (life.code == 0 and may_be_read_later(case)):
        assert (life.served, life.code, life.lines) == (True, 0, []), life.lines
        return
    assert life.code == EXIT_STORAGE, life
    verify_told(life, data)
    if not life.served:
        # What becomes of it when it is repaired is asked of the other copy.
        return
    assert (data / ENCOUNTERED).exists(), life.lines
    again = live(data)
    assert (again.served, again.code) == (False, EXIT_STORAGE), again
    verify_told(again, data)
    assert penstock("journal", "repair", str(data))[0] == 0
    assert not (data / ENCOUNTERED).exists()
    rest = live(data)
    assert (rest.served, rest.code, rest.lines) == (True, 0, []), rest.lines
    verify_true(whole, Start(received=rest.received))


def verify_told(life: Life, data: Path) -> None:
    """One line, and in it the command that repairs."""
    (line,) = life.lines
    assert line.startswith("penstock broker: "), line
    assert f"`penstock journal repair {data}`" in line, line


def verify_nothing_unsaid(whole: Store, life: Life, doubtful: set[bytes], said: list[str]) -> int:
    """What was confirmed is received or acknowledged, or ``repair`` has said that something is lost; returns how much is missing."""
    verify_true(whole, Start(received=life.received))
    total = 0
    for name in QUEUES:
        missing = set(range(len(whole.sent[name]))) - whole.acknowledged[name]
        missing -= {number for number, _ in life.received.get(name, [])}
        certain = {number for number in missing if not any(whole.sent[name][number] in each for each in doubtful)}
        if certain:
            told = any("lost" in line or "gone" in line or "it cannot be told" in line for line in said)
            assert told, (name, sorted(certain), said)
        total += len(missing)
    return total
