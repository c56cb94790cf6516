"""Damage of every kind is found and named; wrong examples with right hashes are found against their samples."""

from __future__ import annotations

import random
import shutil
from dataclasses import replace
from pathlib import Path

import fsspec
import numpy as np
import pytest

from pipeline.execution.unit_record import Output
from pipeline.rows import Ragged, Rows
from pipeline.shards import open_shards, write_manifest, write_shard
from tests.shard_sets import change_manifest
from tests.tools.small_run import example_sets
from tools.validate_shards import main, validate

LABELS = [
    "bart", "causal_lm", "corrective_lm", "document_rotation", "masked_lm", "permuted_lm", "replaced_token_detection",
    "span_boundary", "span_corruption", "text_infilling", "unilm", "unilm_mixture", "whole_word_masking",
    "xlnet",
]  # fmt: skip


@pytest.fixture
def output(shard_sets, tmp_path) -> Path:
    return shutil.copytree(shard_sets, tmp_path / "out")


def rewrite(output: Path, label: str, change) -> tuple[Path, Path]:
    """The set again with changed rows (`change(block, rows) -> rows`), all hashes and counts right."""
    source, samples = example_sets(output)[label]
    shards = open_shards(source)
    manifest = shards.manifest
    folder = output / "corrupt" / "changed" / "train"
    folder.mkdir(parents=True)
    infos = []
    for number, facts in enumerate(manifest.shards):
        blocks = [change(int(b), shards.read_block(int(b))) for b in np.flatnonzero(shards.index.shard == number)]
        infos.append(
            write_shard(folder / facts.path, blocks, shards.columns, block_rows=manifest.block_rows,
                        container=manifest.container, codec="zstd")
        )  # fmt: skip
    plain = manifest.model_dump(mode="json")
    kept = {key: plain[key] for key in ("objective", "grouping", "variants", "languages", "parents", "config")}
    write_manifest(
        folder, name=manifest.name, kind="examples", seed=manifest.seed, tokenizer=plain["tokenizer"],
        columns=shards.columns, block_rows=manifest.block_rows, container=manifest.container, codec="zstd",
        shards=infos, output=Output(output), totals={"skipped": plain["totals"]["skipped"]}, **kept,
    )  # fmt: skip
    return folder / "manifest.json", samples


def changed(rows: Rows, name: str, row: int, place: int, value: int) -> Rows:
    """Rows with one value of a list column replaced."""
    column = rows.columns[name]
    values = column.values.copy()
    values[int(column.offsets[row]) + place] = value
    return rows.with_columns({**rows.columns, name: Ragged(values, column.offsets)})


def repeated(rows: Rows, name: str) -> Rows:
    """The third row's second value is its first."""
    return changed(rows, name, 2, 1, int(rows.columns[name][2][0]))


def at(block, change):
    """A change of one block only."""
    return lambda number, rows: change(rows) if number == block else rows


def fails(capsys, *arguments: object) -> str:
    assert main([str(argument) for argument in arguments]) == 65
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert "Traceback" not in error
    return error


@pytest.mark.parametrize("label", LABELS)
def test_every_example_set_is_whole_and_can_be_undone(shard_sets, label, capsys):
    manifest, samples = example_sets(shard_sets)[label]
    assert main([str(manifest), "--against", str(samples)]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"OK: {label}/train (examples, ")
    assert f"{len(open_shards(manifest)):,} examples restored" in out
    assert "tokens/s" in out


def test_sample_and_token_sets_are_whole(shard_sets):
    manifests = [*shard_sets.glob("group/*/*/manifest.json"), shard_sets / "encode"]
    assert len(manifests) > 6
    for manifest in manifests:
        assert validate(manifest).startswith("OK: ")


@pytest.mark.parametrize("label", ["masked_lm", "span_corruption"])
@pytest.mark.parametrize("kind", ["shard", "index", "manifest"])
def test_a_flipped_bit_anywhere_is_found_and_its_file_named(output, capsys, label, kind):
    manifest, _ = example_sets(output)[label]
    shard = sorted(manifest.parent.glob("shard-*"))[1]
    path = {"shard": shard, "index": manifest.parent / "index.arrow", "manifest": manifest}[kind]
    whole = path.read_bytes()
    chosen = random.Random(kind + label)
    for _ in range(25):
        damaged = bytearray(whole)
        place = chosen.randrange(len(whole))
        damaged[place] ^= 1 << chosen.randrange(8)
        path.write_bytes(damaged)
        assert str(path) in fails(capsys, manifest), f"bit in byte {place} of {len(whole)}"
    path.write_bytes(whole)
    assert main([str(manifest)]) == 0


def test_a_damaged_block_is_named(output, capsys):
    manifest, _ = example_sets(output)["masked_lm"]
    shards = open_shards(manifest)
    path = shards.shard_path(1)
    block = int(np.flatnonzero(shards.index.shard == 1)[2])
    damaged = bytearray(path.read_bytes())
    damaged[int(shards.index.offset[block]) + 700] ^= 16
    path.write_bytes(damaged)
    assert f"{path}: block 2: expected xxh3-128" in fails(capsys, manifest)


@pytest.mark.parametrize(
    ("damage", "code", "named"),
    [
        (lambda folder: (folder / "manifest.json").unlink(), 74, "no shard set here"),
        (lambda folder: (folder / "index.arrow").unlink(), 65, "index.arrow"),
        (lambda folder: next(folder.glob("shard-*")).unlink(), 65, "there is no such file"),
        (lambda folder: next(folder.glob("shard-*")).write_bytes(b"short"), 65, "got 5"),
        (lambda folder: (folder / "manifest.json").write_text("{"), 65, "not a manifest"),
    ],
)
def test_missing_and_truncated_files_end_in_one_message(output, capsys, damage, code, named):
    manifest, samples = example_sets(output)["masked_lm"]
    damage(manifest.parent)
    assert main([str(manifest), "--against", str(samples)]) == code
    error = capsys.readouterr().err
    assert named in error
    assert len(error.splitlines()) == 1


@pytest.mark.parametrize(
    ("label", "column", "place"),
    [
        ("masked_lm", "label_ids", 0),
        ("causal_lm", "input_ids", 3),
        ("span_corruption", "target_ids", 1),
        ("span_corruption", "input_ids", 0),
        ("bart", "target_ids", 2),
        ("document_rotation", "input_ids", 4),
        ("text_infilling", "target_ids", 0),
        ("whole_word_masking", "label_ids", 0),
        ("xlnet", "input_ids", 0),
        ("replaced_token_detection", "label_ids", 1),
    ],
)
def test_a_changed_id_with_right_hashes_is_found_against_the_samples(output, capsys, label, column, place):
    shards = open_shards(example_sets(output)[label][0])
    block, row = 2, 5
    rows = shards.read_block(block)
    old = int(rows.columns[column][row][place])
    special = {*shards.manifest.tokenizer.special_ids.values(), *shards.manifest.tokenizer.sentinels}
    new = next(token for token in range(599, 0, -1) if token != old and token not in special)
    manifest, samples = rewrite(output, label, at(block, lambda rows: changed(rows, column, row, place, new)))
    assert main([str(manifest)]) == 0
    capsys.readouterr()
    error = fails(capsys, manifest, "--against", samples)
    assert f"block {block}: row {row} (sample {int(rows.fixed['uid'][row]):016x}, variant 0" in error
    assert str(manifest.parent) in error


def swapped(rows: Rows) -> Rows:
    order = np.arange(len(rows))
    order[[3, 4]] = [4, 3]
    return rows.take(order)


def with_fixed(rows: Rows, name: str, row: int, value: int) -> Rows:
    column = rows.fixed[name].copy()
    column[row] = value
    return replace(rows, fixed={**rows.fixed, name: column})


@pytest.mark.parametrize(
    ("label", "change", "message"),
    [
        ("masked_lm", lambda rows: changed(rows, "label_positions", 2, 1, 0), "expected rising label_positions"),
        ("masked_lm", lambda rows: changed(rows, "label_positions", 2, -1, 900), "label_positions below the"),
        ("masked_lm", lambda rows: changed(rows, "label_ids", 2, 0, 3), "labels that are text"),
        ("masked_lm", lambda rows: with_fixed(rows, "language", 2, 7), "language: expected a code below 1, got 7"),
        ("masked_lm", lambda rows: with_fixed(rows, "variant", 2, 1), "expected variant 0 in this shard"),
        ("masked_lm", lambda rows: with_fixed(rows, "variant", 2, 9), "expected a variant below 2"),
        ("masked_lm", swapped, "in order of their uid's hash"),
        (
            "masked_lm",
            lambda rows: rows.take(np.array([0, 1, 2, 2, *range(4, len(rows))])),
            "the row before has the same",
        ),
        ("bart", lambda rows: changed(rows, "sentence_reordering_sentence_order", 2, 0, 5), "to be a permutation"),
        ("bart", lambda rows: changed(rows, "sentence_reordering_sentence_starts", 2, 0, 1), "to begin with 0"),
        ("text_infilling", lambda rows: changed(rows, "span_lengths", 2, 0, 60), "spans overlap"),
        ("span_corruption", lambda rows: changed(rows, "target_ids", 2, 0, 9), "sentinels of target_ids in order"),
        ("permuted_lm", lambda rows: changed(rows, "prediction_order", 2, 0, 0), "that of a special token"),
        ("permuted_lm", lambda rows: changed(rows, "prediction_order", 2, 0, 900), "prediction_order below the"),
        ("permuted_lm", lambda rows: repeated(rows, "prediction_order"), "each position once"),
        ("unilm", lambda rows: changed(rows, "attention", 2, 0, 4), "attention of 0 to 3, got [4]"),
        ("unilm", lambda rows: changed(rows, "attention", 2, 0, 1), "else 0; got"),
        ("unilm", lambda rows: changed(rows, "prefix_length", 2, 0, 900), "prefix_length inside the row"),
        ("span_boundary", lambda rows: changed(rows, "span_starts", 2, -1, 47), "spans that cover the labels"),
        ("span_boundary", lambda rows: changed(rows, "span_lengths", 2, -1, 1000), "tokens in spans"),
        ("corrective_lm", lambda rows: changed(rows, "crop_start", 2, 0, 46), "a crop inside the"),
        ("corrective_lm", lambda rows: changed(rows, "crop_length", 2, 0, 0), "a crop inside the"),
    ],
)
def test_rows_that_contradict_their_columns_are_found_without_samples(output, capsys, label, change, message):
    manifest, _ = rewrite(output, label, at(1, change))
    error = fails(capsys, manifest)
    assert message in error
    assert "block 1: row" in error


def test_ids_beyond_the_vocabulary_are_found(output, capsys):
    manifest, _ = rewrite(output, "causal_lm", at(1, lambda rows: changed(rows, "input_ids", 2, 0, 600)))
    assert "block 1: expected ids below the vocabulary's 600 in input_ids, got 600" in fails(capsys, manifest)


def test_examples_that_are_missing_are_counted(output, capsys):
    manifest, samples = rewrite(output, "causal_lm", at(6, lambda rows: rows.take(np.arange(len(rows) - 1))))
    assert main([str(manifest)]) == 0
    assert "examples + skipped" in fails(capsys, manifest, "--against", samples)


def test_sets_that_do_not_belong_together_are_refused(shard_sets, capsys):
    sets = example_sets(shard_sets)
    manifest, _ = sets["masked_lm"]
    for other, message in [(sets["causal_lm"][1], "come from the sample set packed-46-sep/train"),
                           (sets["causal_lm"][0], "expected a sample set, got one of examples")]:  # fmt: skip
        assert main([str(manifest), "--against", str(other)]) == 64
        assert message in capsys.readouterr().err
    assert main([str(sets["masked_lm"][1]), "--against", str(sets["masked_lm"][1])]) == 64
    assert "expected an example set, got a set of samples" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda totals: totals.update(tokens_by_language={"en": totals["tokens"] - 1}), "totals.tokens_by_language"),
        (lambda totals: totals.update(tokens_by_language={"de": totals["tokens"]}), "counted {'en': "),
        (
            lambda totals: totals["tokens_by_source"].update(default=1),
            "totals.tokens_by_source: expected {'default': 1}",
        ),
        (lambda totals: totals.update(tokens=totals["tokens"] + 1), "totals.tokens: expected"),
    ],
)
def test_totals_are_counted_again(output, capsys, change, message):
    assert validate(output / "encode").startswith("OK: ")
    change_manifest(output / "encode", lambda plain: change(plain["totals"]))
    assert message in fails(capsys, output / "encode")


def test_a_kind_without_its_column_is_no_such_set(output, capsys):
    change_manifest(output / "encode", lambda plain: plain["columns"][3].update(name="tokens"))
    assert "expected a list column token_ids in a set of tokens" in fails(capsys, output / "encode")


def test_the_longest_row_is_measured(output, capsys):
    manifest, _ = example_sets(output)["causal_lm"]
    change_manifest(manifest.parent, lambda plain: plain.update(max_length=plain["max_length"] + 1))
    assert "max_length: expected 49, longest row 48" in fails(capsys, manifest)


@pytest.fixture
def copied(output, tmp_path) -> tuple[Path, Path, Path]:
    """An example set and its samples away from their tokenizer, and the tokenizer in a place of its own."""
    manifest, samples = example_sets(output)["replaced_token_detection"]
    examples = shutil.copytree(manifest.parent, tmp_path / "copied/examples")
    origin = shutil.copytree(samples.parent, tmp_path / "copied/samples")
    return examples, origin, shutil.copytree(output / "train_tokenizer/tokenizer", tmp_path / "apart")


def test_a_set_without_its_tokenizer_is_checked_as_far_as_can_be(copied, capsys):
    examples, samples, _ = copied
    assert main([str(examples), "--against", str(samples)]) == 0
    out = capsys.readouterr().out
    assert "every hash and count agrees" in out
    assert "nothing was compared with it and no example was restored: give its folder with --tokenizer" in out
    assert main([str(examples)]) == 0
    assert "nothing was compared with it: give its folder with --tokenizer" in capsys.readouterr().out
    assert main([str(samples), "--against", str(samples)]) == 64
    assert "expected an example set" in capsys.readouterr().err


def test_a_tokenizer_elsewhere_is_named(copied, capsys):
    examples, samples, tokenizer = copied
    assert main([str(examples), "--against", str(samples), "--tokenizer", str(tokenizer)]) == 0
    assert f"{len(open_shards(examples)):,} examples restored" in capsys.readouterr().out
    assert main([str(samples), "--tokenizer", str(tokenizer)]) == 0
    assert "--tokenizer" not in capsys.readouterr().out


def test_a_set_in_a_store_is_checked_like_files(copied, capsys):
    """Every byte of its objects, and its examples against samples in the store."""
    store = fsspec.filesystem("memory")
    for folder in copied[:2]:
        for path in folder.iterdir():
            store.pipe_file(f"/validated/{folder.name}/{path.name}", path.read_bytes())
    sets = ["memory://validated/examples", "--against", "memory://validated/samples", "--tokenizer", str(copied[2])]
    assert main(sets) == 0
    assert f"{len(open_shards(copied[0])):,} examples restored" in capsys.readouterr().out
    shard = sorted(copied[0].glob("shard-*"))[1]
    whole = shard.read_bytes()
    for place, message in ((1600, "block 0: expected xxh3-128"), (-1, "expected SHA-256")):
        damaged = bytearray(whole)
        damaged[place] ^= 4
        store.pipe_file(f"/validated/examples/{shard.name}", bytes(damaged))
        error = fails(capsys, *sets)
        assert f"memory://validated/examples/{shard.name}" in error
        assert message in error


def test_a_wrong_tokenizer_is_refused(copied, capsys, tmp_path):
    examples, _, tokenizer = copied
    assert main([str(examples), "--tokenizer", str(tmp_path / "nothing")]) == 64
    assert "no tokenizer here" in capsys.readouterr().err
    change_manifest(examples, lambda plain: plain["tokenizer"].update(fingerprint="0" * 64))
    assert main([str(examples), "--tokenizer", str(tokenizer)]) == 64
    assert f"was made with {'0' * 64}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("key", "change"),
    [
        ("special_ids", lambda facts: facts["special_ids"].update(mask=facts["special_ids"]["pad"])),
        ("vocab_size", lambda facts: facts.update(vocab_size=facts["vocab_size"] + 1)),
        ("sentinels", lambda facts: facts.update(sentinels=facts["sentinels"][::-1])),
    ],
)
def test_a_manifest_that_misdescribes_its_tokenizer_is_found(output, capsys, key, change):
    manifest, _ = example_sets(output)["span_corruption"]
    change_manifest(manifest.parent, lambda plain: change(plain["tokenizer"]))
    assert f"{manifest}: tokenizer.{key}: expected" in fails(capsys, manifest)
