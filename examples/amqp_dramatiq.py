"""Dramatiq against Penstock, as against RabbitMQ: `dramatiq --path examples amqp_dramatiq`, and `python examples/amqp_dramatiq.py`."""

import os

import dramatiq
from dramatiq.brokers.rabbitmq import RabbitmqBroker
from dramatiq.middleware import CurrentMessage

URL = os.environ.get("AMQP_URL", "amqp://guest:guest@127.0.0.1:5672")
broker = RabbitmqBroker(url=URL, confirm_delivery=True)  # `send` returns when the message is on the disk
broker.add_middleware(CurrentMessage())
dramatiq.set_broker(broker)


@dramatiq.actor(queue_name="shop", max_retries=5, min_backoff=100)
def charge(order: str) -> None:
    """The bank answers the second time."""
    message = CurrentMessage.get_current_message()
    assert message is not None
    if not message.options.get("retries"):
        raise ConnectionError("the bank does not answer")
    print(f"{order} is paid at the second try", flush=True)


@dramatiq.actor(queue_name="shop")
def remind(order: str) -> None:
    """A reminder."""
    print(f"remember {order}", flush=True)


if __name__ == "__main__":
    remind.send_with_options(args=("order 1",), delay=1000)
    charge.send("order 1")
    remind.send("order 2")
    print("3 messages are stored")
    broker.close()
