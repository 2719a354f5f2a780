"""Simple Message Queue: sources on one port, a sink on another, one message at a time."""
