"""Worked examples of the objectives: some variant of a text has these features, and is undone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pytest

from clozeline.pipeline.corrupt.objectives import build_objective
from tests.pipeline.corrupt.objectives.runner import reachable, variants_of
from tests.pipeline.corruption_cases import EOS, MASK, WORDS, one_sample

X, Y, Z = WORDS.sentinels[:3]
IT, IS, RAINING, PERIOD = RAIN = [200, 201, 202, 203]
UMBRELLA = [204, 205, 206, 207, 208]
THE, KITTEN, CHASING, BALL = 200, 201, 203, 205
AN, AMERICAN, FOOTBALL, GAME, WAS, PLAYED = SPORT = list(range(201, 219, 3))
PUPPIES = list(range(300, 308))
HARD, WORK, LEADS, TO, SUCCESS, STOP, BRINGS, HAPPINESS = range(300, 308)
HARD_WORK, GOOD_END = [HARD, WORK, LEADS, TO, SUCCESS, STOP], [SUCCESS, BRINGS, HAPPINESS, STOP]
EIGHT = list(range(200, 208))
SPANS = {"input_length": 60, "noise_density": 0.25, "mean_noise_span_length": 1.0}


class Example(NamedTuple):
    """Features that one of `count` variants of a text has; `starts` are those of its sentences."""

    objective: str
    text: Sequence[int]
    wanted: Mapping[str, Sequence[int]]
    options: Mapping[str, Any] = {}
    starts: Sequence[int] = (0,)
    count: int = 4000


EXAMPLES = (
    Example("composition", HARD_WORK + GOOD_END,
            {"input_ids": [4, SUCCESS, BRINGS, MASK, WORK, LEADS, TO, SUCCESS, STOP, 5],
             "sentence_reordering_sentence_order": [1, 0]}, starts=(0, 6), count=30_000),
    Example("denoising_autoencoding", PUPPIES,
            {"input_ids": [4, 300, 301, 302, MASK, 304, MASK, 306, 307, 5], "noise_positions": [3, 5]},
            {"mask_rate": 0.25}),
    Example("document_rotation", HARD_WORK + GOOD_END,
            {"input_ids": [4, LEADS, TO, SUCCESS, STOP, *GOOD_END, HARD, WORK, 5], "rotation": [2],
             "target_ids": [*HARD_WORK, *GOOD_END, 5]}, starts=(0, 6), count=200),
    Example("masked_encoder_decoder", EIGHT,
            {"input_ids": [1, 200, 201, 202, MASK, 204, MASK, 206, 207, 2], "label_positions": [4, 6],
             "label_ids": [203, 205]}, {"mask_rate": 0.25}),
    # "It" is a label and kept.
    Example("masked_lm", RAIN,
            {"input_ids": [1, IT, IS, MASK, PERIOD, 2], "label_positions": [1, 3], "label_ids": [IT, RAINING]},
            {"mask_rate": 0.5}),
    Example("mass", [THE, KITTEN, 202, CHASING, 204, BALL],
            {"input_ids": [1, THE, KITTEN, MASK, MASK, MASK, BALL, 2], "target_ids": [202, CHASING, 204],
             "target_start": [3]}),
    Example("permuted_lm", RAIN, {"input_ids": [1, *RAIN, 2], "prediction_order": [3, 1]}, {"prediction_rate": 0.5}),
    Example("prefix_lm", EIGHT, {"input_ids": [*EIGHT, EOS], "prefix_length": [4]}),
    Example("prefix_lm", EIGHT, {"input_ids": [*EIGHT[:4], EOS], "target_ids": [*EIGHT[4:], EOS]},
            {"architecture": "encoder_decoder"}),
    Example("sentence_comparison", RAIN + UMBRELLA,
            {"input_ids": [1, *RAIN, 2], "input_ids_b": [1, *UMBRELLA, 2]}, starts=(0, 4), count=3),
    Example("sentence_reordering", HARD_WORK + GOOD_END,
            {"input_ids": [4, *GOOD_END, *HARD_WORK, 5], "sentence_order": [1, 0]}, starts=(0, 6), count=10),
    Example("span_boundary", SPORT,
            {"input_ids": [1, AN, MASK, MASK, MASK, WAS, PLAYED, 2], "label_positions": [2, 3, 4],
             "label_ids": [AMERICAN, FOOTBALL, GAME], "span_starts": [2], "span_lengths": [3]}, {"mask_rate": 0.5}),
    *(Example("span_corruption", PUPPIES,
              {"input_ids": [300, 301, 302, X, 304, Y, 306, 307, EOS], "target_ids": [X, 303, Y, 305, *closing, EOS]},
              {**SPANS, "final_sentinel": final}) for final, closing in ((False, []), (True, [Z]))),
    Example("text_infilling", PUPPIES,
            {"input_ids": [4, 300, MASK, 301, 302, MASK, 306, 307, 5], "span_starts": [1, 3], "span_lengths": [0, 3]},
            {"noise_density": 0.375}, count=60_000),
    Example("token_deletion", PUPPIES,
            {"input_ids": [4, 300, 301, 302, 304, 306, 307, 5], "kept_positions": [0, 1, 2, 4, 6, 7]},
            {"noise_density": 0.25}),
    Example("token_reordering", EIGHT[:7],
            {"input_ids": [4, 206, 201, 204, 203, 200, 202, 205, 5], "target_ids": [*EIGHT[:7], 5],
             "token_order": [6, 1, 4, 3, 0, 2, 5]}, count=40_000),
    # un ##believ ##able: a word of three tokens.
    Example("whole_word_masking", [201, 210, 211, 212, 204, 207],
            {"input_ids": [1, 201, MASK, MASK, MASK, 204, 207, 2], "label_positions": [2, 3, 4],
             "label_ids": [210, 211, 212]}, {"mask_rate": 0.5}),
)  # fmt: skip


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.objective)
def test_some_variant_is_the_worked_example(example: Example) -> None:
    objective = build_objective({"name": example.objective, **example.options}, WORDS)
    examples = variants_of(objective, example.text, example.starts, example.count)
    found = next(one for one in examples if reachable([one], **example.wanted))
    original = objective.original(one_sample(example.text, example.starts).row(0), found)
    assert objective.uncorrupt(found).tolist() == original.tolist()
