"""A piece after a newline opens a word, for every objective that takes words, as one that says so itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from clozeline.pipeline.rows import Ragged
from tests.pipeline.corrupt.objectives.runner import corrupt, wide
from tests.pipeline.corruption_cases import WORDS, samples

IDS = np.arange(WORDS.size)
NEWLINES = (IDS % 3 == 0) & (IDS % 5 == 0) & ~WORDS.special
"""Ids with remainder 0 open a word, those with 1 do not, and those with 2 stand for these after a newline."""

CASES: dict[str, dict[str, Any]] = {
    "whole_word_masking": {"mask_rate": 0.4, "role_unit": "word"},
    "whole_word_masking by tokens": {"mask_rate": 0.4, "role_unit": "token"},
    "span_boundary": {"mask_rate": 0.4},
    "sentence_order_prediction": {"mask_rate": 0.4},
    "text_infilling": {"unit": "word"},
}


def without_stand_ins(ids: NDArray[Any]) -> NDArray[Any]:
    return np.where((ids % 3 == 2) & ~WORDS.special[ids], ids - 1, ids)


@pytest.mark.parametrize("case", CASES)
def test_a_newline_is_as_good_as_a_space(case: str) -> None:
    rows = samples([7, 40, 64, 300] * 30, sentences=4, seed=3)
    offsets = rows.columns["ids"].offsets
    written = without_stand_ins(rows.columns["ids"].values)
    after = np.zeros(len(written), np.bool_)
    after[1:] = NEWLINES[written[:-1]] & (written[1:] % 3 == 1)
    after[offsets[:-1]] = False
    assert after.sum() > 500
    found = []
    for words, values in (
        (replace(WORDS, word_end=NEWLINES), written),
        (replace(WORDS, word_start=IDS % 3 != 1), written + after),
    ):
        sample = replace(rows, columns={**rows.columns, "ids": Ragged(values, offsets)})
        found.append(corrupt(wide(case.partition(" ")[0], words, "x", **CASES[case]), sample))
    for name in found[0].columns:
        first, second = (one.columns[name] for one in found)
        assert first.offsets.tolist() == second.offsets.tolist()
        change = without_stand_ins if name.endswith("ids") else np.asarray
        assert change(first.values).tolist() == change(second.values).tolist(), name
