"""What a queue knows: its log and its messages, who holds them, who waits, and what is staged."""
