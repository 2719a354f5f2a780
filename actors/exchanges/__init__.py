"""Exchanges: who gets what is published. Pure: definitions, the matchers of each kind, and routing; no clock, no I/O, no actor."""
