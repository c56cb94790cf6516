"""Masked LM, of encoders and encoder-decoders: the kernel against plain loops, roles, rates, modes
of attention."""

from dataclasses import replace
from fractions import Fraction
from math import ceil, floor

import numpy as np
import pytest
import torch

from clozeline.columns import Feature, Role
from clozeline.errors import IntegrityError
from clozeline.model.layers.masks import mode_mask
from clozeline.pipeline.corrupt.objectives import build_objective
from clozeline.pipeline.corrupt.objectives._masked_rows import ATTENTION_FEATURES, attention_columns
from clozeline.pipeline.corrupt.objectives.masked_lm import MaskedLM
from clozeline.pipeline.rows import Ragged, RowBatch
from clozeline.pipeline.vocabulary import Corpus
from clozeline.seeding import LABELS, RATES, kernel_keys, random_bits
from tests.pipeline.corrupt.objectives.runner import (
    corrupt,
    keyed,
    masked,
    variants_of,
    wide,
)
from tests.pipeline.corruption_cases import SEP, WORDS, samples
from tests.pipeline.pair_cases import slow_masks
from tests.refusals import refused

LEVEL = Feature("level", "uint8", Role("label", "label_positions"), "a level of each label")


class Leveled(MaskedLM):
    """Has one more column, and returns it with `mask_rate` below 1."""

    base_features = (*MaskedLM.base_features, LEVEL)

    def extra_features(self, samples, keys, columns):
        extra = dict(super().extra_features(samples, keys, columns))
        if self.options.mask_rate != 1:
            labels = columns["label_ids"]
            extra["level"] = Ragged(np.ones(len(labels.values), np.uint8), labels.offsets)
        return extra


OWN = {"name": f"{__name__}:Leveled", "max_length": 64}


@pytest.mark.parametrize("more", [{}, {"mask_rate": {"uniform": [0, 1]}}])
def test_a_subclass_has_its_columns_and_those_of_the_options(more):
    found = corrupt(build_objective({**OWN, **more}, WORDS), samples([20, 30]))
    plain = build_objective({**OWN, **more, "name": "masked_lm"}, WORDS).features
    assert {feature.name for feature in plain} | {"level"} == found.columns.keys()


@pytest.mark.parametrize(
    "entry",
    [{**OWN, "mask_rate": 1.0}, {"name": "mixture", "parts": [{**OWN, "mask_rate": 1.0}]}],
)
def test_a_declared_column_that_is_not_returned_is_refused(entry):
    rows = samples([20, 30])
    rows = RowBatch({**rows.fixed, "part": np.zeros(2, np.uint8)}, rows.columns)
    with pytest.raises(IntegrityError, match="column level"):
        corrupt(build_objective(entry, WORDS), rows)


COUNTED = replace(WORDS, corpus=Corpus((np.arange(WORDS.size) * 7919 % 1009).astype(np.uint64)))


@pytest.mark.parametrize("specials", [0.0, 0.1])
@pytest.mark.parametrize(
    ("name", "rate", "exponent"),
    [
        ("masked_lm", 0.15, 0),
        ("masked_lm", 1.0, 0),
        ("masked_lm", 0.15, 0.5),
        ("masked_encoder_decoder", 0.15, 0),
    ],
)
def test_equals_a_plain_loop(name, rate, exponent, specials):
    objective = wide(
        name, COUNTED, mask_rate=rate, **({"frequency_exponent": exponent} if exponent else {})
    )
    rows = samples([1 + (37 * row) % 90 for row in range(200)] + [510] * 5, specials=specials)
    for key, sample, example in keyed(objective, rows, variant=4, seed=6):
        row = [1, *sample["ids"].tolist(), 2]
        assert masked(example) == slow_masks(row, key, round(rate * 1_000_000), COUNTED, exponent)


def test_draws_by_frequency_need_the_counts_of_tokens():
    with refused(r"frequency_exponent needs .*token_counts\.arrow"):
        corrupt(wide("masked_lm", frequency_exponent=0.5), samples([10]))


def test_most_labels():
    assert corrupt(wide("masked_lm", max_labels=20), samples([10, 510])).columns[
        "label_ids"
    ].lengths.tolist() == [
        2,
        20,
    ]


# Uniform rates
# --------------------------------------------------------------------------------------------------


def slow_number(uid, variant, m, lowest, highest):
    """k of one row, from its own word shifted by the van der Corput sequence."""
    key = kernel_keys(
        1,
        "masked_lm",
        np.array([uid], np.uint64),
        np.zeros(1, np.uint16),
    )
    word = int(random_bits(key, RATES, 1)[0, 0]) >> 32
    word = (word + (int(f"{variant:016b}"[::-1], 2) << 16)) % 2**32
    first = max(1, ceil(lowest * m))
    last = max(1, ceil(lowest * m), floor(highest * m))
    return first + (word * (last - first + 1) >> 32)


@pytest.mark.parametrize(("lowest", "highest"), [("0", "1"), ("0.2", "0.6"), ("0.15", "0.150001")])
def test_uniform_rates_equal_a_plain_loop(lowest, highest):
    objective = wide("masked_lm", mask_rate={"uniform": [float(lowest), float(highest)]})
    rows = samples([1, 2, 3, 10, 64, 510] * 30, specials=0.1, seed=5)

    for variant in (0, 1, 5, 65_535):
        for _, sample, example in keyed(objective, rows, variant, 1):
            m = int((sample["ids"] != SEP).sum())
            k = slow_number(
                int(sample.fixed["uid"]), variant, m, Fraction(lowest), Fraction(highest)
            )

            assert len(example["label_positions"]) == k
            assert example["label_weight"].tolist() == [np.float32(m / k)]
            assert example["label_count"].tolist() == [m]


# Modes of attention
# --------------------------------------------------------------------------------------------------

READS = {
    "bidirectional": lambda i, j, prefix: True,
    "left_to_right": lambda i, j, prefix: j <= i,
    "right_to_left": lambda i, j, prefix: j >= i,
    "prefix": lambda i, j, prefix: j <= i or j < prefix,
}


def test_the_codes_mean_to_a_model_what_their_names_say():
    for name, reads in READS.items():
        columns = attention_columns(name, np.array([2, 4]))

        assert list(columns) == [feature.name for feature in ATTENTION_FEATURES]

        tensors = [torch.from_numpy(column.values.astype(np.int64)) for column in columns.values()]
        mask = mode_mask(*tensors, 6).expand(2, 1, 6, 6)

        for row, prefix in enumerate((2, 4)):
            assert mask[row, 0].tolist() == [
                [reads(i, j, prefix) for j in range(6)] for i in range(6)
            ]


@pytest.mark.parametrize("attention", READS)
def test_labels_do_not_depend_on_attention(attention):
    rows = samples([2, 3, 40, 510], specials=0.05, seed=8)
    first, second = (
        corrupt(wide("masked_lm", **options), rows) for options in ({}, {"attention": attention})
    )
    for name, column in first.columns.items():
        assert (column.values == second.columns[name].values).all()
    modes, prefixes = (second.columns.get(name) for name in ("attention", "prefix_length"))

    assert (modes is None) == (attention == "bidirectional")

    if modes is not None:
        assert set(modes.values.tolist()) == {[*READS].index(attention)}
        assert prefixes.values.any() == (attention == "prefix")


def test_prefixes_end_anywhere_with_content_on_both_sides():
    examples = variants_of(wide("masked_lm", attention="prefix"), list(range(200, 211)), count=400)
    cuts = [int(example["prefix_length"][0]) for example in examples]

    assert set(cuts) == set(range(2, 12)), (
        "from [CLS] and one token to all but the last token and [SEP]"
    )

    key = kernel_keys(
        1,
        "masked_lm",
        np.array([12345], np.uint64),
        np.zeros(1, np.uint16),
    )

    assert cuts[0] == 2 + (((int(random_bits(key, LABELS, 1)[0, 0]) >> 32) * 10) >> 32)


# Encoder-decoders
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", ["bos", "pad"])
def test_the_decoder_opens_with_the_token_asked_for(start):
    objective = build_objective({"name": "masked_encoder_decoder", "decoder_start": start}, WORDS)
    assert objective.form.decoder_start == WORDS.specials[start]
