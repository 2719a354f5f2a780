"""Programs with a handler in processes: how they start, how signals end them, and what is left when they are killed."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.transport.consumer.test_consumer import sent
from tests.transport.receiver_helpers import row

ROOT = Path(__file__).resolve().parents[3]
HANDLER = """
import os, sys
from transport import Consumer

consumer = Consumer(sys.argv[1], queue="orders", grace=30.0)

@consumer.handler(processes=2)
def handle(payload: bytes) -> None:
    print("begun", os.getpid(), flush=True)
    with open(payload, "rb") as pipe:
        pipe.read()
    print("done", flush=True)

"""
GUARDED = HANDLER + 'if __name__ == "__main__":\n    consumer.run()\n    print("over", flush=True)\n'
UNGUARDED = HANDLER + 'consumer.run()\nprint("over", flush=True)\n'


@asynccontextmanager
async def program(*arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A Python program in a process group of its own, as a terminal would give it."""
    pipe = asyncio.subprocess.PIPE
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    started = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, stdout=pipe, stderr=pipe, env=environment, start_new_session=True
    )
    try:
        yield started
    finally:
        if started.returncode is None:
            started.kill()
            await started.communicate()


async def line(started: asyncio.subprocess.Process) -> list[str]:
    assert started.stdout is not None
    return (await started.stdout.readline()).decode().split()


@pytest.fixture
def held(tmp_path: Path) -> Path:
    """A message's payload: its handler works until the pipe of that name was opened and closed."""
    pipe = tmp_path / "held"
    os.mkfifo(pipe)
    return pipe


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_all_processes_of_a_program_lets_what_is_under_way_be_finished(
    run: Any, serve: Any, peers: Any, tmp_path: Path, held: Path, number: signal.Signals
) -> None:
    async def main() -> None:
        file = tmp_path / "program.py"
        file.write_text(GUARDED, "utf-8")
        async with serve(max_receives=1) as broker:
            await sent(broker, bytes(held))
            async with program(str(file), broker.receive_address) as started:
                assert (await line(started))[0] == "begun"
                os.killpg(started.pid, number)
                await asyncio.to_thread(held.write_bytes, b"")
                output, errors = await started.communicate()
            assert (started.returncode, output, errors) == (0, b"done\nover\n", b"")
            assert (await row(broker, peers))["ready"] == 0

    run(main)


def test_a_second_signal_kills_what_is_under_way_and_it_has_not_failed(
    run: Any, serve: Any, peers: Any, tmp_path: Path, held: Path
) -> None:
    async def main() -> None:
        file = tmp_path / "program.py"
        text = GUARDED.replace("import os, sys", "import os, sys, logging\nlogging.basicConfig(level=logging.INFO)")
        file.write_text(text, "utf-8")
        async with serve(max_receives=1) as broker:
            await sent(broker, bytes(held))
            async with program(str(file), broker.receive_address) as started:
                assert (await line(started))[0] == "begun"
                os.killpg(started.pid, signal.SIGINT)
                assert started.stderr is not None
                assert b"finishing what is under way" in await started.stderr.readline()
                os.killpg(started.pid, signal.SIGINT)
                output, _ = await started.communicate()
            assert (started.returncode, output) == (0, b"over\n")
            assert (await row(broker, peers))["ready"] == 1

    run(main)


def test_nothing_is_left_of_a_program_that_is_killed(
    run: Any, serve: Any, peers: Any, until: Any, tmp_path: Path, held: Path
) -> None:
    async def main() -> None:
        file = tmp_path / "program.py"
        file.write_text(GUARDED, "utf-8")
        async with serve(max_receives=5) as broker:
            await sent(broker, bytes(held), bytes(held))
            async with program(str(file), broker.receive_address) as started:
                workers = [int((await line(started))[1]) for _ in range(2)]
                started.kill()
                # Its output ends when the last process that has it is gone: those in a call, too.
                assert await started.communicate() == (b"", b"")
            assert len(set(workers)) == 2

            async def back() -> bool:
                return bool((await row(broker, peers))["ready"] == 2)

            await until(back)

    run(main)


def test_a_program_that_starts_itself_when_it_is_imported_says_so_and_ends(
    run: Any, serve: Any, peers: Any, tmp_path: Path, held: Path
) -> None:
    async def main() -> None:
        file = tmp_path / "program.py"
        file.write_text(UNGUARDED, "utf-8")
        async with serve() as broker:
            await sent(broker, bytes(held))
            async with program(str(file), broker.receive_address) as started:
                output, errors = await started.communicate()
            text = errors.decode()
            assert (started.returncode, output) == (1, b"")
            assert text.count("the consumer is started where its program is imported by a process of a handler") == 1
            assert text.rstrip().endswith('so what starts that belongs under if __name__ == "__main__":')
            assert (await row(broker, peers))["ready"] == 1

    run(main)


def test_a_program_that_is_no_file_is_told_that_its_handler_will_not_be_found(run: Any) -> None:
    async def main() -> None:
        async with program("-c", GUARDED, "127.0.0.1:9") as started:
            _, errors = await started.communicate()
        assert started.returncode == 1
        assert b"handle is in none (python -c, a console" in errors.splitlines()[-1]

    run(main)


@pytest.mark.parametrize("package", [False, True])
def test_a_program_that_is_started_as_a_module_is_found_and_one_that_is_a_package_is_told(
    run: Any, serve: Any, tmp_path: Path, held: Path, package: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        (tmp_path / "work").mkdir()
        (tmp_path / "work" / ("__main__.py" if package else "program.py")).write_text(GUARDED, "utf-8")
        monkeypatch.chdir(tmp_path)
        async with serve() as broker:
            await sent(broker, bytes(held))
            module = "work" if package else "work.program"
            async with program("-m", module, broker.receive_address) as started:
                if package:
                    _, errors = await started.communicate()
                    assert b"handle is in none" in errors.splitlines()[-1]
                else:
                    assert (await line(started))[0] == "begun"

    run(main)
