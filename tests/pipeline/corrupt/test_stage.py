"""Corrupt: example shards are what the objective makes of the sample rows, with every row accounted for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from clozeline import registry
from clozeline.errors import IntegrityError
from clozeline.pipeline.corrupt.objectives import build_objective
from clozeline.pipeline.corrupt.stage import CorruptStage
from clozeline.pipeline.shards import open_shards
from tests.pipeline.corrupt.corrupted import LENGTHS, entry, run, same_rows, shard_rows
from tests.pipeline.token_sets import WORDS, files_of, recipe, run_stage, write_token_set
from tests.registries import values_in_tests


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """Every objective that is tested, two variants each."""
    out = tmp_path_factory.mktemp("everything")
    run(out, [entry(name, variants=2) for name in values_in_tests(request, "name")])
    return out


@pytest.mark.parametrize("name", registry.names("clozeline.pipeline.corrupt.objectives"))
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


@pytest.mark.parametrize("name", registry.names("clozeline.pipeline.corrupt.objectives"))
def test_heldout_has_one_variant(everything: Path, name: str) -> None:
    heldout = open_shards(everything / "corrupt" / name / "heldout").manifest
    assert (heldout.variants, len(heldout.shards)) == (1, 1)


def test_containers_hold_the_same_rows(tmp_path: Path) -> None:
    sets = []
    for container, compression in (("arrow", {"level": 9}), ("tar", {"codec": "none"})):
        run(tmp_path / container, [entry("span_corruption", container=container, compression=compression)])
        sets.append(open_shards(tmp_path / container / "corrupt/span_corruption/train"))
    assert [one.manifest.container for one in sets] == ["arrow", "tar"]
    assert [one.manifest.compression.level for one in sets] == [9, None]
    for shard in range(2):
        assert same_rows(shard_rows(sets[0], shard), shard_rows(sets[1], shard))


def test_units_in_any_order_give_the_same_bytes(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in "ab"]
    for folder, backwards in zip(folders, (False, True), strict=True):
        write_token_set(folder, LENGTHS)
        made = recipe(folder, [entry("masked_lm", variants=3), entry("composition")])
        run_stage(made, "group")
        run_stage(made, "corrupt", backwards=backwards)
    assert files_of(folders[0] / "corrupt") == files_of(folders[1] / "corrupt")


def test_lost_samples_are_noticed(tmp_path: Path) -> None:
    made, counts = run(tmp_path, [entry("masked_lm")])
    counts["objectives"]["masked_lm"]["train"]["examples"] -= 1
    with pytest.raises(IntegrityError, match=r"corrupt masked_lm/train: counts do not add up"):
        CorruptStage(made).check(counts)


def test_rows_with_too_many_labels_are_shown(tmp_path: Path) -> None:
    """Each document is one word of many pieces, which is masked completely or not at all."""
    inside = np.zeros_like(WORDS.word_start)
    inside[0] = True
    words = replace(WORDS, word_start=inside)
    write_token_set(tmp_path, LENGTHS, words=words)
    made = recipe(tmp_path, [entry("whole_word_masking", grouping="document")], heldout=0.3)
    run_stage(made, "group")
    counts = run_stage(made, "corrupt")
    splits = counts["objectives"]["whole_word_masking"]
    overmasked = sum(split.get("overmasked", 0) for split in splits.values())
    assert overmasked > 0.9 * sum(split["examples"] for split in splits.values())
    ((_, row),) = CorruptStage(made).row(counts).parts
    assert str(overmasked) in row.amount_out
