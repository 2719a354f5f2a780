"""What an actor needs on an event loop: references, an inbox, answers, timers, supervision. Knows no queue."""
