"""The topic exchange: binding keys are patterns of words, and a trie finds those that a routing key matches.

Words are what is between the dots (AMQP 0-9-1, 3.1.3.3). A ``*`` stands for one word, a ``#`` for any number of them, none included; both
only as whole words. Words may be empty: ``a..b`` has three, of which the second is. A key without any character has no word.

A node of the trie is a word of a pattern behind those before it. A key visits the nodes that match its beginning, never the bindings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from actors.exchanges.counted import Counted
from actors.exchanges.errors import TooManyPatternsError
from actors.exchanges.limits import MAX_MATCH_STEPS
from actors.exchanges.tables import Frozen
from actors.exchanges.vocabulary import Destination

ONE_WORD = "*"
ANY_WORDS = "#"


def words_of(key: str) -> list[str]:
    """The words of a routing key or of a pattern."""
    return key.split(".") if key else []


class _Node:
    """A word of patterns.

    Attributes:
        words: the nodes of the words that follow.
        one: the node of a ``*`` that follows.
        many: the node of a ``#`` that follows.
        ends: where those patterns lead that end here; None where none does.
    """

    __slots__ = ("ends", "many", "one", "words")

    def __init__(self) -> None:
        self.words: dict[str, _Node] = {}
        self.one: _Node | None = None
        self.many: _Node | None = None
        self.ends: Counted | None = None

    def child(self, word: str) -> _Node | None:
        if word == ONE_WORD:
            return self.one
        return self.many if word == ANY_WORDS else self.words.get(word)

    def set_child(self, word: str, node: _Node | None) -> None:
        if word == ONE_WORD:
            self.one = node
        elif word == ANY_WORDS:
            self.many = node
        elif node is None:
            del self.words[word]
        else:
            self.words[word] = node

    def leads_on(self) -> bool:
        return bool(self.words) or self.one is not None or self.many is not None


class TopicMatcher:
    """The patterns of one topic exchange."""

    __slots__ = ("_root",)

    by_headers = False

    def __init__(self) -> None:
        self._root = _Node()

    def add(self, destination: Destination, key: str, arguments: Mapping[str, Any]) -> None:  # noqa: ARG002 - of all kinds
        """Take in a binding that is not there."""
        node = self._root
        for word in words_of(key):
            following = node.child(word)
            if following is None:
                following = _Node()
                node.set_child(word, following)
            node = following
        if node.ends is None:
            node.ends = Counted()
        node.ends.add(destination)

    def remove(self, destination: Destination, key: str, arguments: Mapping[str, Any]) -> None:  # noqa: ARG002 - of all kinds
        """Forget a binding that is there, with the nodes that nothing else needs."""
        path = [self._root]
        words = words_of(key)
        for word in words:
            following = path[-1].child(word)
            assert following is not None, "a binding that is there has its nodes"
            path.append(following)
        last = path[-1]
        assert last.ends is not None, "and its destination"
        last.ends.remove(destination)
        if not last.ends:
            last.ends = None
        while len(path) > 1 and path[-1].ends is None and not path[-1].leads_on():
            path.pop()
            path[-1].set_child(words[len(path) - 1], None)

    def match(self, keys: Sequence[str], headers: Frozen, found: dict[Destination, Any]) -> None:  # noqa: ARG002 - of all kinds
        """Put into ``found`` where any of the keys leads; raises TooManyPatternsError."""
        left = MAX_MATCH_STEPS
        for key in keys:
            left = self._match(words_of(key), found, left)

    def _match(self, words: list[str], found: dict[Destination, Any], steps: int) -> int:
        """Visits each node at most once for each of the key's words, and no more than ``steps``; gives how many of these are left.

        A node has one parent, and is reached from it by taking one word. Only a ``#`` is reached in several ways. What follows it is
        possible behind each of the words from the earliest place on, so it is enough to remember that place.
        """
        stop = len(words)
        earliest: dict[_Node, int] = {}
        waiting = [(self._root, 0)]
        for left in range(steps, 0, -1):
            if not waiting:
                return left
            node, at = waiting.pop()
            if at == stop:
                if node.ends is not None:
                    found.update(node.ends)
            else:
                following = node.words.get(words[at])
                if following is not None:
                    waiting.append((following, at + 1))
                if node.one is not None:
                    waiting.append((node.one, at + 1))
            many = node.many
            if many is None:
                continue
            if not many.leads_on():
                if many not in earliest:
                    earliest[many] = at
                    found.update(many.ends or ())
                continue
            before = earliest.get(many, stop + 1)
            if at < before:
                earliest[many] = at
                waiting.extend([(many, place) for place in range(at, before)])
        if not waiting:
            return 0
        raise TooManyPatternsError("topic", MAX_MATCH_STEPS, f"bind by patterns with fewer {ANY_WORDS!r}")
