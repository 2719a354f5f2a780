"""The machine's own etcd, as a child of the broker: started with settings made for it, started again when it ends, ended with the broker.

It lives in a folder of the broker's directory. Its settings are one file there, so nothing of the environment has a say. It is in a session
of its own: what a terminal says to the broker, it does not hear, for the broker needs the register while it ends. When the broker dies, the
kernel kills it (`PR_SET_PDEATHSIG`): an etcd that nobody looks after would take part in votes for a machine whose broker is gone.
"""

from __future__ import annotations

import asyncio
import logging
import os
import platform
import shutil
import sys
from collections import deque
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

from transport.clients.backoff import Backoff
from transport.cluster.addresses import OwnEtcd
from transport.cluster.etcd_left import end_left, hold
from transport.cluster.etcd_lines import Line, LineCutter, read_line_of_etcd
from transport.cluster.etcd_membership import Others, Standing, has_begun, put_aside
from transport.cluster.etcd_settings import DATA_FOLDER, FOLDER_MODE, SETTINGS_FILE, settings_of, write_settings
from transport.cluster.gateway import Gateway
from transport.errors import LocalProtocolError, TransportError
from transport.wire.address import Address

PROGRAM: Final = "etcd"
PACKAGE: Final = "etcd-server"
"""Debian's and Ubuntu's name of the package that has it."""
BACKOFF: Final = Backoff(minimum=0.2, maximum=10.0, give_up_after=None)
"""Between two starts."""
STEADY_SECONDS: Final = 30.0
"""One that ran for so long has had a good start: the next wait is the first one again."""
STOP_SECONDS: Final = 3.0
"""For it to end when it is told to; then it is killed. What it has answered is on its disk, so nothing is lost. One that leads and has lost
the others does not end by itself."""
LAST_LINES: Final = 3
"""Of what it said at the end, which are logged with why it ended."""
TAKEN: Final = "address already in use"
"""What it says where it cannot listen."""
REMOVED: Final = "the member has been permanently removed from the cluster"
"""What it says where the others have removed it, before it ends with status 0."""
DAMAGED: Final = (
    "crc mismatch",
    "corrupt",
    "invalid database",
    "invalid page",
    "freepages: ",
    "unexpected fault address",
    "wrong wireType",
    "illegal tag",
    "max entry size limit exceeded",
)
"""Parts of what it says where its files are not what it wrote. Hundreds of lines may come behind, of where its program stood."""
AGAIN_SECONDS: Final = 1.0
"""From one question to others who do not answer to the next."""
MOST_TOLD: Final = 64
"""Lines that come again and again, and are remembered so that each is logged once."""
HELP_SECONDS: Final = 30.0
"""Between two lines with the same commands: whoever types them has the time, and the log is not filled with them."""
READ_BYTES: Final = 16 * 1024

logger = logging.getLogger("penstock.cluster.etcd")

_HELD_BACK: Final = {
    Standing.LOST: (
        "the other machines know this one's etcd, and its folder is empty: it must not vote as who it was. Have them forget it, and await "
        "it anew, and it joins them: `{etcdctl} member list` shows its ID, the one with {peers}; then `{etcdctl} member remove ID`, and "
        "`{etcdctl} member add {node} --peer-urls={peers}`{again}"
    ),
    Standing.UNKNOWN: (
        "the other machines' etcd does not know this one. Have it awaited, and it joins them. `{etcdctl} member list` shows whom they "
        "know: one whose machine is gone, or lives elsewhere now, has to go first, `{etcdctl} member remove ID`. Then "
        "`{etcdctl} member add {node} --peer-urls={peers}`{again}"
    ),
}
"""Why it is not started, and what to do; etcdctl is the package ``etcd-client``."""
_REMOVED_SAYS: Final = (
    "the other machines' etcd has removed this one. Have it awaited anew, and it joins them by itself; what it had is put aside. "
    "`{etcdctl} member list` shows whether they have another one with {peers}, which has to go first: `{etcdctl} member remove ID`. Then "
    "`{etcdctl} member add {node} --peer-urls={peers}`{again}"
)
_AGAIN: Final = ". A command may fail for some seconds (unhealthy cluster, request timed out): repeat it until `member list` shows it done"
"""etcd changes its members when all have been well for a while, and what timed out in an election may have been done."""

# Runs in the child, before etcd takes its place there. If the parent has died meanwhile, nobody would send the signal.
_TIED: Final = """
import ctypes, os, signal, sys
if ctypes.CDLL(None).prctl(1, int(signal.SIGKILL), 0, 0, 0) or os.getppid() != int(sys.argv[1]):
    sys.exit("its parent is gone")
try:
    os.execv(sys.argv[2], sys.argv[2:])
except OSError as error:
    sys.exit(f"{sys.argv[2]} cannot be run: {error.strerror}")
"""


class _Waits(NamedTuple):
    """It is not started yet, for others are to be heard first.

    Attributes:
        why: who, to be shown.
    """

    why: str


class _HeldBack(NamedTuple):
    """It is not started until somebody has typed some commands at the others.

    Attributes:
        help: why, and the commands.
    """

    help: str


class EtcdMissingError(TransportError):
    """There is no etcd on this machine; the text says what to install."""


class EtcdChild:
    """Runs the etcd of one machine.

    Args:
        own: which machine this is, and the others.
        folder: its own, in the broker's directory; made where there is none.
        insecure: whether other machines may reach it without TLS.
        program: where etcd is; None to look on the ``PATH``.
        random: what waits are varied by.
        others: who is asked how they know this machine; None for the others of ``own``.
        brokers: as of `Others`.

    Raises:
        EtcdMissingError: there is no etcd.
        LocalProtocolError: strangers could write in the register, a file of TLS cannot be used, aiohttp is not installed, or the
            system is not Linux.
    """

    def __init__(
        self,
        own: OwnEtcd,
        folder: Path,
        *,
        insecure: bool = False,
        program: str | None = None,
        random: Random | None = None,
        others: Others | None = None,
        brokers: Mapping[str, Address] | None = None,
    ) -> None:
        if not sys.platform.startswith("linux"):
            raise LocalProtocolError(
                "a list of machines for --cluster has each run its etcd, which is for Linux: start an etcd yourself, and name it by "
                "--cluster etcd://HOST:PORT/NAME"
            )
        self._program = find_etcd(program)
        self._others = others or Others(own, Gateway(own.tls), brokers=brokers)
        # It runs in its folder, where a path that goes from here leads elsewhere.
        folder = folder.absolute()
        self._settings = settings_of(own, folder, insecure=insecure)
        self._own = own
        self._folder = folder
        self._random = random or Random()  # noqa: S311 - for waits
        self._process: asyncio.subprocess.Process | None = None
        self._task: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()
        self._held: int | None = None  # the file that is locked
        self._last: deque[str] = deque(maxlen=LAST_LINES)
        self._damage: str | None = None
        self._told: deque[str] = deque(maxlen=MOST_TOLD)
        self._says_removed = False
        self._removed = False
        self._helped: dict[str, float] = {}  # what was said that helps, and when; as long as it is held back
        self.starts = 0

    @property
    def pid(self) -> int | None:
        """Of the etcd that runs now; None where none does."""
        process = self._process
        return None if process is None or process.returncode is not None else process.pid

    async def start(self) -> None:
        """Start it, and have it started again whenever it ends, until `stop`. It answers when half of the machines and one are there.

        Raises:
            OSError: its folder cannot be written, or no process be started.
            LocalProtocolError: another broker runs it.
        """
        assert self._task is None, "it is started once"
        self._folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        self._held = hold(self._folder)
        try:
            began = await self._begin()
        except BaseException:
            self._let_go()
            raise
        self._task = asyncio.get_running_loop().create_task(self._look_after(began), name="etcd")

    async def stop(self) -> None:
        """End it, within ``STOP_SECONDS`` or by force; it is not started again."""
        self._stopping.set()
        if self._task is not None:
            await self._task
        self._let_go()

    def _let_go(self) -> None:
        if self._held is not None:
            os.close(self._held)
            self._held = None

    async def _look_after(self, began: asyncio.subprocess.Process | _Waits | _HeldBack | str) -> None:
        """Start it again and again, with growing waits."""
        loop = asyncio.get_running_loop()
        attempt, told = 0, ""
        while True:
            since = loop.time()
            if isinstance(began, asyncio.subprocess.Process):
                await self._until_its_end(began)
                if self._stopping.is_set():
                    return
                self._removed = self._says_removed and began.returncode == 0
                began = self._why_it_ended(began.returncode)
            if isinstance(began, _Waits):
                if began.why != told:
                    logger.warning("this machine's etcd is not started yet, for others may know it: %s", began.why)
                attempt, told, delay = 0, began.why, AGAIN_SECONDS
            else:
                attempt = 0 if loop.time() - since >= STEADY_SECONDS else attempt + 1
                delay = BACKOFF.delay(max(0, attempt - 1), self._random.random())
                if isinstance(began, _HeldBack):
                    self._tell_help(began.help)
                else:
                    logger.error("%s; it is tried again in %.1f s", began, delay)
            if await self._stopped_within(delay):
                return
            try:
                began = await self._begin()
            except OSError as error:
                began = f"this machine's etcd cannot be started: {error}"

    def _tell_help(self, text: str) -> None:
        """Log it at once, and then every ``HELP_SECONDS``."""
        now = asyncio.get_running_loop().time()
        if text not in self._helped or now - self._helped[text] >= HELP_SECONDS:
            self._helped[text] = now
            logger.error("%s; it is tried again until then", text)

    async def _begin(self) -> asyncio.subprocess.Process | _Waits | _HeldBack:
        """The process, or why there is none."""
        for pid in await asyncio.to_thread(end_left, self._folder / SETTINGS_FILE):
            logger.warning("an etcd of this directory ran already, as process %d; it was ended for a new one", pid)
        joins: Collection[str] = ()
        begun = has_begun(self._folder)
        if self._removed or not begun:
            known = await self._others.known()
            if known.standing is Standing.UNHEARD and not begun:
                return _Waits(known.why)
            # One that was removed and is known as who was there may be meant by that: it finds out itself.
            if known.standing is Standing.UNKNOWN or (known.standing is Standing.LOST and not begun):
                return _HeldBack(self._help(_HELD_BACK[known.standing]))
            if known.standing is Standing.AWAITED:
                joins = known.peers
                if begun:
                    aside = await asyncio.to_thread(put_aside, self._folder)
                    logger.warning(
                        "the others have removed this machine's etcd, and await another one: what it had is now %s",
                        aside,
                    )
        write_settings(self._folder, self._settings, joins=joins)
        process = await self._spawn()
        if joins and self._helped:
            logger.warning(
                "the other machines' etcd awaits this one by now: it joins them, and nothing is left to be typed"
            )
            self._helped.clear()
        return process

    async def _spawn(self) -> asyncio.subprocess.Process:
        self._last.clear()
        self._damage = None
        self._says_removed = self._removed = False
        # Nothing that the environment says to another etcd is for this one. It refuses processors that its makers do not try, but for this.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("ETCD_")}
        if platform.machine() == "aarch64":
            environment["ETCD_UNSUPPORTED_ARCH"] = "arm64"
        self._process = await asyncio.create_subprocess_exec(
            *tied(self._program, "--config-file", str(self._folder / SETTINGS_FILE)),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            cwd=self._folder,
            env=environment,
            start_new_session=True,
        )
        self.starts += 1
        logger.info("etcd runs as process %d in %s", self._process.pid, self._folder)
        return self._process

    async def _until_its_end(self, process: asyncio.subprocess.Process) -> None:
        """Log what it says until it has ended, of itself or because it was told to."""
        ending = asyncio.ensure_future(self._end_when_told(process))
        try:
            await self._log(process)
            await process.wait()
        finally:
            ending.cancel()
            with suppress(asyncio.CancelledError):
                await ending
            if process.returncode is None:
                process.kill()

    async def _end_when_told(self, process: asyncio.subprocess.Process) -> None:
        await self._stopping.wait()
        with suppress(ProcessLookupError):
            process.terminate()
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), STOP_SECONDS)
            return
        logger.info("etcd did not end within %.0f s, and is killed", STOP_SECONDS)
        with suppress(ProcessLookupError):
            process.kill()

    async def _log(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        cutter = LineCutter()
        while block := await process.stdout.read(READ_BYTES):
            for text in cutter.feed(block):
                self._log_line(read_line_of_etcd(text))
        for text in cutter.rest():
            self._log_line(read_line_of_etcd(text))

    def _log_line(self, line: Line) -> None:
        if line.once:
            if line.text in self._told:
                return
            self._told.append(line.text)
        logger.log(line.level, "%s", line.text)
        self._says_removed = self._says_removed or REMOVED in line.text
        if line.level >= logging.WARNING:
            self._last.append(line.text)
            if self._damage is None and any(words in line.text for words in DAMAGED):
                self._damage = line.text

    def _why_it_ended(self, code: int | None) -> _HeldBack | str:
        how = f"was ended by signal {-code}" if code is not None and code < 0 else f"has ended with status {code}"
        # One that was killed may have said such a thing of something else before.
        damage = None if code is not None and code < 0 else self._damage
        said = damage or "; ".join(self._last)
        if self._removed:
            return _HeldBack(f"this machine's etcd {how}: {self._help(_REMOVED_SAYS)}")
        if TAKEN in said:
            said += " (another process has that address, which `ss -ltnp` shows: end it)"
        if damage is not None:
            data = self._folder / DATA_FOLDER
            said += (
                f" (its files are damaged: stop this node, put {data} aside, and start the node. Its log has the commands then "
                "by which its etcd joins the others anew)"
            )
        return f"this machine's etcd {how}{': ' + said if said else ''}"

    def _help(self, text: str) -> str:
        """A text with the commands that help here."""
        own = self._own
        scheme = "http" if own.tls is None else "https"
        others = ",".join(f"{scheme}://{machine.clients}" for name, machine in own.machines.items() if name != own.node)
        keys = "" if own.tls is None else " --cacert FILE --cert FILE --key FILE"
        etcdctl = f"etcdctl --endpoints {others}{keys}"
        return text.format(etcdctl=etcdctl, peers=f"{scheme}://{own.own.peers}", node=own.node, again=_AGAIN)

    async def _stopped_within(self, seconds: float) -> bool:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), seconds)
        return self._stopping.is_set()


def tied(program: str, *arguments: str) -> list[str]:
    """A command that runs a program which is killed when the thread ends that starts it."""
    return [sys.executable, "-I", "-S", "-c", _TIED, str(os.getpid()), program, *arguments]


def find_etcd(program: str | None = None, environment: Mapping[str, str] = os.environ) -> str:
    """Where the program is, that is given or that is on the ``PATH``.

    Raises:
        EtcdMissingError: nowhere.
    """
    found = shutil.which(program or PROGRAM, path=environment.get("PATH"))
    if found is None:
        where = f"{program} is no program" if program else "there is no etcd on the PATH"
        raise EtcdMissingError(
            f"{where}, and a list of machines for --cluster has each run one: install {PACKAGE} (Debian, Ubuntu: "
            f"sudo apt-get install {PACKAGE}), or name an etcd that runs by --cluster etcd://HOST:PORT/NAME"
        )
    return found
