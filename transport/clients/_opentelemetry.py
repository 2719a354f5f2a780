"""opentelemetry-api, or the one line that says how to get it: the clients do without it until tracing is asked for."""

from __future__ import annotations

try:
    from opentelemetry import context, metrics, propagate, trace
    from opentelemetry.propagators.textmap import TextMapPropagator
except ImportError as error:
    raise ImportError(
        f"Tracing in Penstock's clients needs opentelemetry-api, which cannot be imported ({error}): "
        "pip install 'penstock-mq[otel]'",
        name="opentelemetry",
    ) from None

__all__ = ["TextMapPropagator", "context", "metrics", "propagate", "trace"]
