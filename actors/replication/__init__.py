"""Replication: one log on several machines, and who may lead it. Pure; sockets, clocks and randomness are passed in."""
