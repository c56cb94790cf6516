"""Windows against BERT's loop and brute force; owners against BERT's `_check_is_max_context`, copied by its rule."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from clozeline.pipeline.tasks.windows import owners, windows


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 60), st.integers(1, 20), st.integers(1, 20))
def test_windows_of_tokens_are_berts(tokens: int, room: int, step: int) -> None:
    expected, start = [], 0
    while start < tokens:
        length = min(tokens - start, room)
        expected.append((start, start + length))
        if start + length == tokens:
            break
        start += min(length, step)
    assert windows([1] * tokens, room, step) == expected


def slow_owner(found: list[tuple[int, int]], place: int) -> int:
    best, number = None, -1
    for index, (start, end) in enumerate(found):
        if start <= place < end:
            score = min(place - start, end - 1 - place) + 0.01 * (end - start)
            if best is None or score > best + 1e-9:
                best, number = score, index
    return number


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 60), st.integers(1, 20), st.integers(1, 20))
def test_owners_of_tokens_are_berts(tokens: int, room: int, step: int) -> None:
    found = windows([1] * tokens, room, step)
    assert owners(found, [1] * tokens).tolist() == [slow_owner(found, place) for place in range(tokens)]


@settings(max_examples=300, deadline=None)
@given(st.lists(st.integers(0, 7), min_size=1, max_size=30), st.integers(1, 12), st.integers(1, 12))
def test_windows_of_words(sizes: list[int], room: int, step: int) -> None:
    """No word is left out or begun twice, each window is as full as can be, and words of a window follow each other."""
    found = windows(sizes, room, step)
    assert found[0][0] == 0
    assert found[-1][1] == len(sizes)
    for number, (start, end) in enumerate(found):
        inside = sum(sizes[start:end])
        assert end > start
        assert inside <= room or end == start + 1
        assert end == len(sizes) or inside + sizes[end] > room
        if number:
            before = found[number - 1]
            assert before[0] < start <= before[1]
            assert end > before[1]
            assert sum(sizes[before[0] : start]) >= step or start == before[1]
    owner = owners(found, sizes).tolist()
    assert owner == sorted(owner)
    assert all(found[number][0] <= place < found[number][1] for place, number in enumerate(owner))
