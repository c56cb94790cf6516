"""Neighbors of the spans that a batch masks, against a loop over tokens."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.train.data.stream.test_collate import collated


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.lists(st.tuples(st.integers(1, 3), st.integers(1, 4)), max_size=3),
        min_size=1,
        max_size=5,
    )
)
def test_neighbors_of_spans_equal_a_slow_loop(rows):
    """Each span as (tokens before it, its length); the rows end with one more token."""
    lists = {
        name: [[] for _ in rows]
        for name in ("input_ids", "label_positions", "label_ids", "span_starts", "span_lengths")
    }
    wanted = []

    for row, spans in enumerate(rows):
        place = 0

        for before, size in spans:
            place += before
            lists["span_starts"][row].append(place)
            lists["span_lengths"][row].append(size)
            for offset in range(size):
                lists["label_positions"][row].append(place + offset)
                wanted.append((row, place - 1, place + size, offset))

            place += size

        lists["input_ids"][row] = [7] * (place + 1)
        lists["label_ids"][row] = [9] * len(lists["label_positions"][row])

    found = collated("encoder", lists)
    width = max(map(len, lists["input_ids"]))

    assert found["span_left"] == [row * width + left for row, left, _, _ in wanted]
    assert found["span_right"] == [row * width + right for row, _, right, _ in wanted]
    assert found["span_offset"] == [offset for *_, offset in wanted]
