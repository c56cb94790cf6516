from hypothesis import given, settings
from hypothesis import strategies as st

from tests.pipeline.corruption_cases import EOS, SEP
from tests.pipeline.group.groupings.grouped_rows import run
from tests.pipeline.token_rows import documents, many_documents


def plain_rows(rows, length, extra):
    """The rows by a loop over sentences: one is added where it fits, and cut where no row could hold it."""
    sentences = []
    for document in rows:
        ids, starts = document["token_ids"].tolist(), document["sentence_starts"].tolist()
        if ids:
            sentences += [ids[a:b] for a, b in zip(starts, [*starts[1:], len(ids)], strict=True)]
            sentences[-1] = sentences[-1] + extra
    found = []
    row = []
    for sentence in sentences:
        rest = sentence
        if row and len(row) + len(rest) > length:
            found.append(row)
            row = []
        while len(rest) > length:
            found.append(rest[:length])
            rest = rest[length:]
        row = row + rest
    return [*found, row] if row else found


@settings(max_examples=200, deadline=None)
@given(rows=many_documents(), length=st.integers(1, 9), separator=st.sampled_from(["none", "sep", "eos"]))
def test_rows_are_those_of_a_plain_loop(rows, length, separator):
    extra = {"none": [], "sep": [SEP], "eos": [EOS]}[separator]
    found, counts = run(rows, "full_sentences", length, separator=separator)
    assert [row["ids"].tolist() for row in found] == plain_rows(rows, length, extra)
    assert counts["tokens_in"] == counts["tokens_in_samples"] == int(rows.columns["token_ids"].lengths.sum())


def test_the_worked_example():
    a, b, c, d, e, f, g, h = range(200, 208)
    rows = documents([[a, b, c], [d, e, f, g, h]], [[0], [0, 2]])
    found, _ = run(rows, "full_sentences", 4, separator="eos")
    assert [row["ids"].tolist() for row in found] == [[a, b, c, EOS], [d, e], [f, g, h, EOS]]
    assert [row["document_starts"].tolist() for row in found] == [[0], [0], [0]]
    assert found.fixed["document_offset"].tolist() == [0, 0, 2]
