"""Damage of every kind is found and named, in one message."""

from __future__ import annotations

import random
import shutil

import fsspec
import numpy as np
import pytest

from clozeline.pipeline.shards import open_shards
from clozeline.tools.shards.validate_shards import main, validate
from tests.tools.rewritten_set import fails
from tests.tools.small_run import example_sets

LABELS = [
    "bart", "causal_lm", "corrective_lm", "document_rotation", "masked_lm", "permuted_lm", "replaced_token_detection",
    "span_boundary", "span_corruption", "text_infilling", "unilm", "unilm_mixture", "whole_word_masking",
    "xlnet",
]  # fmt: skip


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


DAMAGE = {
    "gone": lambda data: None,
    "empty": lambda data: b"",
    "half": lambda data: data[: len(data) // 2],
    "a bit": lambda data: data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 1]) + data[len(data) // 2 + 1 :],
    "the last byte": lambda data: data[:-1] + bytes([data[-1] ^ 1]),
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("apart", [False, True])
def test_a_damaged_tokenizer_is_found_and_its_file_named(output, tmp_path, capsys, damage, apart):
    """Each file of the tokenizer, where the run wrote it and in a copy, where no record tells its hash."""
    manifest, _ = example_sets(output)["masked_lm"]
    folder = output / "train_tokenizer" / "tokenizer"
    given = [] if not apart else ["--tokenizer", str(shutil.copytree(folder, tmp_path / "apart"))]
    files = sorted((tmp_path / "apart" if apart else folder).iterdir())
    assert len(files) == 4
    for path in files:
        whole = path.read_bytes()
        damaged = DAMAGE[damage](whole)
        if damaged is None:
            path.unlink()
        else:
            path.write_bytes(damaged)
        code = main([str(manifest), *given])
        error = capsys.readouterr().err
        assert code in (64, 65), path
        assert str(path) in error or (damaged is None and str(path.parent) in error), error
        assert len(error.splitlines()) == 1
        path.write_bytes(whole)
    assert main([str(manifest), *given]) == 0
