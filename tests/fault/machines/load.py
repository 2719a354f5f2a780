"""`Load`: producers and receivers in processes of their own on the clients' machine, heard as they go on, and judged by what they logged.

load = Load(machines["clients"], folder, send=["10.77.0.1:9182"], receive=["10.77.0.1:9183"])
load.start()
load.wait_confirmed(1_000)
mark = load.mark("kill -9 of a")
machines["a"].kill()
...
load.wait_after(mark)
load.drain(left)
assert load.judge().clean
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.fault.machines.judge import Judgement, judge
from tests.fault.machines.machines import Machine
from tests.fault.machines.options import Options, Order
from tests.fault.machines.processes import Process, ProcessError
from tests.fault.machines.records import MARKS, Acknowledged, Confirmed, Delivered, Handed, Log, Marked, event_of, now

WAIT_SECONDS: Final = 30.0
DRAIN_SECONDS: Final = 120.0
"""In which everything must be delivered and acknowledged at the end."""
QUIET_SECONDS: Final = 1.0
"""Without a delivery, after which the broker is asked whether it has any left."""
MODULE: Final = "tests.fault.machines"


@dataclass(slots=True)
class _Heard:
    """What is known of one producer."""

    confirmed: int = 0
    handed: int = 0
    after: dict[int, int] = field(default_factory=dict)
    """By a mark's time, the number of the first message that was taken after it."""
    reached: int = 0
    """Up to which number it is confirmed."""
    acknowledged: bytearray = field(default_factory=bytearray)
    """A byte for each message, 1 where some receiver has acknowledged it."""


class Load:
    """Clients at work.

    Args:
        machine: where they run.
        folder: for their logs; it is made.
        send: the contact points of producers, tried in turn.
        receive: of receivers.
        options: what they do.
    """

    def __init__(
        self,
        machine: Machine,
        folder: Path,
        send: Sequence[str],
        receive: Sequence[str],
        options: Options | None = None,
    ) -> None:
        self.options = options or Options()
        self.folder = folder
        folder.mkdir()
        self._machine = machine
        self._contacts = {"sending": tuple(send), "receiving": tuple(receive)}
        self._changed = threading.Condition()
        self._producers = {number: _Heard() for number in self.options.producers}
        self._delivered = self._acknowledged = 0
        self._marks = Log(folder / MARKS, 0, aloud=False)
        self._senders: list[Process] = []
        self._receivers: list[Process] = []
        self._failed: list[Process] = []
        self._ending = False
        self._drained = False

    def start(self) -> None:
        """Start all clients."""
        self.start_receivers()
        self.start_senders()

    def start_senders(self) -> None:
        """Start the producers alone: what they send stays in the queue."""
        self._senders = self._start("sending", self.options.producers)

    def start_receivers(self) -> None:
        """Start the receivers alone."""
        self._receivers = self._start("receiving", range(self.options.receivers))

    def mark(self, text: str) -> Marked:
        """Log that the test does something now; the judgement says how long nothing was confirmed behind it."""
        with self._changed:
            mark = Marked(now(), text)
            self._marks.write(mark)
            for producer in self._producers.values():
                producer.after[mark.time] = -1
            return mark

    def wait_confirmed(self, count: int, seconds: float = WAIT_SECONDS) -> None:
        """Wait until each producer has ``count`` more messages confirmed."""
        with self._changed:
            wanted = {number: one.confirmed + count for number, one in self._producers.items()}
        self.wait(
            f"{count} more confirmed at each producer",
            lambda: all(one.confirmed >= wanted[number] for number, one in self._producers.items()),
            seconds,
        )

    def wait_taken(self, count: int, seconds: float = WAIT_SECONDS) -> None:
        """Wait until each producer has taken ``count`` more messages, to send them."""
        with self._changed:
            wanted = {number: one.handed + count for number, one in self._producers.items()}
        self.wait(
            f"{count} more taken at each producer",
            lambda: all(one.handed >= wanted[number] for number, one in self._producers.items()),
            seconds,
        )

    def wait_after(self, mark: Marked, seconds: float = WAIT_SECONDS) -> None:
        """Wait until each producer has something confirmed that it took after the mark."""

        def done() -> bool:
            return all(0 <= one.after[mark.time] < one.reached for one in self._producers.values())

        self.wait(f"confirmed anything after {mark.text}", done, seconds)

    def wait_delivered(self, count: int, seconds: float = WAIT_SECONDS) -> None:
        """Wait until ``count`` more messages are delivered to all receivers together."""
        with self._changed:
            wanted = self._delivered + count
        self.wait(f"{count} more delivered", lambda: self._delivered >= wanted, seconds)

    def stop_senders(self, seconds: float = DRAIN_SECONDS) -> None:
        """Have producers take no more, and wait until everything is confirmed."""
        with self._changed:
            self._ending = True
        for process in self._senders:
            process.stop(seconds)

    def drain(self, left: Callable[[], int], seconds: float = DRAIN_SECONDS) -> None:
        """Have producers take no more, and wait until everything is confirmed, delivered and acknowledged.

        Args:
            left: asks the broker how many messages it still has, waiting or in flight. It is asked where nothing was delivered for a
                second: what is lost never comes.
            seconds: in all, for each of the two.
        """
        self.stop_senders(seconds)
        for process in self._receivers:
            process.signal(signal.SIGUSR1)
        while True:
            # Not enough by itself: an acknowledgement that the broker never got has the message come again.
            self._quiet_or_acknowledged()
            delivered = self.delivered
            if not left() and self.delivered == delivered:
                break
            seconds -= QUIET_SECONDS
            if seconds < 0:
                raise ProcessError(f"not drained: {left()} messages are left")
        for process in self._receivers:
            process.stop()
        self._drained = True

    def kill(self) -> None:
        """SIGKILL for all clients."""
        with self._changed:
            self._ending = True
        for process in (*self._senders, *self._receivers):
            if process.running:
                process.kill()
        self._senders, self._receivers = [], []

    def judge(self) -> Judgement:
        """What the logs show; what was never delivered counts only after a `drain`."""
        return judge(self.folder, drained=self._drained)

    @property
    def confirmed(self) -> int:
        """Messages confirmed, of all producers."""
        with self._changed:
            return sum(one.confirmed for one in self._producers.values())

    @property
    def delivered(self) -> int:
        """Messages delivered, repeated ones too, to all receivers."""
        with self._changed:
            return self._delivered

    def wait(self, what: str, done: Callable[[], bool], seconds: float) -> None:
        """Wait until ``done``, which is asked whenever a client has told something.

        Raises:
            ProcessError: it is not done within this time, or a client ended by itself.
        """
        with self._changed:
            self._changed.wait_for(lambda: done() or self._failed, seconds)
            if self._failed:
                raise self._failed[0].failed(f"ended by itself, with {self._failed[0].code}")
            if not done():
                counts = {number: (one.handed, one.confirmed) for number, one in self._producers.items()}
                text = f"taken and confirmed by producer: {counts}; delivered: {self._delivered}"
                raise ProcessError(f"not {what} within {seconds:.0f} s ({text})")

    def _quiet_or_acknowledged(self) -> None:
        """Wait until all that is confirmed is acknowledged, or until nothing was delivered for a while.

        Where another than this load sends, nobody here knows how much that is.
        """

        def done() -> bool:
            return bool(self._producers) and self._acknowledged >= sum(
                one.confirmed for one in self._producers.values()
            )

        with self._changed:
            while not done():
                before = self._delivered
                if not self._changed.wait_for(lambda: self._delivered > before or done(), QUIET_SECONDS):  # noqa: B023
                    return

    def _start(self, program: str, numbers: range) -> list[Process]:
        count = min(self.options.processes, len(numbers))
        started = [self._start_one(program, numbers[first::count]) for first in range(count)]
        for process in started:
            process.wait_line("^ready$")
        return started

    def _start_one(self, program: str, numbers: Sequence[int]) -> Process:
        order = Order(self._contacts[program], str(self.folder), list(numbers), self.options)
        ends: list[Process] = []

        def ended() -> None:
            with self._changed:
                if not self._ending:
                    self._failed += ends
                self._changed.notify_all()

        with self._changed:  # so that it does not end before it is known
            process = self._machine.python(
                f"{MODULE}.{program}", order.text(), name=program, heard=self._hear, ended=ended
            )
            ends.append(process)
        return process

    def _hear(self, line: str) -> None:
        number, _, text = line.partition(" ")
        if not number.isdigit() or not text:
            return  # what a client logs, or says when it fails
        event = event_of(text)
        with self._changed:
            if isinstance(event, Handed):
                producer = self._producers[int(number)]
                producer.handed += event.messages
                for time, first in producer.after.items():
                    if first < 0 and event.time > time:
                        producer.after[time] = event.first
            elif isinstance(event, Confirmed):
                producer = self._producers[int(number)]
                producer.confirmed += event.messages
                producer.reached = max(producer.reached, event.first + event.messages)
            elif isinstance(event, Delivered):
                self._delivered += event.messages
            elif isinstance(event, Acknowledged) and event.sender in self._producers:
                column = self._producers[event.sender].acknowledged
                column.extend(bytes(max(event.first + event.messages - len(column), 0)))
                self._acknowledged += column.count(0, event.first, event.first + event.messages)
                column[event.first : event.first + event.messages] = b"\1" * event.messages
            self._changed.notify_all()
