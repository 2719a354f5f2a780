"""A command ``penstock`` for shells, whose processes `tests.transport.forking` forks from one that has imported everything.

What a shell starts is `PROGRAM`. It hands its arguments, its environment, its folder and its standard streams to the test, lives as long
as what was forked for it, passes signals on to that, and ends with its code; with what a shell would call it, where that was a signal.
Should it be killed, so is what was forked.
"""

from __future__ import annotations

import contextlib
import marshal
import os
import select
import socket
import struct
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from tests.transport.forking import MODULE, STATUS, Forked, of_interpreter

LENGTH = struct.Struct("!I")
STREAMS = 3
WAITING = 64
"""Commands whose turn has not come."""

PROGRAM = """\
#!{python} -ISB
import _signal, _socket, array, marshal, posix, sys
environment = {{bytes(name): bytes(value) for name, value in posix.environ.items()}}
asked = marshal.dumps((sys.argv[1:], environment, posix.getcwd()))
test = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
test.connect({address!r})
test.sendmsg([len(asked).to_bytes(4, "big")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, array.array("i", range({streams})))])
test.sendall(asked)
forked = int.from_bytes(test.recv(4), "big", signed=True)
for number in (_signal.SIGHUP, _signal.SIGINT, _signal.SIGTERM):
    _signal.signal(number, lambda number, _: posix.kill(forked, number))
for number in range({streams}):
    posix.close(number)
code = int.from_bytes(test.recv(4) or bytes([0, 0, 0, 1]), "big", signed=True)
posix._exit(code if code >= 0 else 128 - code)
"""
"""Without `site` and with nothing imported but what is built in: it takes a tenth of the time of the program that it stands for."""


@contextlib.contextmanager
def forked_command(program: Path) -> Iterator[None]:
    """Makes ``program`` the command, as long as the context lasts."""
    address = str(program.with_name("forks"))
    program.write_text(PROGRAM.format(python=sys.executable, address=address, streams=STREAMS), "utf-8")
    program.chmod(0o755)
    started: list[threading.Thread] = []
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen(WAITING)
        accepting = threading.Thread(target=_accept, args=[listener, started])
        accepting.start()
        try:
            yield
        finally:
            listener.shutdown(socket.SHUT_RDWR)  # which ends the accepting, too
            accepting.join()
            for each in started:
                each.join()


def _accept(listener: socket.socket, started: list[threading.Thread]) -> None:
    one_at_a_time = threading.Lock()
    with contextlib.suppress(OSError):
        while True:
            peer, _ = listener.accept()
            started.append(threading.Thread(target=_run, args=[peer, one_at_a_time]))
            started[-1].start()


def _run(peer: socket.socket, one_at_a_time: threading.Lock) -> None:
    """Forks what a `PROGRAM` asks for, and tells it of the end."""
    with peer, contextlib.suppress(ConnectionError):
        head, streams, _, _ = socket.recv_fds(peer, LENGTH.size, STREAMS)
        arguments, environment, folder = marshal.loads(peer.recv(LENGTH.unpack(head)[0], socket.MSG_WAITALL))
        given = {os.fsdecode(name): os.fsdecode(value) for name, value in environment.items()}
        with one_at_a_time:  # who forks is asked by one
            process = Forked(
                [sys.executable, "-m", MODULE, *arguments],
                cwd=folder,
                env=given | of_interpreter(os.environ),
                stdin=streams[0],
                stdout=streams[1],
                stderr=streams[2],
            )
        for stream in streams:
            os.close(stream)
        with process:
            peer.sendall(STATUS.pack(process.pid))
            ended = process.status
            assert ended is not None, "it was started, and not forked"
            if ended not in select.select([ended, peer], [], [])[0]:
                process.kill()  # `PROGRAM` was
            peer.sendall(STATUS.pack(process.wait()))
