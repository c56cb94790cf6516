"""Causal LM and prefix LM: rows as they are, cuts against a plain loop, both forms of a row."""

import numpy as np
import pytest

from clozeline.pipeline.corrupt.objectives import build_objective
from clozeline.seeding import LABELS, random_bits
from tests.pipeline.corrupt.objectives.runner import corrupt, keyed, variants_of, wide
from tests.pipeline.corruption_cases import EOS, WORDS, samples


@pytest.mark.parametrize("grouping", ["packed", "document"])
def test_bidirectional_rows_store_the_label_that_each_token_sees(grouping):
    objective = wide("causal_lm", grouping=grouping, attention="bidirectional")
    for example in corrupt(objective, samples([50, 9, 2])):
        row = example["input_ids"].tolist()
        length = len(row)
        # each of 0 .. L - 2 predicts the token after it, and the prefix hides none of them
        wanted = [(index, row[index + 1]) for index in range(length - 1)]
        labels = zip(
            example["label_positions"].tolist(), example["label_ids"].tolist(), strict=True
        )
        assert [*labels] == wanted
        assert example["prefix_length"].tolist() == [length]

    assert objective.caution
    assert not wide("causal_lm").caution


@pytest.mark.parametrize("grouping", ["packed", "document"])
def test_an_encoder_reads_the_rows_of_masked_lm_from_left_to_right(grouping):
    between = {"separator": "sep"} if grouping == "packed" else {}
    causal = wide("causal_lm", architecture="encoder", grouping=grouping, **between)
    encoder = wide("masked_lm", grouping=grouping)

    assert causal.grouping == encoder.grouping

    rows = samples([50, 9, 1])
    examples = corrupt(causal, rows)

    assert [example["input_ids"].tolist() for example in examples] == [
        encoder.add_special_tokens(row["ids"]).tolist() for row in rows
    ]
    assert [example["attention"].tolist() for example in examples] == [[1], [1], [1]]
    assert (causal.heads, causal.form.predict_from) == (("masked_lm",), "previous")
    assert [feature.name for feature in causal.features] == ["input_ids", "attention"]


@pytest.mark.parametrize("name", ["causal_lm", "masked_lm"])
def test_rows_of_one_document_say_their_language(name):
    encoder = {"architecture": "encoder"} if name == "causal_lm" else {}
    rows = samples([50, 9, 1])
    rows.fixed["language"][:] = [2, 0, 7]
    examples = corrupt(wide(name, grouping="document", languages=True, **encoder), rows)
    assert [example["languages"].tolist() for example in examples] == [[2], [0], [7]]


# Prefix LM
# --------------------------------------------------------------------------------------------------

TWO_SIDES = {"architecture": "encoder_decoder"}


def slow(ids, key, suffix):
    """Content tokens before the cut; `suffix` in percent."""
    n = len(ids)
    most = len(ids) - 1
    if suffix is not None:
        most = min(most, max(1, 2 * max(1, (n * suffix + 50) // 100) - 1))
    word = int(random_bits(np.array([key]), LABELS, 1)[0, 0]) >> 32
    return n - most + ((word * most) >> 32)


@pytest.mark.parametrize("suffix", [None, 25])
def test_cuts_equal_a_plain_loop(suffix):
    options = {"suffix_rate": suffix / 100} if suffix else {}
    decoder = wide("prefix_lm", **options)
    sides = wide("prefix_lm", **options, **TWO_SIDES)
    rows = samples([2, 3, 4, 17, 64, 300, 568] * 30)
    for (key, sample, whole), parts in zip(
        keyed(decoder, rows),
        corrupt(sides, rows),
        strict=True,
    ):
        ids = sample["ids"].tolist()
        cut = slow(ids, key, suffix)

        assert 1 <= cut <= len(ids) - 1
        assert whole["input_ids"].tolist() == [*ids, EOS]
        assert whole["prefix_length"].tolist() == [cut]
        assert parts["input_ids"].tolist() == [*ids[:cut], EOS]
        assert parts["target_ids"].tolist() == [*ids[cut:], EOS]


@pytest.mark.parametrize(
    ("options", "longest"),
    [
        ({}, 511),
        ({"mode": "S"}, 510),
        (TWO_SIDES, 512),
        ({**TWO_SIDES, "mode": "S"}, 511),
        ({**TWO_SIDES, "mode": "S", "suffix_rate": 0.25}, 511),
        ({**TWO_SIDES, "suffix_rate": 0.75}, 512),
    ],
)
def test_both_sides_of_a_full_row_fit_whatever_the_cut(options, longest):
    objective = build_objective({"name": "prefix_lm", **options}, WORDS)
    assert objective.content_length == longest
    examples = corrupt(objective, samples([longest] * 2000))
    for name in set(examples.columns) - {"prefix_length"}:
        assert int(examples.columns[name].lengths.max()) <= 512, name


def test_mode_token_stands_in_front_and_belongs_to_the_prefix():
    mode = WORDS.modes["S"]
    text = list(range(200, 208))

    for options in ({}, TWO_SIDES):
        (plain,) = variants_of(wide("prefix_lm", **options), text, count=1)
        (moded,) = variants_of(wide("prefix_lm", mode="S", **options), text, count=1)

        assert moded["input_ids"].tolist() == [mode, *plain["input_ids"].tolist()]

        if options:
            assert moded["target_ids"].tolist() == plain["target_ids"].tolist()
        else:
            assert moded["prefix_length"].tolist() == [plain["prefix_length"][0] + 1]
