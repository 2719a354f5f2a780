"""What a queue does: each module has the functions that carry out one kind of command on its core."""
