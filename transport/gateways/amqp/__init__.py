"""AMQP 0-9-1, as RabbitMQ speaks it: here its codec, which knows bytes and nothing of a broker."""
