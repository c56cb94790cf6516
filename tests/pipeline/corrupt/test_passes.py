from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clozeline.configuration.config import validate
from clozeline.errors import ConfigurationError
from clozeline.pipeline.corrupt.config import CorruptConfig
from clozeline.pipeline.corrupt.passes import ExampleUnit, example_units
from clozeline.pipeline.shards import open_shards
from clozeline.pipeline.shards.layout import Splits
from tests.pipeline.corrupt.corrupted import entry, run, shard_rows
from tests.pipeline.token_sets import recipe, run_stage, write_token_set


def test_samples_in_are_examples_and_skipped(tmp_path: Path) -> None:
    """Documents of one sentence reach the shared sample set, and reordering skips them by name."""
    _, counts = run(tmp_path, [entry("sentence_reordering", variants=2), entry("document_rotation")])
    found = counts["objectives"]["sentence_reordering"]["train"]
    assert found["skipped"]["one_sentence"] > 0
    assert found["samples_in"] == found["examples"] + sum(found["skipped"].values())
    assert counts["samples_in"] == counts["examples"] + sum(counts["skipped"].values())
    made = open_shards(tmp_path / "corrupt/sentence_reordering/train").manifest
    assert made.totals.skipped == found["skipped"]
    assert made.totals.samples == found["examples"]
    assert sum(made.totals.tokens_by_language.values()) == made.totals.tokens


def test_what_an_example_leaves_unused_is_counted(tmp_path: Path) -> None:
    """Next sentence prediction takes a part of the window or of its partner; three tokens of a row are its frame."""
    _, counts = run(tmp_path, [entry("next_sentence_prediction", variants=2)])
    given = used = 0
    for split, variants in (("train", 2), ("heldout", 1)):
        samples = open_shards(tmp_path / "group/sentence_pair-31-none-partner=True-short_rate=0.1" / split)
        examples = open_shards(tmp_path / "corrupt/next_sentence_prediction" / split)
        for shard in range(len(samples.manifest.shards)):
            rows = shard_rows(samples, shard)
            given += variants * sum(len(rows.columns[name].values) for name in ("ids", "partner_ids"))
        used += examples.manifest.totals.tokens - 3 * examples.manifest.totals.samples
    assert counts["unused_tokens"] == given - used > 0


def test_seed_of_an_entry(tmp_path: Path) -> None:
    run(tmp_path, [entry("masked_lm"), entry("masked_lm", label="other", seed=9)])
    assert [open_shards(tmp_path / "corrupt" / label / "train").manifest.seed for label in ("masked_lm", "other")] == [
        1,
        9,
    ]


def test_a_set_whose_samples_are_all_skipped_is_an_error(tmp_path: Path) -> None:
    write_token_set(tmp_path, [30] * 40, sentence=100)
    made = recipe(tmp_path, [entry("sentence_reordering"), entry("document_rotation")], heldout=0.3)
    run_stage(made, "group")
    with pytest.raises(ConfigurationError, match=r"'sentence_reordering' is empty: .*one_sentence"):
        run_stage(made, "corrupt")


@settings(max_examples=40)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=3), st.integers(1, 5), st.integers(0, 5))
def test_units_are_the_shards_of_every_set_once(variants: list[int], train: int, heldout: int) -> None:
    """Shards of a variant stand together; a held-out set has one variant, and none where nothing is held out."""
    plain = [{"name": "causal_lm", "label": str(number), "variants": count} for number, count in enumerate(variants)]
    entries = tuple(validate(CorruptConfig, plain, "x"))
    splits = {"train": train, "heldout": heldout} if heldout else {"train": train}
    units = example_units(entries, cast(Splits, splits))  # only its items are asked for
    by_set: dict[tuple[int, str], list[ExampleUnit]] = {}
    for unit in units:
        by_set.setdefault((unit.entry, unit.split), []).append(unit)
    assert set(by_set) == {(number, split) for number in range(len(variants)) for split in splits}
    for (number, split), made in by_set.items():
        count = variants[number] if split == "train" else 1
        assert [unit.file_number for unit in made] == list(range(count * splits[split]))
        assert [(unit.variant, unit.shard) for unit in made] == [
            (variant, shard) for variant in range(count) for shard in range(splits[split])
        ]
        assert {unit.variants for unit in made} == {count}
