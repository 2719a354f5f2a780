"""A broker on a loop of its own in a thread, and a browser that looks at it: Playwright's calls wait, and must not hold the broker up."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final, TypeVar

from actors import QueueSettings
from streams import Sink, Source
from transport import Broker, BrokerConfig, Receiver, Sender
from transport.gateways.listeners import configured_listeners

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route

T = TypeVar("T")
FREE: Final = "127.0.0.1:0"
SECONDS: Final = 30.0
SOON_MS: Final = 10_000
"""For what a page is asked to do."""
ARGUMENTS: Final = [
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip


class Stage:
    """A broker that speaks HTTP, and clients of it.

    Attributes:
        broker: the one that runs.
        url: where its console is; the same after it was started again.
    """

    def __init__(self, **options: Any) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="console stage")
        self._thread.start()
        self._options = {"http": FREE, **options}
        self._open: AsyncExitStack | None = None
        self._clients: list[asyncio.Future[Any]] = []
        self.broker: Broker = self.call(self._begin())

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """What it gives, done on the broker's loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(SECONDS)

    def do(self, work: Callable[[], T]) -> T:
        """The same of what waits for nothing."""

        async def done() -> T:
            return work()

        return self.call(done())

    async def _begin(self) -> Broker:
        config = BrokerConfig(FREE, FREE, **self._options)
        listeners = configured_listeners(config)
        self._open = AsyncExitStack()
        broker = await self._open.enter_async_context(Broker(config, listeners=listeners))
        (http,) = [each for each in listeners if each.name == "http"]
        self._options["http"] = str(http.addresses[0])
        self.url = f"http://{http.addresses[0]}"
        return broker

    def stop(self) -> None:
        """Stop the broker."""
        if self._open is not None:
            self.call(self._open.aclose())
            self._open = None

    def start(self) -> None:
        """Start it again, where it was."""
        self.broker = self.call(self._begin())

    def close(self) -> None:
        """End everything."""
        self.call(self._end_clients())
        self.stop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(SECONDS)
        self._loop.close()

    async def _end_clients(self) -> None:
        for client in self._clients:
            client.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)
        self._clients.clear()

    def end_clients(self) -> None:
        """End senders and receivers."""
        self.call(self._end_clients())

    def sends(self, queue: str, *payloads: bytes, name: str | None = None) -> None:
        """Have these stored."""
        self.call(
            _finished(Source.from_iterable(payloads).to(Sender(self.broker.send_address, queue=queue, client_id=name)))
        )

    def runs(self, made: Callable[[], Any]) -> None:
        """Run a stream until the stage ends."""
        self.do(lambda: self._clients.append(asyncio.ensure_future(made().run())))

    def keeps_sending(self, queue: str, name: str, per_second: int) -> None:
        """A sender that goes on."""
        address = self.broker.send_address
        endless = Source.range(10**9).throttle(per_second, 1.0).map(lambda each: b"message %d" % each)
        self.runs(lambda: endless.to(Sender(address, queue=queue, client_id=name)))

    def keeps_receiving(self, queue: str, name: str, per_second: int, most: int = 20) -> None:
        """A receiver that goes on, and holds so many messages at most."""
        receiver = Receiver(self.broker.receive_address, queue=queue, client_id=name, max_in_flight=most)
        self.runs(lambda: receiver.throttle(per_second, 1.0).to(Sink.acknowledge()))


async def _finished(graph: Any) -> None:
    await graph.run()


class Watched:
    """What a page complains of."""

    def __init__(self, page: Page) -> None:
        self.said: list[str] = []
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on("console", lambda line: self._heard(line.type, line.text))
        page.add_init_script(
            "document.addEventListener('securitypolicyviolation', (e) => console.error('CSP', e.violatedDirective))"
        )

    def _heard(self, kind: str, text: str) -> None:
        # What the broker refuses is told by the browser too; a page is to show it.
        if kind in ("error", "warning") and "Failed to load resource" not in text:
            self.said.append(text)


def show(page: Page, stage: Stage, where: str = "queues") -> None:
    page.goto(f"{stage.url}/#/{where}")
    page.wait_for_selector("#state[data-state=live]")


def becomes(page: Page, condition: str, arg: Any = None) -> None:
    """Wait until a function of JavaScript finds something to be so. Playwright's own evaluates a text: the policy forbids it."""
    page.evaluate(
        f"""arg => new Promise((done, fail) => {{
            const condition = {condition};
            setTimeout(() => fail(new Error("it has not become so")), {SOON_MS});
            const look = () => (condition(arg) ? done() : requestAnimationFrame(look));
            look();
        }})""",
        arg,
    )


def held(page: Page, where: str, first: int | None = None) -> list[Route]:
    """Requests that have no answer until a test gives one: the first so many of them, or all."""
    found: list[Route] = []

    def hold(route: Route) -> None:
        found.append(route)

    page.route(where, hold, times=first)
    return found


def declare(stage: Stage, *names: str, **settings: Any) -> None:
    stage.do(lambda: [stage.broker.queues.declare(name, QueueSettings(**settings)) for name in names])


def ready(stage: Stage, name: str) -> int:
    found = stage.do(lambda: stage.broker.queues.read(name))
    assert found is not None
    return found.ready


def row(page: Page, name: str) -> Any:
    return page.get_by_role("row").filter(has=page.get_by_role("link", name=name, exact=True))


def told(page: Page, text: str) -> None:
    page.locator("#said").get_by_text(text).wait_for()


def confirm(page: Page, name: str, verb: str) -> None:
    """Type a name into the open dialog: before it is typed to its end, nothing can be pressed."""
    dialog = page.get_by_role("dialog")
    go = dialog.get_by_role("button", name=verb, exact=True)
    typed = dialog.get_by_label("Type the name")
    assert go.is_disabled()
    typed.fill(name[:-1])
    assert go.is_disabled()
    typed.fill(name)
    go.click()
    dialog.wait_for(state="detached")
