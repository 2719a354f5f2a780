"""Structured Streaming queries on a real broker: what goes into the queue comes out of the query, once."""

from __future__ import annotations

import pytest
