"""pika against Penstock, as against RabbitMQ: orders published with confirms, and taken one at a time. `python examples/amqp_pika.py`."""

import argparse

import pika

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--port", type=int, default=5672, help="of `penstock broker --amqp` (5672)")
parser.add_argument("--count", type=int, default=3, help="orders (3)")
options = parser.parse_args()

with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", options.port)) as connection:
    channel = connection.channel()
    channel.exchange_declare("shop", "topic", durable=True)
    channel.queue_declare("orders", durable=True)
    channel.queue_bind("orders", "shop", "order.#")
    channel.confirm_delivery()
    for number in range(options.count):
        # It returns when the order is on the disk; one that no queue takes is an error.
        body = f"order {number}".encode()
        channel.basic_publish(
            "shop", f"order.{number}", body, pika.BasicProperties(message_id=f"m{number}"), mandatory=True
        )
    print(f"{options.count} orders are stored")

    channel.basic_qos(prefetch_count=1)  # the queue gives the next one when this one is acknowledged
    for number, (method, properties, body) in enumerate(channel.consume("orders"), 1):
        print(f"{body.decode()} by {method.routing_key}, {properties.message_id}")
        channel.basic_ack(method.delivery_tag)
        if number == options.count:
            break
