"""The broker: its listeners, its end of a connection, the ports to its queues, and its commands."""
