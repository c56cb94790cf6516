from __future__ import annotations

import numpy as np

from clozeline.pipeline.corrupt.objectives import build_objective
from clozeline.pipeline.corrupt.preview.predictions import lines_of
from clozeline.pipeline.corrupt.preview.words import Text, Words, sample_rows_of


def test_labels_stand_below_their_places() -> None:
    words = Words(["It is raining ."])
    options = {"grouping": "document", "mask_rate": 0.25, "mask_share": 1.0, "random_share": 0.0}
    objective = build_objective({"name": "masked_lm", **options}, words.vocabulary)
    sample = sample_rows_of(objective, words, (Text(("It is raining .",)),))
    found = set()
    for variant in range(60):
        examples, _ = objective.corrupt(sample, np.array([variant], np.uint16), seed=1)
        text, row, labels = lines_of(objective, words, sample.row(0), examples.row(0))
        assert text == "text    It is raining ."
        found.add((row, labels))
    assert found == {
        ("input   [CLS] [MASK] is raining .  [SEP]", "labels  __    It     __ __      __ __"),
        ("input   [CLS] It [MASK] raining .  [SEP]", "labels  __    __ is     __      __ __"),
        ("input   [CLS] It is [MASK]  .  [SEP]", "labels  __    __ __ raining __ __"),
        ("input   [CLS] It is raining [MASK] [SEP]", "labels  __    __ __ __      .      __"),
    }
