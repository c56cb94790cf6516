"""Run an objective over sample rows: the objective, its examples, the keys of its draws, and why
rows are skipped."""

import dataclasses

import numpy as np

from clozeline.pipeline.corrupt.objectives import Skip, build_objective
from clozeline.pipeline.registries import OBJECTIVES
from clozeline.pipeline.rows import Example
from clozeline.seeding import kernel_keys
from tests.pipeline.corruption_cases import WORDS, one_sample, samples

VARIETIES = {
    "causal_lm": [
        {"architecture": "encoder"},
        {"architecture": "encoder_decoder", "grouping": "document"},
        {"attention": "bidirectional"},
    ],
    "masked_lm": [
        {"mask_rate": {"uniform": [0.1, 0.9]}, "attention": "prefix"},
        {"predict_from": "previous"},
    ],
    "mass": [{"architecture": "encoder"}],
    "prefix_lm": [
        {"architecture": "encoder_decoder", "suffix_rate": 0.25},
        {"architecture": "decoder"},
    ],
    "sentence_comparison": [{"mode": "same"}],
    "span_corruption": [
        {"architecture": "decoder", "mode": "R"},
        {"separator": "eos"},
        {"architecture": "decoder", "attention": "causal", "final_sentinel": True},
    ],
}
"""Options of objectives that give rows of another shape than the default ones."""


def lengths_of(name):
    """Return the options of an objective whose rows may have 600 content tokens."""
    fields = {field.name for field in dataclasses.fields(OBJECTIVES.load_class(name).Options)}
    return {key: 700 for key in ("max_length", "input_length") if key in fields}


def wide(name, words=WORDS, label=None, **options):
    """Return an objective whose rows may have 600 content tokens."""
    return build_objective({"name": name, **lengths_of(name), **options}, words, label)


def tolerates_specials(objective):
    """Position-selecting objectives read rows with separators.

    Sequence-editing ones refuse them.
    """
    rows = samples([40], objective.vocabulary, specials=0.3, sentences=4)

    try:
        objective.corrupt(rows, np.zeros(1, np.uint16), 1)
    except ValueError:
        return False

    return True


def variants_of(objective, ids, sentence_starts=(0,), count=4000):
    """Return the examples of one sample under variants 0 .. count - 1."""
    rows = one_sample(ids, sentence_starts, objective.vocabulary, count)
    examples, skips = objective.corrupt(rows, np.arange(count, dtype=np.uint16), seed=1)
    assert not skips.any()
    return list(examples)


def corrupt(objective, rows, variant=0, seed=1):
    """Return examples of rows that all can be corrupted, under one variant or one of each row."""
    examples, skips = objective.corrupt(rows, np.full(len(rows), variant, np.uint16), seed)
    assert not skips.any(), skips
    return examples


def reasons(objective, rows):
    """Return why each row is skipped; "none" for those that are not."""
    return [
        Skip(skip).reason
        for skip in objective.corrupt(
            rows,
            np.zeros(len(rows), np.uint16),
            1,
        )[1]
    ]


def example_of(**features):
    return Example({}, {name: np.array(values, np.uint16) for name, values in features.items()})


def keyed(objective, rows, variant=0, seed=1):
    """Corrupt rows; yield the key of a row's draws, its sample and its example.

    Rows of specials only are skipped.
    """
    variants = np.full(len(rows), variant, np.uint16)
    examples, skips = objective.corrupt(rows, variants, seed)
    keys = kernel_keys(seed, objective.label, rows.fixed["uid"], variants)
    for key, skip, sample, example in zip(keys, skips, rows, examples, strict=True):
        if skip:
            assert objective.vocabulary.special[sample["ids"]].all()
        else:
            yield key, sample, example


def masked(example):
    """Return the row, the places of its labels, and their ids."""
    return tuple(example[name].tolist() for name in ("input_ids", "label_positions", "label_ids"))
