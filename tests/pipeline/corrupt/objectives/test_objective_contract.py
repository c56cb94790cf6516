"""Promises of every objective, run over every file of the folder: a new file is tested the moment it exists."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clozeline import registry
from clozeline.errors import ConfigurationError
from clozeline.pipeline.corrupt.objectives import Skip, build_objective
from clozeline.pipeline.rows import Ragged, Rows
from tests.pipeline.corrupt.objectives.golden import GOLDEN, golden
from tests.pipeline.corrupt.objectives.runner import VARIETIES, corrupt, tolerates_specials, wide
from tests.pipeline.corruption_cases import MASK, SEP, WORDS, samples, vocabulary

NAMES = registry.names("clozeline.pipeline.corrupt.objectives")
LENGTHS = (0, 1, 2, 3, 5, 17, 64, 300, 568)

each = pytest.mark.parametrize("name", NAMES)


def assert_undone(objective, rows, examples, skips):
    """Each example gives back the framed original, and a skipped row has an empty one."""
    for sample, example, skip in zip(rows, examples, skips, strict=True):
        if skip:
            assert all(len(column) == 0 for column in example.columns.values())
        else:
            assert np.array_equal(objective.uncorrupt(example), objective.original(sample, example))


def changed(first, second):
    """Rows that differ in any list column."""
    pairs = zip(first, second, strict=True)
    return np.array([any(not np.array_equal(a[name], b[name]) for name in first.columns) for a, b in pairs])


@each
def test_special_tokens_that_its_rows_hold_are_needed(name):
    """Without one of them it, or its part, is refused; the message names the objective, the token and the way out."""
    words = vocabulary(1000)
    examples, _ = wide(name, words).corrupt(samples([64, 300], words), np.zeros(2, np.uint16), 1)
    ids = [column.values for key, column in examples.columns.items() if "ids" in key]
    written = set(np.concatenate(ids).tolist())
    roles = [role for role, index in words.specials.items() if index in written]
    for role in roles:
        lacks = replace(words, specials={other: index for other, index in words.specials.items() if other != role})
        message = rf"objective '\w+' \(\w+\) needs the special token '{role}'.*`tokenizer\.add: true`"
        with pytest.raises(ConfigurationError, match=message):
            wide(name, lacks)
    if written & set(words.sentinels):
        with pytest.raises(ConfigurationError, match=r"sentinels, the tokenizer has 0.*`tokenizer\.add: true`"):
            wide(name, replace(words, sentinels=()))


@each
@pytest.mark.parametrize("size", [300, 65_536, 65_537])
@pytest.mark.parametrize(("specials", "unknown"), [(0.0, 0.0), (0.2, 0.0), (0.0, 0.1), (0.0, 1.0)])
def test_uncorrupt_gives_the_framed_original(name, size, specials, unknown):
    """Unknown tokens are content: text with characters that a tokenizer does not know is given back like any other."""
    objective = wide(name, vocabulary(size))
    if specials and not tolerates_specials(objective):
        return  # it edits sequences: special ids inside are a ValueError
    # writing to the samples is an error
    rows = samples(LENGTHS * 8, objective.vocabulary, specials=specials, unknown=unknown, seed=size, read_only=True)
    assert_undone(objective, rows, *objective.corrupt(rows, np.arange(len(rows), dtype=np.uint16) % 3, seed=9))


@each
@settings(max_examples=25, deadline=None)
@given(lengths=st.lists(st.integers(0, 40), max_size=12), seed=st.integers(0, 2**32 - 1))
def test_any_batch_of_short_rows(name, lengths, seed):
    objective = wide(name, vocabulary())
    rows = samples(lengths, objective.vocabulary, seed=seed)
    examples, skips = objective.corrupt(rows, np.zeros(len(rows), np.uint16), seed)
    assert_undone(objective, rows, examples, skips)
    for sample, skip in zip(rows, skips, strict=True):
        tokens, sentences = len(sample["ids"]), len(sample["sentence_starts"])
        reasons = {
            Skip.EMPTY: tokens == 0, Skip.TOO_SHORT: tokens < objective.minimum.tokens,
            Skip.ONE_SENTENCE: sentences < objective.minimum.sentences, Skip.NONE: True,
        }  # fmt: skip
        assert Skip(skip) == next(reason for reason, holds in reasons.items() if holds)


@pytest.mark.parametrize(("name", "options"), [(name, one) for name, some in VARIETIES.items() for one in some])
def test_other_options_are_undone_and_independent_of_the_batch(name, options):
    objective = wide(name, vocabulary(1000), **options)
    rows = samples([2, 3, 17, 64, 300] * 6, objective.vocabulary, seed=3)
    variants = (np.arange(len(rows)) % 5).astype(np.uint16)
    whole, skips = objective.corrupt(rows, variants, 3)
    assert not skips.any()
    assert [(f.name, f.dtype if f.dtype != "ids" else "uint16") for f in objective.features] == [
        (column, str(lists.values.dtype)) for column, lists in whole.columns.items()
    ]
    assert_undone(objective, rows, whole, skips)
    for row in range(len(rows)):
        alone, _ = objective.corrupt(rows.take(np.array([row])), variants[row : row + 1], 3)
        assert not changed(alone, whole.take(np.array([row]))).any()


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
        assert example["document_starts"].tolist() == [0, *(sample["document_starts"][1:] + shift).tolist()]


@each
def test_features_are_as_declared(name):
    for size, ids in ((65_536, np.uint16), (65_537, np.uint32)):
        objective = wide(name, vocabulary(size))
        examples, _ = objective.corrupt(samples([30, 0, 200], objective.vocabulary), np.zeros(3, np.uint16), 1)
        assert list(examples.columns) == [feature.name for feature in objective.features]
        assert objective.features[0].dtype == "ids", "tokens of an example are counted by its first feature"
        for feature in objective.features:
            column = examples.columns[feature.name]
            assert column.values.dtype == (ids if feature.dtype == "ids" else np.dtype(feature.dtype)), feature
            assert feature.role.use not in ("row", "weight") or set(column.lengths.tolist()) <= {0, 1}, feature
            assert not feature.role.of or feature.role.of in examples.columns, feature
            assert feature.description
            assert not any(word in feature.name for word in ("attention_mask", "labels", "decoder_input"))
            if feature.dtype == "ids" and len(column.values):
                assert int(column.values.max()) < size


@each
@pytest.mark.parametrize("portion", [1, 7, 64])
def test_neither_order_nor_batch_matters(name, portion):
    objective = wide(name, vocabulary())
    rows = samples([50, 568, 3, 50, 0, 64, 1, 64, 64, 300] * 13, objective.vocabulary, seed=4)
    variants = (np.arange(len(rows)) % 5).astype(np.uint16)
    whole, skips = objective.corrupt(rows, variants, 3)
    order = np.argsort(rows.fixed["uid"])
    parts = []
    for start in range(0, len(order), portion):
        chosen = order[start : start + portion]
        part, part_skips = objective.corrupt(rows.take(chosen), variants[chosen], 3)
        assert (part_skips == skips[chosen]).all()
        parts.append(part)
    found, wanted = Rows.concatenate(parts), whole.take(order)
    assert all(np.array_equal(values, wanted.fixed[name]) for name, values in found.fixed.items())
    assert not changed(found, wanted).any()


@each
def test_rows_cut_out_of_a_block_are_rows_like_any_other(name):
    """Whatever the block holds around them, specials included."""
    objective = wide(name, vocabulary())
    block = samples([30, 64, 5, 300, 64, 30], objective.vocabulary, seed=8, sentences=4)
    block.columns["ids"].values[:30] = block.columns["ids"].values[-30:] = SEP
    columns = {key: Ragged(column.values, column.offsets[1:6]) for key, column in block.columns.items()}
    view = Rows({key: column[1:5] for key, column in block.fixed.items()}, columns)
    zeros = np.zeros(4, np.uint16)
    found, copy = objective.corrupt(view, zeros, 1)[0], objective.corrupt(block.take(np.arange(1, 5)), zeros, 1)[0]
    assert not changed(found, copy).any()


@each
def test_golden_bytes(name):
    """Bytes of an objective change only with its VERSION; then this file changes with it."""
    assert json.loads(GOLDEN.read_text(encoding="utf-8")).get(name) == golden(name), "run `make objectives`"


@each
def test_draws_depend_on_seed_label_variant_and_uid(name):
    objective = wide(name, vocabulary(5000))
    rows = samples([64] * 400, objective.vocabulary, sentences=8)
    zeros = np.zeros(400, np.uint16)
    first, skips = objective.corrupt(rows, zeros, 1)
    assert not skips.any()
    others = {
        "variant": objective.corrupt(rows, zeros + np.uint16(1), 1)[0],
        "seed": objective.corrupt(rows, zeros, 2)[0],
        "uid": objective.corrupt(Rows({**rows.fixed, "uid": rows.fixed["uid"] + np.uint64(1)}, rows.columns), zeros, 1)[
            0
        ],
    }
    if objective.draws_by_label:
        others["label"] = wide(name, vocabulary(5000), label="another").corrupt(rows, zeros, 1)[0]
    shares = {what: float(changed(first, other).mean()) for what, other in others.items()}
    if objective.redrawn == 0:
        assert set(shares.values()) == {0.0}, "an objective that draws nothing never changes"
    else:
        assert min(shares.values()) >= objective.redrawn, (
            f"{shares}: a lower share by its default options is declared in the class as `redrawn`"
        )


@each
def test_no_row_is_longer_than_configured(name):
    """Rows of full length reach every bound that a model's positions are counted by."""
    objective = wide(name, vocabulary())
    for number, part in enumerate(getattr(objective, "parts", [objective])):
        full = part.content_length
        rows = samples([full, full - 20, full // 2] * 20 + [full + 1], objective.vocabulary, sentences=4)
        rows.fixed["part"][:] = number
        examples, skips = objective.corrupt(rows, np.arange(len(rows), dtype=np.uint16), 2)
        assert (skips == Skip.NONE).sum() >= 20
        assert Skip(skips[-1]) == Skip.TOO_LONG
        limit = getattr(part.options, "max_length", None) or part.options.input_length
        limits = {"input_ids": limit, "input_ids_b": limit, "target_ids": getattr(part.options, "target_length", None)}
        for column in limits.keys() & examples.columns.keys():
            assert 0 < examples.columns[column].lengths.max() <= (limits[column] or limit)


# Labels and special ids -----------------------------------------------------------------------------------------------

LABELLED = [name for name in NAMES if "label_ids" in {f.name for f in build_objective(name, WORDS).features}]
LABELS = [
    *({"name": name} for name in LABELLED),
    {"name": "mass", "architecture": "encoder"},
    *({"name": "replaced_token_detection", "replacement": kind} for kind in ("uniform", "shuffle")),
    *({"name": "masked_lm", "attention": mode} for mode in ("left_to_right", "prefix")),
    {"name": "masked_lm", "mask_rate": 1.0, "mask_share": 0.0, "random_share": 1.0},
]
FRAME = {WORDS.specials[name] for name in ("cls", "sep", "bos", "eos", "mask")}


@pytest.mark.parametrize("options", LABELS, ids=str)
@pytest.mark.parametrize("specials", [0.0, 0.1])
def test_labels_rise_are_text_and_hold_what_stood_there(options, specials):
    """Distinct, ascending, inside the row, at no special id; everything else is as it was; at least one label."""
    objective = wide(words=WORDS, **options)
    if specials and not tolerates_specials(objective):
        return
    rows = samples([1, 2, 3, 5, 17, 64, 300] * 12, specials=specials, seed=6)
    examples, skips = objective.corrupt(rows, np.zeros(len(rows), np.uint16), 2)
    assert (skips == 0).sum() > 40
    replaceable = set(WORDS.replaceable.tolist())
    for row in np.flatnonzero(skips == 0):
        sample, example = rows.row(int(row)), examples.row(int(row))
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
        for before, after in zip(framed[places].tolist(), written[places].tolist(), strict=True):
            assert after in (MASK, before) or after in replaceable


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
