from hypothesis import given, settings
from hypothesis import strategies as st

from tests.pipeline.group.groupings.grouped_rows import run
from tests.pipeline.token_rows import documents, many_documents


def slow_windows(n, starts, length):
    """Return the begins of the windows of a document."""
    found, place = [], 0
    while place < n:
        found.append(place)
        if n - place <= length:
            break
        whole = [start for start in starts if place < start <= place + length]
        place = whole[-1] if whole else place + length
    return found


@settings(max_examples=100, deadline=None)
@given(rows=many_documents(), length=st.integers(1, 9))
def test_document_windows_equal_a_plain_loop(rows, length):
    found, _ = run(rows, "document", length)
    cursor = 0
    for document in rows:
        ids, starts = document["token_ids"].tolist(), document["sentence_starts"].tolist()
        windows = slow_windows(len(ids), starts, length)
        for first, last in zip(windows, [*windows[1:], len(ids)], strict=False):
            row = found.row(cursor)
            assert row["ids"].tolist() == ids[first:last]
            assert row["sentence_starts"].tolist() == [0, *(s - first for s in starts if first < s < last)]
            cursor += 1
    assert cursor == len(found)


def test_example_of_document():
    rows = documents([list(range(200, 210))], [[0, 2, 5]])
    found, _ = run(rows, "document", 4)
    assert [row["ids"].tolist() for row in found] == [[200, 201], [202, 203, 204], [205, 206, 207, 208], [209]]
