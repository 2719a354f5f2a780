"""Celery against Penstock, as against RabbitMQ: `celery --workdir examples -A amqp_celery worker`, and `python examples/amqp_celery.py`."""

from celery import Celery, Task, chain, group

# CELERY_BROKER_URL, which Celery reads itself, says another broker.
app = Celery("amqp_celery", broker="amqp://guest:guest@127.0.0.1:5672//", backend="rpc://")
app.conf.update(
    broker_transport_options={"confirm_publish": True},  # `delay` returns when the task is on the disk
    task_acks_late=True,  # a task whose worker dies is run again
    task_reject_on_worker_lost=True,  # and so is one whose process of the pool dies
    worker_prefetch_multiplier=1,  # a worker holds what its processes work on, and no more
)


@app.task
def price(quantity: int, cents: int) -> int:
    """What a line of an order costs."""
    return quantity * cents


@app.task(bind=True, max_retries=5)
def charge(self: Task, cents: int) -> str:
    """The bank answers the third time."""
    if self.request.retries < 2:
        raise self.retry(countdown=0.1)
    return f"{cents} cents are paid after {self.request.retries} retries"


if __name__ == "__main__":
    prices = group(price.s(2, 250), price.s(1, 1200))().get(timeout=30)
    print(f"prices: {prices}")
    print(charge.delay(sum(prices)).get(timeout=30))
    later = price.apply_async((1, 100), countdown=1)
    print(f"at once: {chain(price.s(3, 100), price.s(2))().get(timeout=30)}")
    print(f"a second later: {later.get(timeout=30)}")
