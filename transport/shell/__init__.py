"""What carries a protocol: a connection's buffers, timers and limits, and its place in the loop's turns."""
