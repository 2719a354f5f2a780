"""What matches, said as the documentation says it and without any index: what the matchers are judged by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def topic_matches(pattern: str, key: str) -> bool:
    return words_match(pattern.split(".") if pattern else [], key.split(".") if key else [])


def words_match(pattern: list[str], words: list[str]) -> bool:
    if not pattern:
        return not words
    first, *rest = pattern
    if first == "#":
        return any(words_match(rest, words[taken:]) for taken in range(len(words) + 1))
    return bool(words) and first in ("*", words[0]) and words_match(rest, words[1:])


def same(left: Any, right: Any) -> bool:
    """Whether two values are one, whatever the width of their types, but not whatever the types."""
    kinds = [kind_of(left), kind_of(right)]
    if kinds[0] != kinds[1]:
        return False
    if kinds[0] == "text":
        return as_bytes(left) == as_bytes(right)
    if kinds[0] == "array":
        return len(left) == len(right) and all(same(a, b) for a, b in zip(left, right, strict=True))
    if kinds[0] == "table":
        return set(left) == set(right) and all(same(left[name], right[name]) for name in left)
    return bool(left == right)


def kind_of(value: Any) -> str:
    if isinstance(value, str | bytes):
        return "text"
    if isinstance(value, list | tuple):
        return "array"
    return "table" if isinstance(value, dict) else type(value).__name__


def as_bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


def headers_match(arguments: Mapping[str, Any], headers: Mapping[str, Any]) -> bool:
    how = arguments.get("x-match", "all")
    asked = [name for name in arguments if name != "x-match"]
    if not how.endswith("-with-x"):
        asked = [name for name in asked if not name.startswith("x-")]
    matching = [name in headers and (arguments[name] is None or same(arguments[name], headers[name])) for name in asked]
    return any(matching) if how.startswith("any") else all(matching)


def matches(kind: str, key: str, arguments: Mapping[str, Any], keys: Sequence[str], headers: Mapping[str, Any]) -> bool:
    """Whether a binding of an exchange of some kind matches a message."""
    if kind == "fanout":
        return True
    if kind == "headers":
        return headers_match(arguments, headers)
    if kind == "topic":
        return any(topic_matches(key, one) for one in keys)
    return key in keys
