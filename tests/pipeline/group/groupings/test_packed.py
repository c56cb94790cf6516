import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clozeline.errors import ConfigurationError
from clozeline.pipeline.group.groupings import GroupingSpec, MinimumRow, build_grouping
from tests.pipeline.corruption_cases import EOS, SEP, vocabulary
from tests.pipeline.group.groupings.grouped_rows import WORDS, run
from tests.pipeline.token_rows import documents, many_documents


@settings(max_examples=60, deadline=None)
@given(
    rows=many_documents(), length=st.integers(1, 9), minimum=st.builds(MinimumRow, st.integers(1, 4), st.integers(1, 2))
)
def test_separators_are_counted_apart(rows, length, minimum):
    found, counts = run(rows, "packed", length, minimum, separator="sep")
    assert counts["separators"] == int((found.columns["ids"].values == SEP).sum())
    assert counts["tokens_in_samples"] == len(found.columns["ids"].values) - counts["separators"]
    assert counts["tokens_in"] == counts["tokens_in_samples"] + sum(counts["tokens_dropped"].values())


@settings(max_examples=60, deadline=None)
@given(rows=many_documents(), length=st.integers(1, 9), separator=st.sampled_from(["none", "sep", "eos"]))
def test_packed_rows_laid_end_to_end_are_the_stream(rows, length, separator):
    found, counts = run(rows, "packed", length, separator=separator)
    extra = {"none": [], "sep": [SEP], "eos": [EOS]}[separator]
    stream, begins, sentences = [], [], []
    for document in rows:
        if len(document["token_ids"]):
            begins.append(len(stream))
            sentences += [len(stream) + start for start in document["sentence_starts"].tolist()]
            stream += [*document["token_ids"].tolist(), *extra]
    ids = found.columns["ids"]
    assert ids.values.tolist() == stream
    assert set(ids.lengths.tolist()[:-1]) <= {length}
    assert counts["separators"] == len(begins) * len(extra)
    for row in range(len(found)):
        first, last = row * length, min(len(stream), (row + 1) * length)
        for name, places in (("document_starts", begins), ("sentence_starts", sentences)):
            inside = [place - first for place in places if first < place < last]
            assert found.columns[name][row].tolist() == [0, *inside]


def test_example_of_packed():
    a, b, c, d, e, f, g, h = range(200, 208)
    rows = documents([[a, b, c], [d, e, f, g, h]], [[0], [0]])
    found, _ = run(rows, "packed", 4, separator="eos")
    assert [row["ids"].tolist() for row in found] == [[a, b, c, EOS], [d, e, f, g], [h, EOS]]
    assert [row["document_starts"].tolist() for row in found] == [[0], [0], [0]]
    assert found.fixed["document_offset"].tolist() == [0, 0, 4]
    assert [uid[0] for uid in found.fixed["document_uid"]] == [0, 16, 16]


def test_a_separator_may_open_a_row():
    rows = documents([[200, 201], [202, 203]], [[0], [0]])
    found, counts = run(rows, "packed", 2, separator="sep")
    assert [row["ids"].tolist() for row in found] == [[200, 201], [SEP, 202], [203, SEP]]
    assert found.columns["document_starts"][1].tolist() == found.columns["sentence_starts"][1].tolist() == [0, 1]
    assert found.fixed["document_offset"].tolist() == [0, 2, 1]
    assert (counts["tokens_in_samples"], counts["separators"]) == (4, 2)


def test_wrong_options():
    with pytest.raises(ConfigurationError, match="separator"):
        build_grouping(GroupingSpec("packed", 10, "dash"), WORDS)
    words = vocabulary()
    del words.specials["sep"]
    with pytest.raises(ConfigurationError, match="needs the special token 'sep'"):
        build_grouping(GroupingSpec("packed", 10, "sep"), words)
