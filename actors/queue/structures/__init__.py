"""Ranges and spans of numbers, deadlines on a clock: what a queue is made of, and what knows no queue."""
