"""Causal LM: rows as they are, with special tokens around them where they are documents."""

import pytest

from clozeline.pipeline.corrupt.objectives import build_objective
from tests.pipeline.corrupt.objectives.runner import corrupt, variants_of, wide
from tests.pipeline.corruption_cases import WORDS, samples

KITTEN = [300, 301, 302, 303]


def test_packed_rows_stand_as_they_are():
    rows = samples([700, 5, 2], specials=0.1)
    examples = corrupt(wide("causal_lm"), rows)
    assert (examples.columns["input_ids"].values == rows.columns["ids"].values).all()
    assert wide("causal_lm").grouping.label == "packed-700-eos"


@pytest.mark.parametrize(("options", "raw", "wanted"), [
    ({}, 1023, {"input_ids": [*KITTEN, 5]}),
    ({"add_bos": True}, 1022, {"input_ids": [4, *KITTEN, 5]}),
    ({"architecture": "encoder_decoder"}, 1023, {"input_ids": [5], "target_ids": [*KITTEN, 5]}),
])  # fmt: skip
def test_documents_have_special_tokens_around_them(options, raw, wanted):
    objective = build_objective({"name": "causal_lm", "grouping": "document", **options}, WORDS)
    assert objective.content_length == raw
    (example,) = variants_of(objective, KITTEN, count=1)
    assert {name: column.tolist() for name, column in example.columns.items()} == wanted
    assert objective.frame.decoder_start == (0 if "target_ids" in wanted else None)


@pytest.mark.parametrize("grouping", ["packed", "document"])
def test_an_encoder_reads_the_rows_of_masked_lm_from_left_to_right(grouping):
    causal = wide("causal_lm", architecture="encoder", grouping=grouping, separator="sep")
    encoder = wide("masked_lm", grouping=grouping)
    assert causal.grouping == encoder.grouping
    rows = samples([50, 9, 1])
    examples = corrupt(causal, rows)
    assert [example["input_ids"].tolist() for example in examples] == [
        encoder.add_special_tokens(row["ids"]).tolist() for row in rows
    ]
    assert [example["attention"].tolist() for example in examples] == [[1], [1], [1]]
    assert (causal.heads, causal.frame.predict_from) == (("masked_lm",), "previous")
    assert [feature.name for feature in causal.features] == ["input_ids", "attention"]


@pytest.mark.parametrize("name", ["causal_lm", "masked_lm"])
def test_rows_of_one_document_say_their_language(name):
    encoder = {"architecture": "encoder"} if name == "causal_lm" else {}
    rows = samples([50, 9, 1])
    rows.fixed["language"][:] = [2, 0, 7]
    examples = corrupt(wide(name, grouping="document", languages=True, **encoder), rows)
    assert [example["languages"].tolist() for example in examples] == [[2], [0], [7]]
