"""Damage of every kind is found and named, in one message."""

import shutil

import numpy as np
import pytest

from clozeline.pipeline.shards import open_shards
from clozeline.tools.shards.validate_shards import main as validate_shards
from clozeline.tools.shards.validate_shards import validate
from tests.shard_sets import change_manifest
from tests.tools.rewritten_set import at, changed, fails, rewrite, with_fixed
from tests.tools.small_run import example_sets

LABELS = [
    "bart",
    "causal_lm",
    "corrective_lm",
    "document_rotation",
    "masked_lm",
    "permuted_lm",
    "replaced_token_detection",
    "span_boundary",
    "span_corruption",
    "text_infilling",
    "unilm",
    "unilm_mixture",
    "whole_word_masking",
    "xlnet",
]


@pytest.mark.parametrize("label", LABELS)
def test_every_example_set_is_whole_and_can_be_undone(shard_sets, label, capsys):
    manifest, samples = example_sets(shard_sets)[label]
    assert validate_shards([str(manifest), "--against", str(samples)]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"OK: {label}/train (examples, ")
    assert f"{len(open_shards(manifest)):,} examples restored" in out


def test_sample_and_token_sets_are_whole(shard_sets):
    manifests = [*shard_sets.glob("group/*/*/manifest.json"), shard_sets / "encode"]
    assert len(manifests) > 6
    for manifest in manifests:
        assert validate(manifest).rows == len(open_shards(manifest))


@pytest.mark.parametrize(
    ("label", "column", "place"),
    [
        ("masked_lm", "label_ids", 0),
        ("causal_lm", "input_ids", 3),
        ("span_corruption", "target_ids", 1),
        ("span_corruption", "input_ids", 0),
        ("bart", "target_ids", 2),
        ("xlnet", "input_ids", 0),
        ("replaced_token_detection", "label_ids", 1),
    ],
)
def test_a_changed_id_with_right_hashes_is_found_against_the_samples(
    output, capsys, label, column, place
):
    shards = open_shards(example_sets(output)[label][0])
    block = 2
    row = 5
    rows = shards.read_block(block)
    old = int(rows.columns[column][row][place])
    special = {
        *shards.manifest.tokenizer.special_ids.values(),
        *shards.manifest.tokenizer.sentinels,
    }
    new = next(token for token in range(599, 0, -1) if token != old and token not in special)
    manifest, samples = rewrite(
        output, label, at(block, lambda rows: changed(rows, column, row, place, new))
    )

    assert validate_shards([str(manifest)]) == 0

    capsys.readouterr()
    error = fails(capsys, manifest, "--against", samples)

    assert (
        f"block {block}: row {row} (sample {int(rows.fixed['uid'][row]):016x}, variant 0" in error
    )
    assert str(manifest.parent) in error


def test_examples_that_are_missing_are_counted(output, capsys):
    manifest, samples = rewrite(
        output, "causal_lm", at(6, lambda rows: rows.take(np.arange(len(rows) - 1)))
    )
    assert validate_shards([str(manifest)]) == 0
    assert "examples + skipped" in fails(capsys, manifest, "--against", samples)


def test_the_tokenizer_is_found_above_the_samples(shard_sets, tmp_path):
    manifest, samples = example_sets(shard_sets)["masked_lm"]
    shutil.copytree(manifest.parent, tmp_path / "set")
    assert validate(tmp_path / "set").without_tokenizer
    assert not validate(tmp_path / "set", samples).without_tokenizer


def test_a_tokenizer_is_compared_with_its_record(shard_sets, tmp_path, capsys):
    for name in ("train_tokenizer", "encode"):
        shutil.copytree(shard_sets / name, tmp_path / name)
    record = tmp_path / "train_tokenizer/records/main/000000.json"
    for lose in (lambda: record.write_text("{}"), record.unlink):
        lose()
        assert str(record) in fails(capsys, tmp_path / "encode")


def test_sets_that_do_not_belong_together_are_refused(shard_sets, capsys):
    sets = example_sets(shard_sets)
    manifest, _ = sets["masked_lm"]

    for other, message in [
        (sets["causal_lm"][1], "come from the sample set packed-46-sep/train"),
        (sets["causal_lm"][0], "expected a sample set, got one of examples"),
    ]:
        assert validate_shards([str(manifest), "--against", str(other)]) == 64
        assert message in capsys.readouterr().err

    assert (
        validate_shards(
            [
                str(sets["masked_lm"][1]),
                "--against",
                str(sets["masked_lm"][1]),
            ]
        )
        == 64
    )
    assert "expected an example set, got a set of samples" in capsys.readouterr().err


def swapped(rows):
    order = np.arange(len(rows))
    order[[3, 4]] = [4, 3]
    return rows.take(order)


@pytest.mark.parametrize(
    ("label", "change", "message"),
    [
        (
            "masked_lm",
            lambda rows: with_fixed(rows, "variant", 2, 1),
            "expected variant 0 in this shard",
        ),
        ("masked_lm", swapped, "in order of their uid's hash"),
        (
            "masked_lm",
            lambda rows: rows.take(np.array([0, 1, 2, 2, *range(4, len(rows))])),
            "the row before has the same",
        ),
    ],
)
def test_rows_in_a_wrong_shard_or_order_are_found(output, capsys, label, change, message):
    manifest, _ = rewrite(output, label, at(1, change))
    error = fails(capsys, manifest)
    assert message in error
    assert "block 1: row" in error


def test_ids_beyond_the_vocabulary_are_found(output, capsys):
    manifest, _ = rewrite(
        output, "causal_lm", at(1, lambda rows: changed(rows, "input_ids", 2, 0, 600))
    )

    assert "block 1: expected input_ids below 600, got 600" in fails(capsys, manifest)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda totals: totals.update(tokens_by_language={"en": totals["tokens"] - 1}),
            "totals.tokens_by_language",
        ),
        (
            lambda totals: totals.update(tokens_by_language={"de": totals["tokens"]}),
            "counted {'en': ",
        ),
        (
            lambda totals: totals["tokens_by_source"].update(default=1),
            "totals.tokens_by_source: expected {'default': 1}",
        ),
        (lambda totals: totals.update(tokens=totals["tokens"] + 1), "totals.tokens: expected"),
    ],
)
def test_totals_are_counted_again(output, capsys, change, message):
    assert validate(output / "encode").rows > 0
    change_manifest(output / "encode", lambda plain: change(plain["totals"]))
    assert message in fails(capsys, output / "encode")


def test_a_kind_without_its_column_is_no_such_set(output, capsys):
    change_manifest(output / "encode", lambda plain: plain["columns"][3].update(name="tokens"))
    assert "there is no list column token_ids" in fails(capsys, output / "encode")


def test_the_longest_row_is_measured(output, capsys):
    manifest, _ = example_sets(output)["causal_lm"]
    change_manifest(manifest.parent, lambda plain: plain.update(max_length=plain["max_length"] + 1))
    assert "max_length: expected 49, counted 48" in fails(capsys, manifest)
