"""The cache stays within its bytes, lets go of what was used the longest ago, and can be turned off and on."""

from __future__ import annotations

from collections import OrderedDict

from hypothesis import given
from hypothesis import strategies as st

from journal import ByteBoundedCache


def test_what_was_used_the_longest_ago_goes_first_and_is_told() -> None:
    gone: list[tuple[str, int]] = []
    cache: ByteBoundedCache[str, int] = ByteBoundedCache(30, lambda key, value: gone.append((key, value)))
    for number, key in enumerate("abc"):
        cache.put(key, number, 10)
    assert cache.get("a") == 0
    cache.put("d", 3, 10)
    assert gone == [("b", 1)]
    assert cache.get("b") is None
    assert (cache.hits, cache.misses, cache.bytes, len(cache)) == (1, 1, 30, 3)


def test_a_value_above_the_limit_is_not_kept_and_replaces_what_was() -> None:
    cache: ByteBoundedCache[str, int] = ByteBoundedCache(30)
    cache.put("a", 1, 10)
    cache.put("b", 2, 10)
    cache.put("a", 3, 31)
    assert "a" not in cache
    assert "b" in cache
    assert cache.bytes == 10


def test_a_limit_of_zero_turns_it_off_and_another_on_again() -> None:
    gone: list[str] = []
    cache: ByteBoundedCache[str, str] = ByteBoundedCache(30, lambda key, value: gone.append(key))
    cache.put("a", "x", 10)
    cache.put("empty", "y", 0)
    cache.limit = 0
    assert (cache.bytes, len(cache), gone) == (0, 0, ["a", "empty"])
    cache.put("b", "x", 0)
    assert len(cache) == 0
    cache.limit = 10
    cache.put("b", "x", 10)
    assert cache.get("b") == "x"
    cache.clear()
    assert (cache.bytes, len(cache), cache.limit) == (0, 0, 10)


STEPS = st.lists(
    st.tuples(st.sampled_from(["put", "get", "discard", "limit"]), st.integers(0, 5), st.integers(0, 40)), max_size=60
)


@given(STEPS)
def test_it_agrees_with_a_plain_model(steps: list[tuple[str, int, int]]) -> None:
    cache: ByteBoundedCache[int, int] = ByteBoundedCache(100)
    model: OrderedDict[int, int] = OrderedDict()
    limit = 100
    for number, (step, key, size) in enumerate(steps):
        if step == "put":
            cache.put(key, size, size)
            model.pop(key, None)
            if size <= limit and limit:
                model[key] = size
        elif step == "get":
            assert cache.get(key) == model.get(key), number
            if key in model:
                model.move_to_end(key)
        elif step == "discard":
            cache.discard(key)
            model.pop(key, None)
        else:
            cache.limit = limit = size * 4
        while model and (sum(model.values()) > limit or not limit):
            model.popitem(last=False)
        assert cache.bytes == sum(model.values())
        assert len(cache) == len(model)
