"""Promises of every objective, run over every file of the folder: a new file is tested the moment
it exists."""

import json
from contextlib import suppress
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clozeline.errors import ConfigurationError
from clozeline.pipeline.corrupt.objectives import Skip, build_objective
from clozeline.pipeline.registries import OBJECTIVES
from clozeline.pipeline.rows import Ragged, RowBatch
from clozeline.pipeline.vocabulary import Corpus
from clozeline.tools.start.contracts.objectives import (
    ObjectiveCase,
    check_batches,
    check_draws,
    check_features,
    check_uncorrupt,
    find_changed,
    prepare,
)
from tests.contracts import contract
from tests.keys.objective_cases import ALWAYS
from tests.pipeline.corrupt.objectives.golden import GOLDEN, golden
from tests.pipeline.corrupt.objectives.runner import (
    VARIETIES,
    corrupt,
    lengths_of,
    tolerates_specials,
    wide,
)
from tests.pipeline.corruption_cases import MASK, SEP, WORDS, samples, vocabulary
from tests.refusals import refused

NAMES = OBJECTIVES.available()
LENGTHS = (0, 1, 2, 3, 5, 17, 64, 300, 568)

each = contract(OBJECTIVES)


def case_of(name, rows, words=WORDS, **options):
    """Rows of tests, which also have lengths that no grouping gives."""
    objective = wide(name, words, **options)
    return ObjectiveCase({"name": name, **lengths_of(name), **options}, objective, rows)


@each
def test_no_example_is_longer_than_it_says(name):
    """So a set that is corrupted in the stream tells the longest row that it can have."""
    plain = {"name": name, **ALWAYS.get(name, {})}
    cases = [prepare(plain)]
    for change in ({"architecture": "decoder"}, {"noise_density": 0.7}):
        with suppress(ConfigurationError):  # the objective has no such option
            cases.append(prepare(plain | change))

    for case in cases:
        examples = case.corrupt()[0].columns
        ids = [feature.name for feature in case.objective.features if feature.dtype == "ids"]
        content = int(case.rows.columns["ids"].lengths.max())
        longest = max(int(examples[key].lengths.max()) for key in ids)

        assert longest <= case.objective.longest_example(content)


@each
def test_special_tokens_that_its_rows_hold_are_needed(name):
    """Without one of them it, or its part, is refused.

    The message names the objective, the token and the way out.
    """
    words = vocabulary(1000)
    examples, _ = wide(name, words).corrupt(
        samples([64, 300], words),
        np.zeros(2, np.uint16),
        1,
    )
    ids = [column.values for key, column in examples.columns.items() if "ids" in key]
    written = set(np.concatenate(ids).tolist())
    roles = [role for role, index in words.specials.items() if index in written]
    for role in roles:
        lacks = replace(
            words,
            specials={other: index for other, index in words.specials.items() if other != role},
        )
        message = (
            rf"objective '\w+' \(\w+\) needs the special token '{role}'.*`tokenizer\.add: true`"
        )
        with refused(message):
            wide(name, lacks)

    if written & set(words.sentinels):
        with refused(r"sentinels, the tokenizer has 0.*`tokenizer\.add: true`"):
            wide(name, replace(words, sentinels=()))


CORPUS_OPTIONS = {
    "masked_lm": [{"frequency_exponent": 0.5}],
    "replaced_token_detection": [{"replacement": "unigram"}, {"replacement": "uniform"}],
    "text_infilling": [{"random_share": 0.5}],
}
"""Further options with which examples depend on the whole corpus."""


@each
def test_examples_differ_only_with_what_was_read_of_the_corpus(name):
    """A unit is known by what it reads, so an unread property may not change an example."""
    first = vocabulary(1000)
    rare = np.arange(1000, dtype=np.uint64)
    sparse = np.where(np.arange(1000) % 7 == 0, rare, 0).astype(np.uint64)
    rows = samples(LENGTHS * 8, first)
    variants = np.zeros(len(rows), np.uint16)

    for options in ({}, *VARIETIES.get(name, ()), *CORPUS_OPTIONS.get(name, ())):
        noted = [set(), set(), set()]
        made = []
        for counts, seen in zip((rare + 1, sparse, rare[::-1] + 1), noted, strict=True):
            corpus = Corpus(counts, lambda *read, seen=seen: seen.add(read))
            objective = wide(name, replace(first, corpus=corpus), **options)
            made.append(objective.corrupt(rows, variants, 1)[0])
        for one, other in combinations(range(3), 2):
            equal = all(
                np.array_equal(column.values, made[other].columns[key].values)
                for key, column in made[one].columns.items()
            )
            assert equal or noted[one] != noted[other], (options, one, other)


@each
@pytest.mark.parametrize("size", [300, 65_536, 65_537])
@pytest.mark.parametrize(("specials", "unknown"), [(0.0, 0.0), (0.2, 0.0), (0.0, 0.1), (0.0, 1.0)])
def test_uncorrupt_gives_the_framed_original(name, size, specials, unknown):
    """Unknown tokens are content: text with characters that a tokenizer does not know is given back
    like any other."""
    words = vocabulary(size)
    if specials and not tolerates_specials(wide(name, words)):
        return  # it edits sequences: special ids inside are a ValueError
    rows = samples(LENGTHS * 8, words, specials=specials, unknown=unknown, seed=size)
    check_uncorrupt(case_of(name, rows, words))


@each
@settings(max_examples=25)
@given(lengths=st.lists(st.integers(0, 40), max_size=12), seed=st.integers(0, 2**32 - 1))
def test_any_batch_of_short_rows(name, lengths, seed):
    case = case_of(name, samples(lengths, seed=seed))
    check_uncorrupt(case)
    minimum = case.objective.minimum

    for sample, skip in zip(case.rows, case.corrupt()[1], strict=True):
        tokens = len(sample["ids"])
        sentences = len(sample["sentence_starts"])
        reasons = {
            Skip.EMPTY: tokens == 0,
            Skip.TOO_SHORT: tokens < minimum.tokens,
            Skip.ONE_SENTENCE: sentences < minimum.sentences,
            Skip.NONE: True,
        }

        assert Skip(skip) == next(reason for reason, holds in reasons.items() if holds)


@pytest.mark.parametrize(
    ("name", "options"), [(name, one) for name, some in VARIETIES.items() for one in some]
)
def test_other_options_keep_the_contract(name, options):
    case = case_of(
        name,
        samples([2, 3, 17, 64, 300] * 6, seed=3),
        **options,
    )
    assert not case.corrupt()[1].any()
    for check in (check_features, check_uncorrupt, check_batches):
        check(case)


@pytest.mark.parametrize(
    ("name", "options", "shift"),
    [
        ("causal_lm", {}, 0),
        ("causal_lm", {"architecture": "encoder"}, 1),
        ("masked_lm", {}, 1),
        ("permuted_lm", {"frame": "bert"}, 1),
        ("permuted_lm", {"frame": "xlnet"}, 0),
        ("prefix_lm", {"mode": "none"}, 0),
        ("prefix_lm", {"mode": "S"}, 1),
    ],
)
def test_document_starts_count_what_precedes_the_content(name, options, shift):
    objective = wide(name, cross_documents=False, **options)
    rows = samples([50, 40, 9], seed=2)

    assert rows.columns["document_starts"].lengths.max() > 1

    for sample, example in zip(rows, corrupt(objective, rows), strict=True):
        assert example["document_starts"].tolist() == [
            0,
            *(sample["document_starts"][1:] + shift).tolist(),
        ]


@each
def test_features_are_as_declared(name):
    for size in (65_536, 65_537):
        case = case_of(name, samples([30, 0, 200], vocabulary(size)), vocabulary(size))
        check_features(case)
        columns = case.corrupt()[0].columns
        fixed = case.corrupt()[0].fixed

        assert np.array_equal(fixed["variant"], fixed["uid"] % 5)
        assert list(columns) == [feature.name for feature in case.objective.features]
        assert not any(
            word in name
            for name in columns
            for word in ("attention_mask", "labels", "decoder_input")
        )


@each
def test_neither_order_nor_batch_matters(name):
    check_batches(case_of(name, samples([50, 568, 3, 50, 0, 64, 1, 64, 64, 300] * 13, seed=4)))


@each
def test_rows_cut_out_of_a_block_are_rows_like_any_other(name):
    """Whatever the block holds around them, specials included."""
    objective = wide(name, vocabulary())
    block = samples(
        [30, 64, 5, 300, 64, 30],
        objective.vocabulary,
        seed=8,
        sentences=4,
    )
    block.columns["ids"].values[:30] = block.columns["ids"].values[-30:] = SEP
    columns = {
        key: Ragged(column.values, column.offsets[1:6]) for key, column in block.columns.items()
    }
    view = RowBatch({key: column[1:5] for key, column in block.fixed.items()}, columns)
    zeros = np.zeros(4, np.uint16)
    found = objective.corrupt(view, zeros, 1)[0]
    copy = objective.corrupt(block.take(np.arange(1, 5)), zeros, 1)[0]

    assert not find_changed(found, copy).any()


@each
def test_golden_bytes(name):
    """Bytes of an objective change only with its VERSION; then this file changes with it."""
    assert json.loads(GOLDEN.read_text()).get(name) == golden(name), "run `make objectives`"


@each
def test_draws_depend_on_seed_label_variant_and_uid(name):
    words = vocabulary(5000)
    case = case_of(name, samples([64] * 400, words, sentences=8), words)
    assert not case.corrupt()[1].any()
    check_draws(case)


@each
def test_no_row_is_longer_than_configured(name):
    """Rows of full length reach every bound that a model's positions are counted by."""
    objective = wide(name, vocabulary())
    for number, part in enumerate(getattr(objective, "parts", [objective])):
        full = part.content_length
        rows = samples(
            [full, full - 20, full // 2] * 20 + [full + 1], objective.vocabulary, sentences=4
        )
        rows.fixed["part"][:] = number
        examples, skips = objective.corrupt(rows, np.arange(len(rows), dtype=np.uint16), 2)

        assert (skips == Skip.NONE).sum() >= 20
        assert Skip(skips[-1]) == Skip.TOO_LONG

        limit = getattr(part.options, "max_length", None) or part.options.input_length
        limits = {
            "input_ids": limit,
            "input_ids_b": limit,
            "target_ids": getattr(part.options, "target_length", None),
        }
        for column in limits.keys() & examples.columns.keys():
            assert 0 < examples.columns[column].lengths.max() <= (limits[column] or limit)


# Labels and special ids
# -----------------------------------------------------------------------------------------------

LABELED = [
    name for name in NAMES if "label_ids" in {f.name for f in build_objective(name, WORDS).features}
]
LABELS = [
    *({"name": name} for name in LABELED),
    {"name": "mass", "architecture": "encoder"},
    *({"name": "replaced_token_detection", "replacement": kind} for kind in ("uniform", "shuffle")),
    *({"name": "masked_lm", "attention": mode} for mode in ("left_to_right", "prefix")),
    {"name": "masked_lm", "mask_rate": 1.0, "mask_share": 0.0, "random_share": 1.0},
]
FRAME = {WORDS.specials[name] for name in ("cls", "sep", "bos", "eos", "mask")}


@pytest.mark.parametrize("options", LABELS, ids=str)
@pytest.mark.parametrize("specials", [0.0, 0.1])
def test_labels_rise_are_text_and_hold_what_stood_there(options, specials):
    """Distinct, ascending, inside the row, at no special id; everything else is as it was.

    At least one label.
    """
    objective = wide(words=WORDS, **options)
    if specials and not tolerates_specials(objective):
        return
    rows = samples(
        [1, 2, 3, 5, 17, 64, 300] * 12,
        specials=specials,
        seed=6,
    )
    examples, skips = objective.corrupt(rows, np.zeros(len(rows), np.uint16), 2)

    assert (skips == 0).sum() > 40

    replaceable = set(WORDS.replaceable.tolist())

    for row in np.flatnonzero(skips == 0):
        sample = rows.row(int(row))
        example = examples.row(int(row))
        framed = objective.original(sample, example)
        if not objective.keeps_order:  # labels stand where the input has their tokens
            framed = example["input_ids"].copy()
            framed[example["label_positions"]] = example["label_ids"]

        places = example["label_positions"].astype(int)

        assert len(places) == len(example["label_ids"]) > 0
        assert (np.diff(places) > 0).all()
        assert 0 <= places[0] <= places[-1] < len(framed)
        assert example["label_ids"].tolist() == framed[places].tolist()
        assert not WORDS.special[framed[places]].any()

        written = example["input_ids"]

        assert np.delete(written, places).tolist() == np.delete(framed, places).tolist()

        for before, after in zip(
            framed[places].tolist(),
            written[places].tolist(),
            strict=True,
        ):
            assert after in (MASK, before) or after in replaceable


@each
def test_random_ids_are_of_the_corpus(name):
    """Of a corpus of four letters, no example holds another one, whatever ids the vocabulary
    has."""
    letters = np.array([500, 502, 505, 777])
    words = replace(WORDS, corpus=Corpus(np.isin(np.arange(WORDS.size), letters).astype(np.uint64)))
    rows = samples([64, 300, 568] * 8, words, seed=8)
    for side in ("ids", "partner_ids", "target_ids"):
        values = rows.columns[side].values
        values[:] = letters[values % 4]

    shares = [
        {},
        {"mask_share": 0.0, "random_share": 1.0},
        {"replacement": "uniform"},
        {"replacement": "unigram"},
    ]

    known = OBJECTIVES.load_class(name).Options.__dataclass_fields__
    for options in (one for one in shares if one.keys() <= known.keys()):
        objective = wide(name, words, **options)
        examples, skips = objective.corrupt(rows, np.zeros(len(rows), np.uint16), 3)

        assert not skips.all()

        for feature in objective.features:
            if feature.dtype == "ids":
                ids = np.unique(examples.columns[feature.name].values)
                assert set(ids[~words.special[ids]].tolist()) <= set(letters.tolist()), (
                    options,
                    feature.name,
                )


@each
def test_no_special_id_appears_but_those_of_the_frame_and_the_noise(name):
    """Of rows of text: the frame, [MASK], sentinels and mode tokens are all that is written."""
    objective = wide(name)
    rows = samples([1, 2, 3, 5, 17, 64, 300] * 12, seed=7)
    examples, _ = objective.corrupt(rows, np.zeros(len(rows), np.uint16), 2)
    known = FRAME | set(WORDS.sentinels) | set(WORDS.modes.values())

    for feature in objective.features:
        if feature.dtype == "ids":
            ids = np.unique(examples.columns[feature.name].values)
            assert set(ids[WORDS.special[ids]].tolist()) <= known, feature.name

    if "label_ids" in examples.columns:
        assert not WORDS.special[examples.columns["label_ids"].values].any()
