"""Refusals of objectives: options, vocabularies, rows, and examples that contradict themselves."""

from dataclasses import replace

import numpy as np
import pytest

from clozeline.errors import ConfigurationError
from clozeline.pipeline.corrupt.objectives import build_objective
from clozeline.pipeline.registries import OBJECTIVES
from clozeline.pipeline.rows import Example
from tests.pipeline.corrupt.objectives.runner import VARIETIES, example_of, reasons, wide
from tests.pipeline.corruption_cases import EOS, MASK, SEP, WORDS, one_sample, samples, vocabulary

TWO_SIDES = {"architecture": "encoder_decoder"}
SPANS = {"name": "span_corruption", "input_length": 100}
INFILLING = {"name": "text_infilling"}

# The options of each objective that are wrong, and what the message says of them.
OPTIONS = {
    "causal_lm": [
        ({"add_bos": True}, "add_bos needs grouping: document"),
        (
            {"add_bos": True, "grouping": "document", "architecture": "encoder"},
            "is not for encoders",
        ),
        ({"cross_documents": False, "grouping": "document"}, "is for packed rows"),
    ],
    "composition": [
        ({"steps": [INFILLING, {"name": "sentence_reordering"}]}, "are in the wrong order"),
        ({"steps": [{"name": "masked_lm"}]}, "not a denoising objective"),
        ({"steps": [INFILLING, INFILLING]}, "name each step once"),
        ({"steps": [{**INFILLING, "max_length": 64}]}, "set max_length in the composition"),
    ],
    "corrective_lm": [({"cross_documents": False}, "a crop may span several")],
    "masked_encoder_decoder": [
        ({"cross_documents": False}, "is for packed rows"),
    ],
    "masked_lm": [
        ({"mask_share": 0.8, "random_share": 0.3}, "exceeds 1"),
        ({"mask_rate": 0}, "mask_rate 0"),
        ({"mask_rate": 0.12345678}, "six decimals"),
        ({"mask_rate": {"uniform": [0.5, 0.5]}}, "the lower one first"),
        ({"mask_rate": {"uniform": [0.0, 1.0]}, "max_labels": 20}, "max_labels cannot be combined"),
        ({"grouping": "document", "cross_documents": False}, "packed"),
    ],
    "mass": [
        ({"mask_rate": 0}, "no fragment"),
        ({"edge_share": 0.6}, "at most 0.5"),
    ],
    "mixture": [
        ({"parts": [SPANS, SPANS]}, "give each part another `label`"),
        ({"parts": [SPANS, {"name": "masked_lm"}]}, "parts must share one architecture"),
        (
            {"parts": [SPANS, {**SPANS, "label": "b", "grouping": "document"}]},
            "parts must share one grouping",
        ),
        (
            {"parts": [SPANS, {**SPANS, "label": "b", "decoder_start": "bos"}]},
            "parts must share one batch layout",
        ),
        (
            {"parts": [{"name": "masked_lm"}, {"name": "whole_word_masking", "separator": "none"}]},
            "parts must share one grouping",
        ),
        (
            {"parts": [{"name": "masked_lm"}, {"name": "span_boundary", "separator": "sep"}]},
            "parts must share one heads",
        ),
        ({"parts": [{"name": "mixture"}]}, "cannot be a part of a mixture"),
        ({"parts": [{"name": "masked_lm", "cross_documents": False}]}, "cross_documents"),
    ],
    "next_sentence_prediction": [
        ({"mask_rate": 0}, "mask_rate 0"),
    ],
    "prefix_lm": [
        ({"suffix_rate": 0}, "leaves no target"),
        ({"mode": "S", "max_length": 3}, "too small for two tokens"),
        ({"cross_documents": False, **TWO_SIDES}, "of a decoder"),
    ],
    "sentence_reordering": [({"noise_density": 0.0}, "noise_density 0 changes nothing")],
    "span_boundary": [
        ({"geometric_p": 0}, "geometric_p 0"),
        ({"min_span_length": 11}, "min_span_length is above max_span_length"),
    ],
    "span_corruption": [
        ({"noise_density": 0.0}, "above 0 and below 1"),
        ({"noise_density": 1.0}, "above 0 and below 1"),
        (
            {"noise_density": 0.5, "target_length": 513, "final_sentinel": True},
            "needs 129 sentinels",
        ),
        ({"input_length": 3, "mode": "X"}, "too small"),
        ({"cross_documents": False, "grouping": "document"}, "packed rows"),
        (
            {"cross_documents": False, "architecture": "decoder"},
            "packed rows",
        ),
    ],
    "text_infilling": [
        ({"poisson_lambda": 3.0001}, "three decimals"),
    ],
    "text_to_text": [
        ({"tasks": [{"template": "no source"}]}, "expected {source} once"),
        ({"tasks": [{"source": "a"}, {}]}, "each needs another source"),
        ({"tasks": [{"source": "a"}, {"source": "a"}]}, "each needs another source"),
        (
            {
                "tasks": [
                    {"source": "a", "examples": 5},
                    {"source": "b"},
                ]
            },
            "to all tasks or to none",
        ),
        ({"tasks": [{"weight": 2.0}]}, "needs `examples`"),
        ({"tasks": [{"template": "say {source}"}]}, "needs a tokenizer"),
    ],
    "translation_lm": [({"max_length": 4}, "max_length")],
}


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [(name, options, message) for name, cases in OPTIONS.items() for options, message in cases],
)
def test_wrong_options(name, options, message):
    with pytest.raises(ConfigurationError, match=message):
        build_objective({"name": name, **options}, WORDS)


@pytest.mark.parametrize(
    ("words", "options", "message"),
    [
        (
            replace(vocabulary(), modes={}),
            {"name": "prefix_lm", "mode": "S"},
            "needs the mode token",
        ),
        (
            vocabulary(sentinels=100),
            {"name": "mixture"},
            r"'X1'.*needs 128 sentinels, the tokenizer has 100",
        ),
        (
            vocabulary(sentinels=100),
            {"name": "span_corruption", "noise_density": 0.5, "target_length": 512},
            r"766 tokens has 128 spans and needs 128 sentinels.* has 100",
        ),
        *(
            (
                replace(WORDS, sentinels=(7, second, *WORDS.sentinels[2:])),
                {"name": "span_corruption"},
                "distinct special ids",
            )
            for second in (7, 500)
        ),
    ],
)
def test_a_vocabulary_that_lacks_what_is_needed(words, options, message):
    with pytest.raises(ConfigurationError, match=message):
        build_objective(options, words)


@pytest.mark.parametrize(
    ("name", "options", "ids", "reason"),
    [
        ("document_rotation", {}, [300], "too_short"),
        ("masked_encoder_decoder", {}, [SEP, SEP], "no_maskable"),
        ("masked_lm", {}, [SEP, SEP], "no_maskable"),
        ("masked_lm", {"attention": "prefix"}, [200], "too_short"),
        ("masked_lm", {"min_length": 5}, [200, 201], "too_short"),
        ("prefix_lm", {}, [300], "too_short"),
        ("sentence_reordering", {}, [300, 301], "one_sentence"),
    ],
)
def test_rows_of_one_sentence_that_are_skipped(name, options, ids, reason):
    assert reasons(wide(name, **options), one_sample(ids, [0])) == [reason]


X, Y = WORDS.sentinels[:2]
CROP = {
    "input_ids": [1, 3, 300, 301, 2],
    "label_positions": [1],
    "label_ids": [302],
}
PAIR = {
    "input_ids": [4, 300, 301, 5],
    "target_ids": [300, 301, 5],
}
SENTENCES = {**PAIR, "sentence_starts": [0, 1]}
INFILLED = {"target_ids": [300, 301, 302, 303, 5]}
LABELS = {
    "input_ids": [1, 3, 3, 300, 301, 3, 2],
    "label_positions": [1, 2, 5],
    "label_ids": [302, 303, 304],
}
SENTINELS = r"span_corruption.*(sentinels|</s>|span)"
FITS = "contradict|do not fit"

# Features of examples that no row has, and what the message says of them.
EXAMPLES = [
    (
        {"name": "corrective_lm"},
        [
            (
                {**CROP, "crop_start": [start], "crop_length": [length]},
                f"a crop of {length} tokens from {start} does not fit 3",
            )
            for start, length in ((0, 0), (0, 4), (2, 2))
        ],
    ),
    (
        {"name": "masked_lm"},
        [
            (
                {"input_ids": [1, 3, 3, 302, 2], "label_positions": places, "label_ids": labels},
                f"'masked_lm'.*{message}",
            )
            for places, labels, message in (
                ([1, 5], [300, 301], "must be ascending positions"),
                ([2, 2], [300, 301], "must be ascending positions"),
                ([2, 1], [300, 301], "must be ascending positions"),
                ([1], [300, 301], "got 1 and 2"),
                ([], [], "at least one"),
            )
        ],
    ),
    (
        {"name": "masked_lm", "predict_from": "previous"},
        [
            (
                {"input_ids": [3, 300, 2], "label_positions": [0], "label_ids": [1]},
                "'masked_lm': a label at position 0 has no previous position",
            ),
        ],
    ),
    (
        {"name": "mass"},
        [
            (
                {
                    "input_ids": [1, 300, MASK, MASK, 2],
                    "target_ids": [301, 302],
                    "target_start": [start],
                },
                "does not fit between",
            )
            for start in (0, 3, 4)
        ],
    ),
    (
        {"name": "permuted_lm"},
        [
            ({"input_ids": [1, 300, 301, 302, 2], "prediction_order": order}, "order")
            for order in ([1, 1], [0], [4], [9])
        ],
    ),
    (
        {"name": "prefix_lm"},
        [
            (
                {
                    "input_ids": [300, EOS],
                    "prefix_length": [2],
                },
                "prefix_lm",
            )
        ],
    ),
    (
        {"name": "prefix_lm", **TWO_SIDES},
        [
            ({"input_ids": [300], "target_ids": [301, EOS]}, "prefix_lm"),
            ({"input_ids": [300, EOS], "target_ids": []}, "prefix_lm"),
        ],
    ),
    (
        {"name": "sentence_comparison"},
        [
            (
                {
                    "input_ids": [1, 200, 200],
                    "input_ids_b": [1, 201, 2],
                },
                r"expected \[CLS\]",
            ),
        ],
    ),
    (
        {"name": "sentence_comparison", "mode": "same"},
        [
            (
                {
                    "input_ids": [1, 200, 2],
                    "input_ids_b": [1, 201, 2],
                },
                "differ",
            ),
        ],
    ),
    (
        {"name": "sentence_reordering"},
        [
            ({**SENTENCES, "sentence_order": [1, 1]}, "not a permutation"),
            ({**SENTENCES, "sentence_order": [1, 0]}, "contradict"),
        ],
    ),
    (
        {"name": "span_boundary"},
        [
            ({**LABELS, "span_starts": starts, "span_lengths": lengths}, "do not cover the labels")
            for starts, lengths in (([1], [2]), ([1, 4], [2, 1]), ([1, 3], [2]), ([], []))
        ],
    ),
    (
        {"name": "span_corruption"},
        [
            ({"input_ids": inputs, "target_ids": target}, SENTINELS)
            for inputs, target in (
                ([300, X, 302, EOS], [X, 301, Y, 305, EOS]),
                ([300, X, 302, Y, EOS], [X, 301, EOS]),
                ([300, Y, 302, X, EOS], [X, 301, Y, 305, EOS]),
                ([300, X, 302, EOS], [305, X, 301, EOS]),
                ([300, X, 302, EOS], [X, EOS]),
                ([300, X, 302, EOS], [X, 301]),
                ([300, X, 302], [X, 301, EOS]),
                ([300, X, 302, EOS], []),
            )
        ],
    ),
    (
        {"name": "text_infilling"},
        [
            (
                {
                    **INFILLED,
                    "input_ids": [4, 300, MASK, 303, 5],
                    "span_starts": [1],
                    "span_lengths": [1],
                },
                FITS,
            ),
            (
                {
                    **INFILLED,
                    "input_ids": [4, 300, MASK, 303, 5],
                    "span_starts": [9],
                    "span_lengths": [2],
                },
                FITS,
            ),
            (
                {
                    **INFILLED,
                    "input_ids": [4, 300, MASK, 309, 5],
                    "span_starts": [1],
                    "span_lengths": [2],
                },
                FITS,
            ),
        ],
    ),
    ({"name": "token_reordering"}, [({**PAIR, "token_order": [0, 0]}, "not a permutation")]),
]


@pytest.mark.parametrize(
    ("options", "features", "message"),
    [
        pytest.param(options, features, message, id=options["name"])
        for options, cases in EXAMPLES
        for features, message in cases
    ],
)
def test_an_example_that_contradicts_itself(options, features, message):
    with pytest.raises(ValueError, match=message):
        wide(**options).restore(example_of(**features))


# Examples that nothing wrote
# ------------------------------------------------------------------------------------------

CASES = [
    (name, options) for name in OBJECTIVES.available() for options in ({}, *VARIETIES.get(name, ()))
]


def hostile(example):
    """Yield examples with a column that is lost, shorter, longer, in another order or out of
    range."""
    for name, column in example.columns.items():
        limit = np.iinfo(column.dtype).max if column.dtype.kind == "u" else 1e9
        yield Example(
            example.fixed, {other: kept for other, kept in example.columns.items() if other != name}
        )
        longer = np.append(column, column[-1:])
        large = np.full(len(column) + 1, limit, column.dtype)
        for wrong in (
            column[:0],
            column[:-1],
            column[1:],
            column[::-1],
            longer,
            np.zeros_like(column),
            large,
        ):
            yield Example(example.fixed, {**example.columns, name: wrong})

        for place in range(0, len(column), 7):
            for value in (0, 2, len(column), 300, limit):
                one = column.copy()
                one[place] = min(limit, value)
                yield Example(example.fixed, {**example.columns, name: one})

    yield Example({}, example.columns)


@pytest.mark.parametrize(("name", "options"), CASES)
def test_a_wrong_example_is_refused_as_promised(name, options):
    """ValueError that begins with the objective's label, or a flat array of ids."""
    objective = wide(name, vocabulary(1000), **options)
    refused = []
    tried = 0
    rows = samples([5, 17, 40, 64] * 2, objective.vocabulary, seed=3, sentences=4)
    examples, skips = objective.corrupt(
        rows,
        np.arange(len(rows), dtype=np.uint16) % 2,
        seed=5,
    )

    for example in examples.take(np.flatnonzero(skips == 0)):
        for wrong in hostile(example):
            tried += 1

            try:
                found = objective.restore(wrong)
            except ValueError as error:
                refused.append(str(error))
            else:
                assert (found.ndim, found.dtype.kind) in ((1, "u"), (1, "i"))

    assert tried > 200
    assert [message for message in refused if not message.startswith("objective '")] == []
