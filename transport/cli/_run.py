"""How every verb runs: one event loop, errors as one line on stderr, signals as an orderly end."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from actors.errors import BackupFailedError, NoStorageError, StorageError
from transport.cli.exit_codes import EXIT_FAILED, EXIT_STORAGE, EXIT_USAGE, SIGNAL_EXIT_BASE
from transport.errors import (
    ADVICE,
    LEADERLESS_ADVICE,
    LEADERLESS_HINT,
    BrokerError,
    ConnectionLostError,
    QueueFullError,
    TransportError,
)

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from transport.clients.waiting import OnWait, Wait

HINTS = {
    "unknown-role": "check --address: send and the administrative commands take the sending address, receive the receiving one",
    "not-found": "`penstock queue list` shows what there is",
    "authentication-required": "use --user, --token-file or --tls-certificate; `penstock user add` makes a user",
    "authentication-failed": "check --user and --password-file, or --token-file; "
    "with --tls-certificate alone, `penstock user certificate` gives its subject to a user",
    "forbidden": "`penstock user grant` gives a right, and the broker takes it in at SIGHUP (kill -HUP PID)",
    "not-leader": LEADERLESS_HINT,
    "queue-full": "receive from that queue, or raise its limit with `penstock queue alter`",
    "unsupported-version": "broker and command are of different versions",
}
"""What a refusal's own text cannot know: what to do on the command line."""
OF_SUBSCRIPTION = "there is no subscription "
"""In a ``not-found`` that is not about a queue."""
SUBSCRIPTIONS = "`penstock subscription list` shows what there is"
OF_EXCHANGE = "there is no exchange "
EXCHANGES = "`penstock exchange list` shows what there is, and `penstock exchange create` makes one"
OF_SCHEDULE = "there is no schedule "
SCHEDULES = "`penstock schedule list` shows what there is"
OF_BOUND_QUEUE = " that could be bound"
BOUND_QUEUES = "`penstock queue list` shows what there is, and `penstock queue create` makes one"
DECLARE = ": declare it first"
"""What a program would do about both, and no verb is called."""
OF_RIGHTS = (" may not ", " rights ")
"""One is in a ``forbidden`` that a right would change. Some exchanges are nobody's to change: then the text says what to do."""
PROOFS = {
    "the user or the password is wrong": "check --user and --password-file",
    "the token is wrong": "check --token-file; `penstock user token` makes another",
    "no user has the subject": "`penstock user certificate` gives it to a user",
}
"""Words of a refused proof, and what to do about this one."""
LOOK_THERE = "the list of connections has those that there are"
"""Words of a refusal that say where to look."""
OPTIONS = {
    "the name that the certificate has as the server name": "--tls-server-name NAME",
    "the file of the authority": "--tls-ca FILE",
    "has no key in it: give tls_key": "--tls-key FILE",
    "if it speaks TLS there": "--tls",
    "this address speaks it": "--tls",
    "want a certificate of this client's": "--tls-certificate FILE",
    "without a certificate that it trusts": "--tls-certificate FILE",
    "With force it is released all the same": "--force",
}
"""Words of errors that programs read too, most of them of TLS, and the option that does what they say."""


def run(verb: str, main: Callable[[], Coroutine[Any, Any, int]], *, uvloop: bool = False) -> NoReturn:
    """Run ``main`` to its end and exit with the code it returns; what fails is told in one line, and so is what connections warn of."""
    import asyncio  # noqa: PLC0415 - not needed for --help

    factory = _uvloop_factory() if uvloop else None
    try:
        with warnings_told(verb), asyncio.Runner(loop_factory=factory) as runner:
            code = runner.run(main())
    except failures() as error:
        fail(verb, error)
    except KeyboardInterrupt:
        tell(verb, "interrupted")
        code = SIGNAL_EXIT_BASE + signal.SIGINT
    raise typer.Exit(code)


def failures() -> tuple[type[Exception], ...]:
    """The errors that are told in a line; any other is a defect of ours."""
    return (TransportError, OSError, StorageError)


def fail(verb: str, error: Exception) -> NoReturn:
    """Tell one of `failures`, and exit with its code."""
    # Who reads from a pipe and has seen enough need not be told.
    if not isinstance(error, BrokenPipeError):
        tell(verb, explain(error, verb))
    drop_unwritten()
    raise typer.Exit(exit_code(error)) from error


def exit_code(error: Exception) -> int:
    """Of one of `failures`."""
    if isinstance(error, NoStorageError):
        return EXIT_USAGE
    if isinstance(error, BackupFailedError):
        return EXIT_FAILED
    return EXIT_STORAGE if isinstance(error, StorageError) else EXIT_FAILED


def drop_unwritten() -> None:
    """What is still buffered for an output that takes no more goes nowhere: Python would complain of it once more at exit."""
    for output in (sys.stdout, sys.stderr):
        try:
            output.flush()
        except OSError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, output.fileno())
            os.close(nowhere)


def open_closed() -> None:
    """Have this process a standard input and outputs, where it was started without: files of its own must not get their numbers.

    To write to an output that was closed is an error, as it is for other programs; what is told on stderr goes nowhere.
    """
    for number, stream, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, stream) is None:
            opened = os.open(os.devnull, os.O_WRONLY if number == 2 else os.O_RDONLY)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            setattr(sys, stream, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115 - as long as the process


def escape_unknown() -> None:
    """Have the standard output escape what its encoding has not: names and messages are of anybody, and what was done is to be told."""
    if isinstance(sys.stdout, TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")


def tell(verb: str, text: str) -> None:
    """One line on stderr, whoever chose the words in it; ``verb`` is empty for the command as a whole."""
    from transport.wire.shown import MAX_LINE_BYTES, shown  # noqa: PLC0415 - not needed for --help

    who = f"penstock {verb}" if verb else "penstock"
    try:
        # By its name: a bar that is drawn there has put itself in between, and steps aside for a line.
        print(f"{who}: {shown(' '.join(text.split()), MAX_LINE_BYTES)}", file=sys.stderr, flush=True)
    except OSError:
        # What was to be done is done or not, whether or not it can be told.
        drop_unwritten()


QUIETLY_EMPTY = frozenset({"empty", "unready", "no-messages"})
"""Reasons to wait that are the ordinary state of a queue that is received from."""
TOLD_AT_ONCE = frozenset({"line"})
"""What the client warns of by itself, and at once."""


def wait_teller(verb: str, unsaid: frozenset[str] = frozenset()) -> OnWait:
    """What tells on stderr why a client waits, and that it goes on; of reasons that are ``unsaid`` neither."""
    said = False

    def told(wait: Wait | None) -> None:
        nonlocal said
        if wait is not None and wait.reason not in unsaid:
            said = True
            tell(verb, wait.text)
        elif said:
            said = False
            tell(verb, "going on")

    return told


def untold(_: Wait | None) -> None:
    """What is called in the place of a teller where nothing is to be told."""


@contextmanager
def warnings_told(verb: str) -> Iterator[None]:
    """Tell what connections warn of, such as a broker that is not there yet; a process with a log of its own has it there."""
    import logging  # noqa: PLC0415 - not needed for --help

    class Telling(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if not logging.getLogger().handlers:
                tell(verb, record.getMessage())

    handler = Telling(logging.WARNING)
    logger = logging.getLogger("penstock.transport")
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


def explain(error: Exception, verb: str = "") -> str:
    """What went wrong, and where it can be said what to do about it; that is not to use the ``verb`` which has just failed."""
    if isinstance(error, QueueFullError):
        return _full(error)
    text = (_system_text(error) or str(error) or type(error).__name__).removesuffix(ADVICE)
    if options := list(dict.fromkeys(option for words, option in OPTIONS.items() if words in text)):
        text = f"{text} ({' or '.join(options)})"
    if isinstance(error, ConnectionLostError) and not text.endswith(LEADERLESS_ADVICE):
        return f"{text}; check the host in --address" if _names_no_host(error) else f"{text}{ADVICE}"
    if hint := next((each for words, each in PROOFS.items() if words in text), ""):
        return f"{text}; {hint}"
    # A text that says itself where to look needs no more.
    if isinstance(error, BrokerError) and error.code in HINTS and LOOK_THERE not in text:
        hint = _hint(error.code, text)
        named = {each.partition(" ")[2] for each in hint.split("`")[1::2]}
        return f"{text.removesuffix(DECLARE)}; {hint}" if hint and verb not in named else text
    return text


def _hint(code: str, text: str) -> str:
    """What to do about a refusal of this code, where its text does not say it."""
    if OF_SUBSCRIPTION in text:
        return SUBSCRIPTIONS
    if OF_EXCHANGE in text:
        return EXCHANGES
    if OF_SCHEDULE in text:
        return SCHEDULES
    if OF_BOUND_QUEUE in text:
        return BOUND_QUEUES
    if code == "forbidden" and not any(words in text for words in OF_RIGHTS):
        return ""
    return HINTS[code]


def _full(error: QueueFullError) -> str:
    """For who has a shell: what a program would do about it is no help there."""
    why = error.reason.partition(": send")[0]
    many = f"{error.messages:,} message{'' if error.messages == 1 else 's'}"
    # Of a queue behind an exchange the reason has the name.
    queue = "QUEUE" if error.exchange else error.queue
    return f"{many} refused: {why}; receive from it, or `penstock queue alter {queue} --max-messages N`"


def _system_text(error: Exception) -> str:
    """The system's words with the file that they are of; nothing of an error that is not the system's."""
    if not isinstance(error, OSError) or not error.strerror or isinstance(error, TransportError):
        return ""
    text = error.strerror
    if "Connect call failed" in text and error.errno:
        text = os.strerror(error.errno)
    return text if error.filename is None else f"{os.fsdecode(error.filename)}: {text}"


def _names_no_host(error: BaseException | None) -> bool:
    """Whether it came of a name that no resolver knows."""
    import socket  # noqa: PLC0415 - for an error alone

    while error is not None and not isinstance(error, socket.gaierror):
        error = error.__cause__
    return error is not None


@contextmanager
def on_signal(act: Callable[[signal.Signals], None]) -> Iterator[None]:
    """Call ``act`` on the loop at the first SIGINT or SIGTERM; a second one has its ordinary effect at once."""
    from asyncio import get_running_loop  # noqa: PLC0415 - as above

    loop = get_running_loop()

    def take(number: signal.Signals) -> None:
        release()
        act(number)

    def release() -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, take, number)
    try:
        yield
    finally:
        release()


def _uvloop_factory() -> Callable[[], AbstractEventLoop] | None:
    """uvloop's, where there is one; the standard loop serves as well, a little slower."""
    try:
        # Not on every platform, and not needed for --help.
        from transport.shell.exact_loop import ExactLoop  # noqa: PLC0415
    except ImportError:
        return None
    return ExactLoop
