"""The table of what can be trained, against what is written by hand here."""

import pytest

from clozeline import registry
from docs.generate.training import training_rows, training_table

MASKED = "input_ids, label_positions, label_ids"
ENCODERS = {
    "masked_lm": (MASKED, "masked_lm"),
    "whole_word_masking": (MASKED, "masked_lm"),
    "span_boundary": (f"{MASKED}, span_starts, span_lengths", "masked_lm, span_boundary"),
    "next_sentence_prediction": (f"{MASKED}, segment_starts, sentence_label", "masked_lm, sentence"),
    "sentence_order_prediction": (f"{MASKED}, segment_starts, sentence_label", "masked_lm, sentence"),
    "replaced_token_detection": (MASKED, "masked_lm, token (generator or drawn tokens)"),
    "corrective_lm": (
        f"{MASKED}, crop_start, crop_length",
        "masked_lm, corrective (generator or drawn tokens), similarity",
    ),
    "permuted_lm": ("input_ids, prediction_order", "masked_lm"),
    "sentence_comparison": ("input_ids, input_ids_b", "similarity"),
    "translation_lm": (f"{MASKED}, segment_starts, languages", "masked_lm"),
}


@pytest.mark.parametrize("name", ENCODERS)
def test_columns_and_heads_of_encoders(name):
    (row,) = [row for row in training_rows(name) if row[1] == "encoder"]
    assert row[2:] == ENCODERS[name]


def test_every_objective_has_a_row():
    names = registry.names("clozeline.pipeline.corrupt.objectives")
    lines = training_table(names).splitlines()
    assert {line.split(" | ")[0].removeprefix("| ") for line in lines if line.startswith("| ")} == {"objective", *names}
