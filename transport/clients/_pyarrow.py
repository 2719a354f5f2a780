"""pyarrow, or the one line that says how to get it: the clients do without it until Arrow is asked for."""

from __future__ import annotations

try:
    import pyarrow as pa
    import pyarrow.compute as pc
except ImportError as error:
    raise ImportError(
        f"Arrow in Penstock's clients needs pyarrow, which cannot be imported ({error}): pip install 'penstock-mq[arrow]'",
        name="pyarrow",
    ) from None

__all__ = ["pa", "pc"]
