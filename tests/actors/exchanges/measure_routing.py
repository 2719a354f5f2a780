"""What a route costs with 10,000 topic bindings against 10, with keys seen before and with every key new.

    python -m tests.actors.exchanges.measure_routing

Both are measured in turns, and the best of several is taken, so that what else the machine does counts little. The ratio is the figure. A
test holds what it comes from: `test_topics.py` counts the lines that a match runs.
"""

from __future__ import annotations

from time import perf_counter

from actors.exchanges.exchanges import Exchanges

TURNS = 9
ROUTES = 20_000


def with_bindings(count: int) -> Exchanges:
    exchanges = Exchanges(lambda _queue: True)
    for number in range(count):
        for event in exchanges.decide.bind("amq.topic", f"q{number % 100}", f"device.{number}.*.temperature"):
            exchanges.apply(event)
    return exchanges


def seconds(exchanges: Exchanges, keys: list[str]) -> float:
    started = perf_counter()
    for key in keys:
        exchanges.route("amq.topic", (key,))
    return (perf_counter() - started) / len(keys)


def main() -> None:
    many, few = with_bindings(10_000), with_bindings(10)
    seen = [f"device.{number % 10}.hall.temperature" for number in range(ROUTES)]
    best: dict[tuple[str, int], float] = {}
    for turn in range(TURNS):
        new = [f"device.{number % 10}.{turn}-{number}.temperature" for number in range(ROUTES)]
        for what, keys in (("seen before", seen), ("new", new)):
            for bindings, exchanges in ((10, few), (10_000, many)):
                best[what, bindings] = min(best.get((what, bindings), 1.0), seconds(exchanges, keys))
    for (what, bindings), each in best.items():
        ratio = each / best[what, 10]
        print(f"{bindings:6,} bindings, every key {what}: {each * 1e6:.2f} us a route, {ratio:.2f} x")
    print(f"a new key against one seen before: {best['new', 10_000] / best['seen before', 10_000]:.1f} x")


if __name__ == "__main__":
    main()
