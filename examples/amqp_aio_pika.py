"""aio-pika against Penstock: a question, and its answer by direct reply-to. `python examples/amqp_aio_pika.py`."""

import argparse
import asyncio

import aio_pika
from aio_pika.abc import AbstractIncomingMessage


async def main(port: int) -> None:
    """A server and its client, on one connection."""
    async with await aio_pika.connect_robust(f"amqp://127.0.0.1:{port}/") as connection:
        channel = await connection.channel()
        await channel.set_qos(prefetch_count=10)
        questions = await channel.declare_queue("questions", durable=True)

        async def answer(message: AbstractIncomingMessage) -> None:
            async with message.process():  # acknowledged at the end, rejected by an exception
                reply = aio_pika.Message(message.body.upper(), correlation_id=message.correlation_id)
                await channel.default_exchange.publish(reply, message.reply_to or "")

        await questions.consume(answer)
        replies = await channel.get_queue("amq.rabbitmq.reply-to", ensure=False)
        answered: asyncio.Future[AbstractIncomingMessage] = asyncio.get_running_loop().create_future()

        async def heard(reply: AbstractIncomingMessage) -> None:
            answered.set_result(reply)

        await replies.consume(heard, no_ack=True)
        question = aio_pika.Message(b"tea or coffee?", reply_to=replies.name, correlation_id="1")
        await channel.default_exchange.publish(question, "questions")
        reply = await answered
        print(f"answer {reply.correlation_id}: {reply.body.decode()}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=5672, help="of `penstock broker --amqp` (5672)")
    asyncio.run(main(parser.parse_args().port))
