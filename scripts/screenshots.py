"""Pictures of the console, taken of a broker under load: `python scripts/screenshots.py [--demo|--spark]`. It takes some minutes.

For docs/console.md a slow receiver holds two senders back, others go as they can, and the page itself is a receiver of one queue. With
``--spark`` those pictures of it are taken alone on which a slow Spark query holds two senders. With ``--demo`` the picture of README is
taken alone: of the demo, while its Spark query is slow. Both need Java.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from playwright.async_api import async_playwright  # noqa: E402 - behind the path

from actors import QueueSettings  # noqa: E402
from streams import Sink, Source  # noqa: E402
from transport import Broker, BrokerConfig, Receiver, Sender  # noqa: E402
from transport.gateways.listeners import configured_listeners  # noqa: E402

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page

IMAGES: Final = ROOT / "docs" / "images"
ARGUMENTS: Final = [
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--force-color-profile=srgb",
]  # fmt: skip
SIZES: Final = {1440: 900, 390: 844}
FREE: Final = "127.0.0.1:0"
DEMO_SECONDS: Final = 300.0
WARM_ROUNDS: Final = 90
"""Rounds of the sampler before the first picture: so much of the two minutes is there to be seen."""
ORDER: Final = b'{"order": 48213, "table": 7, "items": [{"tea": 2}, {"scone": 1}], "total": "11.40"}'

QUERY: Final = """
import sys
import threading

from pyspark.sql import SparkSession

from spark_bridge import register

spark = SparkSession.builder.master("local[2]").appName("payments").config("spark.ui.enabled", False).getOrCreate()
register(spark)
payments = spark.readStream.format("penstock").option("brokers", sys.argv[1]).option("queue", "payments")
payments = payments.option("subscription", "report").option("maxRowsPerBatch", 400).load()


def slow(batch, number):
    batch.write.format("noop").mode("overwrite").save()
    threading.Event().wait(3)
    print("a batch is done", flush=True)


payments.writeStream.foreachBatch(slow).option("checkpointLocation", sys.argv[2]).start().awaitTermination()
"""
"""A query that takes 400 rows every three seconds or more."""
SPARK_BATCHES: Final = 3
"""Of the query, before the first picture of it."""

Run = Callable[[Any], None]


def stage(broker: Broker, run: Run) -> None:
    """Senders and receivers of every temper."""
    sending, receiving = broker.send_address, broker.receive_address

    def sends(queue: str, name: str, count: int, per: float) -> None:
        endless = Source.range(10**9)
        run(endless.throttle(count, per).map(lambda _: ORDER).to(Sender(sending, queue=queue, client_id=name)).run())

    def receives(queue: str, name: str, count: int, per: float, most: int = 1000) -> None:
        receiver = Receiver(receiving, queue=queue, client_id=name, max_in_flight=most)
        run(receiver.throttle(count, per).to(Sink.acknowledge()).run())

    broker.queues.declare("orders", QueueSettings(max_messages=4000))
    sends("orders", "shop-north", 900, 1.0)
    sends("orders", "shop-south", 400, 1.0)
    receives("orders", "billing", 120, 1.0, 24)
    sends("clicks", "web-1", 2000, 1.0)
    sends("clicks", "web-2", 1200, 1.0)
    receives("clicks", "sessions", 8000, 1.0)
    sends("emails", "accounts", 3, 1.0)
    sends("audit", "ledger", 6, 1.0)
    receives("audit", "archive", 100, 1.0)
    sends("thumbnails", "uploads", 40, 1.0)
    receives("thumbnails", "resizer", 30, 1.0, 50)
    for name in ("exports", "invoices.dead", "orders.dead", "refunds", "returns", "search-index", "sms", "webhooks"):
        broker.queues.declare(name, QueueSettings())


def stage_spark(broker: Broker, run: Run) -> None:
    """Two senders that would send more than a slow query takes."""
    broker.queues.declare("payments", QueueSettings(max_messages=3000))
    for name, count in (("shop-north", 900), ("shop-south", 400)):
        payments = Source.range(10**9).throttle(count, 1.0).map(lambda _: ORDER)
        run(payments.to(Sender(broker.send_address, queue="payments", client_id=name)).run())


async def rounds(page: Page, count: int) -> None:
    """Wait until a stream has had so many changes: each is a second of samples."""
    await page.evaluate(
        """count => new Promise((done) => {
            const seen = new MutationObserver(() => { if ((count -= 1) <= 0) { seen.disconnect(); done(); } });
            seen.observe(document.querySelector('.strip dd'), {childList: true, characterData: true, subtree: true});
        })""",
        count,
    )


async def shots(
    browser: Browser, url: str, name: str, where: str, act: Callable[[Page], Awaitable[None]] | None = None
) -> None:
    """One part of the page, at both widths, light and dark."""
    for width, height in SIZES.items():
        for scheme in ("light", "dark"):
            page = await browser.new_page(
                viewport={"width": width, "height": height},
                color_scheme="dark" if scheme == "dark" else "light",
                device_scale_factor=1 if width > 1000 else 2,
            )
            await page.goto(f"{url}/#/{where}")
            await page.wait_for_selector("#state[data-state=live]")
            await rounds(page, 2)
            if act is not None:
                await act(page)
            target = IMAGES / f"console-{name}-{width}-{scheme}.png"
            await page.screenshot(path=target)
            print(f"{target.relative_to(ROOT)}: {target.stat().st_size // 1024} KiB")
            await page.close()


async def until_full(page: Page) -> None:
    """Wait until the queue is seen to be full: it is, but for the moments in which a receiver has just made room."""
    await page.wait_for_selector(".title .pill[data-kind=limit-reached]")


async def take(page: Page) -> None:
    """Have the page be a receiver, and wait until it holds what it has asked for."""
    await page.locator("#publish ~ form textarea").first.fill(ORDER.decode())
    await page.get_by_label("Take as a receiver").check()
    await page.get_by_role("button", name="Take", exact=True).click()
    await page.wait_for_selector(".messages li:nth-child(5)")
    await page.locator("#watch").scroll_into_view_if_needed()


async def of_the_demo(chromium: str) -> None:
    """The queue of the demo, while its query is slow and its sender waits."""
    demo = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "examples.demo", cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    assert demo.stdout is not None
    try:
        async with asyncio.timeout(DEMO_SECONDS), async_playwright() as playwright:
            url = (await _line_with(demo.stdout, "Watch it in a browser: ")).split()[-1]
            browser = await playwright.chromium.launch(executable_path=chromium, args=ARGUMENTS)
            page = await browser.new_page(viewport={"width": 1200, "height": 640}, color_scheme="light")
            await page.goto(f"{url}#/queues/lines")
            await _line_with(demo.stdout, "SLOW")
            await until_full(page)
            await page.screenshot(path=IMAGES / "console-demo.png")
            await browser.close()
    finally:
        demo.terminate()
        await demo.communicate()


async def of_spark(url: str, broker: Broker, browser: Browser, folder: str) -> None:
    """A queue whose only taker is a slow Spark query."""
    program = [sys.executable, "-c", QUERY, str(broker.receive_address), f"{folder}/checkpoint"]
    env = os.environ | {"PYSPARK_PYTHON": sys.executable}  # for the Python processes that Spark starts
    query = await asyncio.create_subprocess_exec(*program, cwd=ROOT, env=env, stdout=asyncio.subprocess.PIPE)
    assert query.stdout is not None
    try:
        async with asyncio.timeout(DEMO_SECONDS):
            for _ in range(SPARK_BATCHES):
                await _line_with(query.stdout, "a batch is done")
            await shots(browser, url, "spark", "queues/payments", until_full)
    finally:
        if query.returncode is None:
            query.terminate()
        await query.communicate()


async def _line_with(lines: asyncio.StreamReader, text: str) -> str:
    async for line in lines:
        if text.encode() in line:
            return line.decode()
    raise SystemExit(f"the program has ended without {text!r}")


async def main() -> None:
    """Take all of them."""
    chromium = shutil.which("chromium")
    if chromium is None:
        raise SystemExit("screenshots needs Chromium: there is none on this machine")
    IMAGES.mkdir(parents=True, exist_ok=True)
    if sys.argv[1:] == ["--demo"]:
        await of_the_demo(chromium)
        return
    with tempfile.TemporaryDirectory(prefix="penstock-screenshots-") as folder:
        config = BrokerConfig(FREE, FREE, http=FREE, directory=folder)
        listeners = configured_listeners(config)
        running: list[Any] = []
        async with Broker(config, listeners=listeners) as broker, async_playwright() as playwright:
            of_a_query = sys.argv[1:] == ["--spark"]
            (stage_spark if of_a_query else stage)(broker, lambda run: running.append(asyncio.ensure_future(run)))
            url = next(f"http://{each.addresses[0]}" for each in listeners if each.name == "http")
            browser = await playwright.chromium.launch(executable_path=chromium, args=ARGUMENTS)
            # Samples of a queue are kept while somebody looks at it.
            looking = [await browser.new_page() for _ in range(2)]
            for page, where in zip(
                looking, ("queues", f"queues/{'payments' if of_a_query else 'orders'}"), strict=True
            ):
                await page.goto(f"{url}/#/{where}")
            if of_a_query:
                await of_spark(url, broker, browser, folder)
            else:
                await rounds(looking[0], WARM_ROUNDS)
                await shots(browser, url, "queues", "queues")
                await shots(browser, url, "flow", "queues/orders", until_full)
                await shots(browser, url, "watch", "queues/emails/watch", take)
            await browser.close()
            for each in running:
                each.cancel()
            await asyncio.gather(*running, return_exceptions=True)


if __name__ == "__main__":
    asyncio.run(main())
