"""The middles of streams: what the operators are made of."""
