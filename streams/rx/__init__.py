"""Operators of reactivex under demand: what `Flow.rx` is made of. reactivex is imported with the first use, not with `streams`."""
