"""A program's end of a connection: senders, receivers, transactions, subscriptions, administration."""
