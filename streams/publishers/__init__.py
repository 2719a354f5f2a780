"""The beginnings of streams: publishers of iterables, files, timers and queues."""
