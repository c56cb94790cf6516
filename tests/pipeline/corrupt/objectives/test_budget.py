"""Budgets: no row has more labels than its rate asks for, whatever its words are, and on average as
many.

The right number is counted here from the rule: max(1, rate x tokens rounded half up).
"""

import dataclasses
from fractions import Fraction
from math import floor

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from clozeline.pipeline.execution.arguments import describe_algorithms
from clozeline.pipeline.registries import OBJECTIVES
from clozeline.pipeline.rows import Ragged, RowBatch
from clozeline.registry import component_types
from tests.pipeline.corrupt.objectives.runner import corrupt, wide
from tests.pipeline.corruption_cases import FIRST_CONTENT, MASK, WORDS, fixed_columns

SIZES = {
    "label_positions": lambda columns: columns["label_positions"].lengths,
    "prediction_order": lambda columns: columns["prediction_order"].lengths,
    "noise_positions": lambda columns: columns["noise_positions"].lengths,
    "kept_positions": lambda columns: (
        columns["target_ids"].lengths - 1 - columns["kept_positions"].lengths
    ),
    "target_start": lambda columns: columns["target_ids"].lengths,
    "span_lengths": lambda columns: np.array(
        [int(sizes.sum()) for sizes in lists(columns["span_lengths"])]
    ),
    "text_infilling_span_lengths": lambda columns: np.array(
        [int(sizes.sum()) for sizes in lists(columns["text_infilling_span_lengths"])]
    ),
    "target_ids": lambda columns: contents(columns["target_ids"]),
}
"""Labels, or tokens that were removed, of each row, by the first of these columns that its examples
have."""

RATES = ("mask_rate", "prediction_rate", "noise_density")
UNITS = ("unit", "role_unit")

OPEN = 3 * (FIRST_CONTENT // 3 + 1)
INSIDE = 3 * (FIRST_CONTENT // 3 + 1) + 1
"""A token that opens a word, and one that does not."""


CONTENT = ~WORDS.special
CONTENT[MASK] = True


def contents(column):
    """The tokens of each row that are no frame and no sentinel."""
    return np.array([int(CONTENT[row].sum()) for row in lists(column)])


def lists(column):
    return [column[row] for row in range(len(column))]


def rate_of(options):
    return next(
        (name for name in RATES if name in {field.name for field in dataclasses.fields(options)}),
        None,
    )


def varieties():
    """Every objective that chooses a share of the tokens, but for those that move them.

    With each of its units.
    """
    for name in OBJECTIVES.available():
        options = OBJECTIVES.load_class(name).Options
        rate = rate_of(options)
        examples = wide(name).features
        if (
            rate is None
            or not any(feature.name in SIZES for feature in examples)
            or "reordering" in name
        ):
            continue

        yield name, rate, {}
        fields = {field.name: field for field in dataclasses.fields(options)}

        for unit in UNITS:
            for word in ("word", "span") if unit in fields else ():
                if word in str(fields[unit].type):
                    yield name, rate, {unit: word}

    words = {"parts": [{"name": "whole_word_masking"}, {"name": "masked_lm", "weight": 2}]}
    yield "mixture", "mask_rate", words
    yield "composition", "noise_density", {"steps": [{"name": "text_infilling", "unit": "word"}]}


def row_of(words):
    """Ids of a row whose words have these lengths."""
    return [token for length in words for token in [OPEN, *[INSIDE] * (length - 1)]]


def rows_of(rows):
    """Samples of rows whose words have the lengths given, two sentences each, with a second
    side."""
    ids = Ragged.from_lists([row_of(words) for words in rows], WORDS.id_dtype)
    starts = Ragged.from_lists(
        [
            [
                0,
                *([len(row) // 2] if len(row) > 1 else []),
            ]
            for row in lists(ids)
        ],
        np.uint16,
    )
    columns = {
        "ids": ids,
        "sentence_starts": starts,
        "document_starts": Ragged.from_lists([[0]] * len(rows), np.uint16),
        "partner_ids": ids,
        "target_ids": Ragged.from_lists([row_of([2, 1, 3])] * len(rows), WORDS.id_dtype),
        "target_language": Ragged.from_lists([[0]] * len(rows), np.uint8),
    }

    fixed = fixed_columns(np.arange(len(rows), dtype=np.uint64))
    fixed["part"] = (np.arange(len(rows)) % 2).astype(np.uint8)
    return RowBatch(fixed, columns)


def asked_for(objective, rate, examples):
    """The labels that each row may have, from its own tokens: in the input, or in the target where
    that is the text."""
    share = Fraction(
        str(getattr(objective.options, rate, None) or (0.3 if rate == "noise_density" else 0.15))
    )
    columns = examples.columns
    if set(columns) == {"input_ids", "target_ids"}:
        tokens = contents(columns["input_ids"]) + contents(columns["target_ids"])
    else:
        whole = "target_ids" in columns and "target_start" not in columns
        tokens = contents(columns["target_ids" if whole else "input_ids"])

    return tokens, np.array(
        [max(1, floor(share * int(count) + Fraction(1, 2))) for count in tokens]
    )


def chosen(examples):
    return next(size(examples.columns) for name, size in SIZES.items() if name in examples.columns)


prose = st.lists(
    st.sampled_from([1, 1, 1, 1, 1, 2, 2, 3, 4]),
    min_size=2,
    max_size=80,
)
one_giant = st.lists(st.integers(2, 500), min_size=1, max_size=1)
giants_between = st.lists(
    st.sampled_from([1, 1, 2, 3, 40, 120]),
    min_size=2,
    max_size=8,
)
sentences = st.lists(st.integers(5, 60), min_size=1, max_size=9)


@pytest.mark.parametrize(("name", "rate", "options"), list(varieties()))
@settings(max_examples=30)
@given(words=st.one_of(prose, one_giant, giants_between, sentences), seed=st.integers(0, 2**32 - 1))
@example(words=[500], seed=1)
@example(words=[1] * 10 + [300] + [1] * 10, seed=1)
@example(words=[10] * 10, seed=1)
def test_no_row_has_more_labels_than_asked_for(name, rate, options, words, seed):
    objective = wide(name, WORDS, **options)
    examples = corrupt(objective, rows_of([words] * 8), seed=seed)
    _, most = asked_for(objective, rate, examples)
    assert (chosen(examples) <= most).all(), (chosen(examples).tolist(), most.tolist())
    assert (chosen(examples) > 0).all()


def test_the_versions_of_a_mixture_name_its_parts():
    """A part that gives other bytes is another mixture."""
    for name, options in (("mixture", "parts"), ("composition", "steps")):
        part = {"name": "text_infilling"}
        chosen = OBJECTIVES.resolve({"name": name, options: [part]})
        versions = describe_algorithms(component_types(chosen))["versions"]
        assert {name, "text_infilling"} <= versions.keys()
