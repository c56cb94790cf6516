"""Corrupt: example shards are what the objective makes of the sample rows, with every row accounted for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline import registry
from pipeline.config import to_plain, validate
from pipeline.corrupt.stage import CorruptConfig, CorruptStage
from pipeline.errors import ConfigurationError, IntegrityError
from pipeline.objectives import build_objective
from pipeline.recipe import Recipe
from pipeline.rows import Rows
from pipeline.shards import ShardSet, open_shards
from tests.pipeline.token_sets import WORDS, files_of, recipe, run_stage, write_token_set

LENGTHS = [(31 * document) % 90 for document in range(120)]


def entry(name: str, **options: Any) -> dict[str, Any]:
    fields = registry.find("pipeline.objectives", name).Options.__pydantic_fields__
    lengths = {key: 34 for key in ("max_length", "input_length") if key in fields}
    return {"name": name, **lengths, **options}


def run(out: Path, entries: list[Any], **options: Any) -> tuple[Recipe, dict[str, Any]]:
    write_token_set(out, LENGTHS)
    made = recipe(out, entries, heldout=0.3, **options)
    run_stage(made, "group")
    return made, run_stage(made, "corrupt")


def shard_rows(shards: ShardSet, shard: int) -> Rows:
    return Rows.concatenate([shards.read_block(b) for b in np.flatnonzero(shards.index.shard == shard).tolist()])


def same_rows(first: Rows, second: Rows) -> bool:
    return all((first.fixed[name] == second.fixed[name]).all() for name in first.fixed) and all(
        (first.columns[name].values == second.columns[name].values).all()
        and (first.columns[name].lengths == second.columns[name].lengths).all()
        for name in first.columns
    )


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every objective of the folder, two variants each."""
    out = tmp_path_factory.mktemp("everything")
    run(out, [entry(name, variants=2) for name in registry.names("pipeline.objectives")])
    return out


@pytest.mark.parametrize("name", registry.names("pipeline.objectives"))
def test_example_shards_are_the_objective_over_the_sample_shards(everything: Path, name: str) -> None:
    made = open_shards(everything / "corrupt" / name / "train", verify="shard")
    facts = made.manifest.objective
    assert facts is not None
    objective = build_objective({"name": facts.name, **facts.options}, WORDS, facts.label)
    source = open_shards(everything / "group" / objective.grouping.label / "train")
    assert made.manifest.parents[0].digest == source.digest
    assert facts.architecture == objective.architecture
    assert facts.heads == objective.heads
    assert facts.frame.decoder_start == objective.frame.decoder_start
    assert [shard.path for shard in made.manifest.shards] == [f"shard-{k:05d}-of-00004.arrow" for k in range(4)]
    for variant in range(2):
        for shard in range(2):
            samples = shard_rows(source, shard)
            wanted, skips = objective.corrupt(samples, np.full(len(samples), variant, np.uint16), made.manifest.seed)
            found = shard_rows(made, variant * 2 + shard)
            assert same_rows(found, wanted.take(np.flatnonzero(skips == 0)))
            assert set(found.fixed["variant"].tolist()) == {variant}


@pytest.mark.parametrize("name", registry.names("pipeline.objectives"))
def test_heldout_has_one_variant(everything: Path, name: str) -> None:
    heldout = open_shards(everything / "corrupt" / name / "heldout").manifest
    assert (heldout.variants, len(heldout.shards)) == (1, 1)


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


def test_containers_hold_the_same_rows(tmp_path: Path) -> None:
    sets = []
    for container, compression in (("arrow", {"level": 9}), ("tar", {"codec": "none"})):
        run(tmp_path / container, [entry("span_corruption", container=container, compression=compression)])
        sets.append(open_shards(tmp_path / container / "corrupt/span_corruption/train"))
    assert [one.manifest.container for one in sets] == ["arrow", "tar"]
    assert [one.manifest.compression.level for one in sets] == [9, None]
    for shard in range(2):
        assert same_rows(shard_rows(sets[0], shard), shard_rows(sets[1], shard))


def test_seed_of_an_entry(tmp_path: Path) -> None:
    run(tmp_path, [entry("masked_lm"), entry("masked_lm", label="other", seed=9)])
    assert [open_shards(tmp_path / "corrupt" / label / "train").manifest.seed for label in ("masked_lm", "other")] == [
        1,
        9,
    ]


def test_units_in_any_order_give_the_same_bytes(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in "ab"]
    for folder, backwards in zip(folders, (False, True), strict=True):
        write_token_set(folder, LENGTHS)
        made = recipe(folder, [entry("masked_lm", variants=3), entry("composition")])
        run_stage(made, "group")
        run_stage(made, "corrupt", backwards=backwards)
    assert files_of(folders[0] / "corrupt") == files_of(folders[1] / "corrupt")


def test_a_set_whose_samples_are_all_skipped_is_an_error(tmp_path: Path) -> None:
    write_token_set(tmp_path, [30] * 40, sentence=100)
    made = recipe(tmp_path, [entry("sentence_reordering"), entry("document_rotation")], heldout=0.3)
    run_stage(made, "group")
    with pytest.raises(ConfigurationError, match=r"'sentence_reordering' is empty: .*one_sentence"):
        run_stage(made, "corrupt")


def test_a_sample_set_that_group_did_not_make_is_named(tmp_path: Path) -> None:
    write_token_set(tmp_path, LENGTHS)
    made = recipe(tmp_path, [entry("masked_lm")], group={"groupings": [{"name": "document", "length": 20}]})
    run_stage(made, "group")
    with pytest.raises(ConfigurationError, match=r"reads the sample set packed-32-sep/train, .* document-20"):
        run_stage(made, "corrupt")


def test_lost_samples_are_noticed(tmp_path: Path) -> None:
    made, counts = run(tmp_path, [entry("masked_lm")])
    counts["objectives"]["masked_lm"]["train"]["examples"] -= 1
    with pytest.raises(IntegrityError, match=r"corrupt masked_lm/train: counts do not add up"):
        CorruptStage(made).check(counts)


def test_entries_keep_the_objectives_options_beside_their_own() -> None:
    entries = validate(
        CorruptConfig, ["masked_lm", {"name": "masked_lm", "label": "b", "mask_rate": 0.3, "variants": 4}], "x"
    )
    assert [one.set_label for one in entries] == ["masked_lm", "b"]
    assert (entries[1].variants, entries[1].objective.options.mask_rate) == (4, 0.3)
    assert validate(CorruptConfig, [to_plain(one) for one in entries], "x") == entries


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        (["masked_lm", "masked_lm"], "two objectives share the label masked_lm"),
        ([{"name": "masked_ml"}], "did you mean 'masked_lm'"),
        ([{"name": "masked_lm", "mask_rat": 0.1}], "unknown key 'mask_rat'; did you mean 'mask_rate'"),
        ([{"name": "masked_lm", "label": "../up"}], "label"),
        ([{"name": "masked_lm", "variants": 0}], "variants"),
        ([{"name": "masked_lm", "container": "zip"}], "container"),
        ([{"mask_rate": 0.1}], "name"),
        ([], "at least 1"),
    ],
)
def test_wrong_entries(entries: list[Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        validate(CorruptConfig, entries, "corrupt")
