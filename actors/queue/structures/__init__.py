"""Ranges and spans of numbers, deadlines, clocks, a fair ring: what a queue is made of, and what knows no queue."""
