"""The protocol as bytes and events: frames, messages, checks, liveness. No I/O and no clock."""
