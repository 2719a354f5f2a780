"""A subscriber that asks for two elements, then for one at a time, and has enough after four."""

from streams import Sink, Source, Subscriber, Subscription


class Frugal(Subscriber[int]):
    """Says every signal that it gets, and every one that it gives."""

    def on_subscribe(self, subscription: Subscription) -> None:
        """Nothing comes before the first request."""
        self.subscription = subscription
        self.ask(2)

    def ask(self, n: int) -> None:
        """Requests add up."""
        print(f"request({n})")
        self.subscription.request(n)

    def on_next(self, element: int) -> None:
        """At most as often as was asked for."""
        print(f"    on_next({element})")
        if element == 3:
            print("cancel()")
            self.subscription.cancel()
        elif element > 0:
            self.ask(1)

    def on_error(self, error: BaseException) -> None:
        """The last signal, if the stream fails."""
        print(f"    on_error({error!r})")

    def on_complete(self) -> None:
        """The last signal, if it does not."""
        print("    on_complete()")


Source.range(1_000_000).to(Sink.from_subscriber(Frugal)).run_blocking()
