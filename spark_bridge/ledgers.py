"""The ledgers of one subscription at all brokers of a query: which of them answer, and how long one that does not is waited for."""

from __future__ import annotations

import secrets
import time
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, FIRST_EXCEPTION, Future, wait

from spark_bridge.clients import this_program
from spark_bridge.errors import BrokerUnreachableError, OptionError, SubscriptionInUseError, SubscriptionTakenError
from spark_bridge.ledger import STOP_SECONDS, Answer, Ledger, logger
from spark_bridge.options import SourceOptions
from transport.clients.subscription_client import SubscriptionState

WAIT_SECONDS = 150.0
"""For a broker that the query cannot do without, beside ``ownerWait``. The client gives up after a minute and the attempt it is in;
this is for an answer that would never come."""
DOWN_AFTER_SECONDS = 1.0
"""With ``brokerDown=continue``: a broker that has not answered for so long is planned without, until it has. Being wrong about a slow one
costs nothing: what it reserved is in the next batch."""
NEW_QUERY_HINT = "A new query needs every broker once, for its first offset; or leave this one out of option brokers. "


class Ledgers:
    """One ledger a broker, in the order of their addresses.

    Args:
        options: the query's.

    Attributes:
        down: brokers that the query goes on without.
    """

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        # One name for all, and no other query's: two addresses of one broker find each other's ownership by it.
        client_id = f"{this_program()}/{secrets.token_hex(4)}"
        self._client_id = client_id
        self._ledgers = {broker: Ledger(options, broker, client_id) for broker in sorted(options.brokers)}
        self._longest = WAIT_SECONDS + options.owner_wait_ms / 1000
        self._patience = DOWN_AFTER_SECONDS if options.broker_down == "continue" else self._longest
        self.down: set[str] = set()

    def __iter__(self) -> Iterator[Ledger]:
        return iter(self._ledgers.values())

    def __getitem__(self, broker: str) -> Ledger:
        return self._ledgers[broker]

    def states(self) -> dict[str, SubscriptionState]:
        """The subscription at each broker that has ever answered; those that have not yet get the time to.

        Raises:
            BrokerUnreachableError: one did not, and the query is to wait for it.
        """
        unknown = [ledger for ledger in self if ledger.state is None]
        for ledger in unknown:
            if not ledger.busy:
                ledger.request()
        self.gather(unknown)
        for ledger in unknown:
            self.collect(ledger)
        return {ledger.broker: ledger.state for ledger in self if ledger.state is not None}

    def state(self, broker: str) -> SubscriptionState:
        """The subscription at ``broker``, which is waited for whatever ``brokerDown`` says.

        Raises:
            BrokerUnreachableError: it did not answer in time, or its client has given up.
        """
        ledger = self._ledgers[broker]
        if ledger.state is None:
            if not ledger.busy:
                ledger.request()
            assert ledger.future is not None
            wait([ledger.future], self._longest)
            if not ledger.answered:
                raise BrokerUnreachableError(broker, self._options.queue, f"no answer within {self._longest:g} s")
            self.collect(ledger, needed=True)
        assert ledger.state is not None
        return ledger.state

    def all_states(self) -> dict[str, SubscriptionState]:
        """The subscription at every broker, whatever ``brokerDown`` says: a new query begins with this.

        Raises:
            BrokerUnreachableError: one did not answer.
        """
        for ledger in self:
            if ledger.state is None and not ledger.busy:
                ledger.request()
        try:
            return {ledger.broker: self.state(ledger.broker) for ledger in self}
        except BrokerUnreachableError as error:
            hint = NEW_QUERY_HINT if len(self._ledgers) > 1 else ""
            raise BrokerUnreachableError(error.broker, error.queue, error.why, hint) from error

    def overdue(self) -> list[Ledger]:
        """Those whose answer should be there by now."""
        now = time.monotonic()
        return [ledger for ledger in self if ledger.busy and ledger.due <= now]

    def gather(self, asked: Collection[Ledger]) -> None:
        """Wait until all of ``asked`` have answered, for as long as the query is patient; not for those that are known to be down.

        Raises:
            BrokerUnreachableError: one did not, and the query is to wait for it.
        """
        awaited = [ledger for ledger in asked if ledger.busy and ledger.broker not in self.down]
        if not awaited:
            return
        until = max(ledger.due for ledger in awaited) + self._patience
        wait(_futures(awaited), max(0.0, until - time.monotonic()), FIRST_EXCEPTION)
        if any(ledger.future is not None and ledger.answered and ledger.future.exception() for ledger in awaited):
            return  # whoever collects it gets to know
        for ledger in awaited:
            if not ledger.answered:
                why = f"no answer within {self._patience:g} s"
                self._lost(BrokerUnreachableError(ledger.broker, self._options.queue, why))

    def first(self, among: Iterable[Ledger], seconds: float) -> bool:
        """Wait for an answer of any; False if none came, or none is awaited."""
        futures = _futures(among)
        return bool(futures) and bool(wait(futures, max(0.0, seconds), FIRST_COMPLETED).done)

    def collect(self, ledger: Ledger, *, needed: bool = False) -> Answer | None:
        """The answer of ``ledger``, if there is one.

        Args:
            ledger: one of these.
            needed: a broker that could not be reached is an error whatever ``brokerDown`` says.

        Raises:
            SparkBridgeError: see `Ledger.collect`.
        """
        if not ledger.answered:
            return None
        try:
            answer = ledger.collect()
        except BrokerUnreachableError as error:
            if needed:
                raise
            self._lost(error)
            return None
        except SubscriptionTakenError:
            self._check_one_name_each(ledger)
            raise
        except SubscriptionInUseError as error:
            self._check_not_ours(ledger, error)
            raise
        if ledger.broker in self.down:
            self.down.remove(ledger.broker)
            logger.warning("broker %s of queue %r is back", ledger.broker, self._options.queue)
        return answer

    def settle(self) -> None:
        """Have acknowledged what is owed; a broker that is down, or has something else to do, does it with its next request."""
        for ledger in self:
            self.collect(ledger)
        owing = [ledger for ledger in self if ledger.owes and not ledger.busy]
        for ledger in owing:
            ledger.request()
        self.gather(owing)
        for ledger in owing:
            self.collect(ledger)

    def close(self) -> None:
        """Close the connections. Nothing is acknowledged or released."""
        for ledger in self:
            ledger.close()
        wait(_futures(self), STOP_SECONDS)

    def _lost(self, error: BrokerUnreachableError) -> None:
        if self._options.broker_down != "continue":
            raise error
        if error.broker not in self.down:
            self.down.add(error.broker)
            logger.warning(
                "broker %s of queue %r cannot be reached (%s); the query goes on without it, its messages stay where they are",
                error.broker,
                error.queue,
                error.why,
            )

    def _check_not_ours(self, refused: Ledger, error: SubscriptionInUseError) -> None:
        """Two addresses of one broker, of which the second finds the first one's ownership.

        Raises:
            OptionError: it is that.
        """
        if error.owner == self._client_id:
            raise OptionError(
                f"option brokers names {refused.broker} and another address of the same broker; list each once"
            ) from None

    def _check_one_name_each(self, taken: Ledger) -> None:
        """Two addresses of one broker take the subscription from each other.

        Raises:
            OptionError: it looks like that.
        """
        for ledger in self:
            if ledger is taken or ledger.state is None or taken.state is None:
                continue
            # Taking over counts the epoch up; two brokers could by chance have the same prefix, if they keep nothing on disk.
            if ledger.state.id_prefix == taken.state.id_prefix and ledger.state.epoch != taken.state.epoch:
                raise OptionError(
                    f"option brokers names {ledger.broker} and {taken.broker}, which are one broker; list each once"
                )


def _futures(ledgers: Iterable[Ledger]) -> list[Future[Answer]]:
    return [ledger.future for ledger in ledgers if ledger.future is not None]
