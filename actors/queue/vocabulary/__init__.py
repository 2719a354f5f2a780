"""What a queue is told, what it tells, and what is said of it: commands, replies, events, settings, stages."""
