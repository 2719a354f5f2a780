"""Writes docs/openapi.json, the description of the HTTP API, from the table of routes."""

from __future__ import annotations

import json
from pathlib import Path

from transport.gateways.http.gateway import ROUTES
from transport.gateways.http.openapi import document

TARGET = Path(__file__).resolve().parent.parent / "docs" / "openapi.json"

if __name__ == "__main__":
    TARGET.write_text(json.dumps(document(ROUTES), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
