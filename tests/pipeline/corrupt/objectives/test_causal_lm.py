"""Causal LM: rows as they are, framed where they are documents."""

from __future__ import annotations

import pytest

from clozeline.pipeline.corrupt.objectives import build_objective
from tests.pipeline.corrupt.objectives.runner import corrupt, variants_of, wide
from tests.pipeline.corruption_cases import WORDS, samples

KITTEN = [300, 301, 302, 303]


def test_packed_rows_stand_as_they_are() -> None:
    rows = samples([700, 5, 2], specials=0.1)
    examples = corrupt(wide("causal_lm"), rows)
    assert (examples.columns["input_ids"].values == rows.columns["ids"].values).all()
    assert wide("causal_lm").grouping.label == "packed-700-eos"


@pytest.mark.parametrize(("options", "wanted", "raw"), [
    ({}, [*KITTEN, 5], 1023),
    ({"add_bos": True}, [4, *KITTEN, 5], 1022),
])  # fmt: skip
def test_documents_are_framed(options: dict[str, bool], wanted: list[int], raw: int) -> None:
    objective = build_objective({"name": "causal_lm", "grouping": "document", **options}, WORDS)
    assert objective.content_length == raw
    assert variants_of(objective, KITTEN, count=1)[0]["input_ids"].tolist() == wanted


def test_encoder_decoder_gives_nothing_to_the_encoder() -> None:
    objective = wide("causal_lm", architecture="encoder_decoder", grouping="document")
    example = variants_of(objective, KITTEN, count=1)[0]
    assert example["input_ids"].tolist() == [5]
    assert example["target_ids"].tolist() == [*KITTEN, 5]
    assert objective.frame.decoder_start == 0


@pytest.mark.parametrize("grouping", ["packed", "document"])
def test_an_encoder_reads_the_rows_of_masked_lm_from_left_to_right(grouping: str) -> None:
    causal = wide("causal_lm", architecture="encoder", grouping=grouping, separator="sep")
    masked = wide("masked_lm", grouping=grouping)
    assert causal.grouping == masked.grouping
    rows = samples([50, 9, 1])
    examples = corrupt(causal, rows)
    assert [example["input_ids"].tolist() for example in examples] == [
        masked.add_special_tokens(row["ids"]).tolist() for row in rows
    ]
    assert [example["attention"].tolist() for example in examples] == [[1], [1], [1]]
    assert (causal.heads, causal.frame.predict_from) == (("masked_lm",), "previous")
    assert [feature.name for feature in causal.features] == ["input_ids", "attention"]


@pytest.mark.parametrize("name", ["causal_lm", "masked_lm"])
def test_rows_of_one_document_say_their_language(name: str) -> None:
    encoder = {"architecture": "encoder"} if name == "causal_lm" else {}
    rows = samples([50, 9, 1])
    rows.fixed["language"][:] = [2, 0, 7]
    examples = corrupt(wide(name, grouping="document", languages=True, **encoder), rows)
    assert [example["languages"].tolist() for example in examples] == [[2], [0], [7]]
