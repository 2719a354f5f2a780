"""Other protocols than Penstock's own, each as a listener of the broker: a protocol without I/O, and what hands its events to the door."""
