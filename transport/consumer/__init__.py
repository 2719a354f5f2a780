"""`Consumer`: handlers of messages as a program of their own, on top of receivers and streams; docs/consumer.md."""
