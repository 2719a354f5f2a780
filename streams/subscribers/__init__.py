"""The ends of streams: subscribers that consume, and their results."""
