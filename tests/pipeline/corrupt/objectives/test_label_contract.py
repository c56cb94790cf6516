"""Promises of objectives about their labels, and about the special ids that they write."""

import numpy as np
import pytest

from clozeline import registry
from clozeline.pipeline.corrupt.objectives import build_objective
from tests.pipeline.corrupt.objectives.runner import tolerates_specials, wide
from tests.pipeline.corruption_cases import MASK, WORDS, samples

LENGTHS = [1, 2, 3, 5, 17, 64, 300] * 12
NAMES = registry.names("clozeline.pipeline.corrupt.objectives")
LABELLED = [name for name in NAMES if "label_ids" in {f.name for f in build_objective(name, WORDS).features}]
VARIETIES = [
    *({"name": name} for name in LABELLED),
    {"name": "mass", "architecture": "encoder"},
    *({"name": "replaced_token_detection", "replacement": kind} for kind in ("uniform", "shuffle")),
    *({"name": "masked_lm", "attention": mode} for mode in ("left_to_right", "prefix")),
    {"name": "masked_lm", "mask_rate": 1.0, "mask_share": 0.0, "random_share": 1.0},
]
FRAME = {WORDS.specials[name] for name in ("cls", "sep", "bos", "eos", "mask")}


@pytest.mark.parametrize("options", VARIETIES, ids=str)
@pytest.mark.parametrize("specials", [0.0, 0.1])
def test_labels_rise_are_text_and_hold_what_stood_there(options, specials):
    """Distinct, ascending, inside the row, at no special id; everything else is as it was; at least one label."""
    objective = wide(words=WORDS, **options)
    if specials and not tolerates_specials(objective):
        return
    rows = samples(LENGTHS, specials=specials, seed=6)
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


@pytest.mark.parametrize("name", NAMES)
def test_no_special_id_appears_but_those_of_the_frame_and_the_noise(name):
    """Of rows of text: the frame, [MASK], sentinels and mode tokens are all that is written."""
    objective = wide(name)
    rows = samples(LENGTHS, seed=7)
    examples, _ = objective.corrupt(rows, np.zeros(len(rows), np.uint16), 2)
    known = FRAME | set(WORDS.sentinels) | set(WORDS.modes.values())
    for feature in objective.features:
        if feature.dtype == "ids":
            ids = np.unique(examples.columns[feature.name].values)
            assert set(ids[WORDS.special[ids]].tolist()) <= known, feature.name
    if "label_ids" in examples.columns:
        assert not WORDS.special[examples.columns["label_ids"].values].any()
