"""Windows against BERT's loop and brute force; the window of each token against BERT's `_check_is_max_context`."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from clozeline.pipeline.tasks.window_rows import assign_to_windows, sliding_windows


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
    assert sliding_windows([1] * tokens, room, step) == expected


def slow_window(windows: list[tuple[int, int]], token: int) -> int:
    best, number = None, -1
    for index, (start, end) in enumerate(windows):
        if start <= token < end:
            score = min(token - start, end - 1 - token) + 0.01 * (end - start)
            if best is None or score > best + 1e-9:
                best, number = score, index
    return number


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 60), st.integers(1, 20), st.integers(1, 20))
def test_tokens_belong_to_the_window_of_berts_max_context(tokens: int, room: int, step: int) -> None:
    found = sliding_windows([1] * tokens, room, step)
    assert assign_to_windows(found, [1] * tokens).tolist() == [slow_window(found, token) for token in range(tokens)]


@settings(max_examples=300, deadline=None)
@given(st.lists(st.integers(0, 7), min_size=1, max_size=30), st.integers(1, 12), st.integers(1, 12))
def test_windows_of_words(sizes: list[int], room: int, step: int) -> None:
    """No word is left out or begun twice, each window is as full as can be, and words of a window follow each other."""
    found = sliding_windows(sizes, room, step)
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
    owner = assign_to_windows(found, sizes).tolist()
    assert owner == sorted(owner)
    assert all(found[number][0] <= index < found[number][1] for index, number in enumerate(owner))
