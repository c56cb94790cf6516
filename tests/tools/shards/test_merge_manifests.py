"""Sets that agree become one that passes every check; sets that do not are refused by the field that differs."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

import pytest

from clozeline.pipeline.shards import Manifest, ShardSet, open_shards
from clozeline.pipeline.shards.manifest import ManifestError
from clozeline.tools.shards.merge_manifests import main, merge
from clozeline.tools.shards.repack_shards import form_of, repack
from clozeline.tools.shards.validate_shards import validate
from tests.shard_sets import IDS, TOKENIZER, objective, rows, toy_set, write_set
from tests.tools.small_run import example_sets


def identities(shards: ShardSet) -> list[tuple[int, int]]:
    found = []
    for block in range(len(shards.index)):
        fixed = shards.read_block(block).fixed
        found += list(zip(fixed["uid"].tolist(), fixed["variant"].tolist(), strict=True))
    return found


def test_training_and_held_out_become_one_that_can_be_undone(shard_sets, tmp_path):
    train, samples = example_sets(shard_sets)["causal_lm"]
    heldout, other = (path.parent.parent / "heldout" / "manifest.json" for path in (train, samples))
    shutil.copytree(shard_sets / "train_tokenizer", tmp_path / "train_tokenizer")
    merged = merge([train, heldout], tmp_path / "examples", "all")
    merge([samples, other], tmp_path / "samples", "all samples")
    parts = [open_shards(train), open_shards(heldout)]
    assert identities(open_shards(tmp_path / "examples")) == [one for part in parts for one in identities(part)]
    assert merged.totals.tokens == sum(part.manifest.totals.tokens for part in parts)
    assert merged.totals.tokens_by_language == {"en": merged.totals.tokens}
    assert [(one.name, one.digest, one.role) for one in merged.parents] == [
        (part.manifest.name, part.digest, "merged") for part in parts
    ]
    assert [one["name"] for one in merged.config["merged"]] == [part.manifest.name for part in parts]
    assert f"{merged.totals.samples} examples restored" in validate(tmp_path / "examples", tmp_path / "samples")


def with_variants(folder: Path, first_uid: int, shards: int) -> ShardSet:
    """Two variants of each of `shards` sample shards of three rows."""
    contents = []
    for variant in range(2):
        for shard in range(shards):
            content = rows(range(first_uid + 3 * shard, first_uid + 3 * shard + 3))
            content.fixed["variant"][:] = variant
            contents.append(content)
    return write_set(folder, contents, variants=2, name=folder.name)


def test_variants_stay_with_their_shards(tmp_path):
    sets = [with_variants(tmp_path / "first", 1, 2), with_variants(tmp_path / "second", 100, 3)]
    merged = merge([one.path for one in sets], tmp_path / "out", "both")
    found = identities(open_shards(tmp_path / "out"))
    uids = [*range(1, 7), *range(100, 109)]
    assert found == [(uid, variant) for variant in range(2) for uid in uids]
    assert len(merged.shards) == 10


def test_shards_are_linked_or_copied(tmp_path, monkeypatch):
    sets = [toy_set(tmp_path / "first", [9, 2]), toy_set(tmp_path / "second", [5], name="other")]
    paths = [one.path for one in sets]
    linked = merge(paths, tmp_path / "linked", "both")
    copied = merge(paths, tmp_path / "copied", "both", copy=True)

    def refuse(self, target):
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    merge(paths, tmp_path / "across", "both")
    assert linked.digest == copied.digest == Manifest.load(tmp_path / "across").digest
    assert linked.max_length == 8
    source = sets[0].shard_path(0)
    for folder, links in (("linked", True), ("copied", False), ("across", False)):
        target = open_shards(tmp_path / folder, verify="shard").shard_path(0)
        assert target.name == "shard-00000-of-00003.arrow"
        assert target.samefile(source) == links


def test_a_damaged_shard_is_refused_and_leaves_nothing(tmp_path):
    sets = [toy_set(tmp_path / "first", [9, 2]), toy_set(tmp_path / "second", [5], name="other")]
    shard = sets[1].shard_path(0)
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 1
    shard.write_bytes(content)
    with pytest.raises(ManifestError, match=r"second/shard-00000-of-00001\.arrow: expected SHA-256"):
        merge([one.path for one in sets], tmp_path / "both", "both")
    assert not (tmp_path / "both").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"objective": objective("decoder", rate=0.2)}, "objective.options.rate: expected 0.1 as in"),
        ({"tokenizer": {**TOKENIZER, "fingerprint": "e" * 64}}, "tokenizer.fingerprint: expected ffffffffffffffff"),
        ({"columns": (type(IDS)("input_ids", "uint32", "list", "token ids"),)},
         "columns.input_ids.arrow_type: expected list<uint16>"),
        ({"languages": ("en", "de")}, "languages: expected ['en'] as in"),
        ({"block_rows": 5}, "block_rows: expected 4 as in"),
        ({"codec": "zstd"}, "compression.codec: expected none as in"),
        ({"container": "tar"}, "container: expected arrow as in"),
        ({"variants": 2}, "variants: expected 1 as in"),
    ],
)  # fmt: skip
def test_sets_that_do_not_agree_are_refused(tmp_path, capsys, change, message):
    plain = {"objective": objective("decoder", rate=0.1), "languages": ("en",)}
    first = toy_set(tmp_path / "first", [9], **plain)
    second = toy_set(tmp_path / "second", [9], **{**plain, **change})
    assert main([str(first.path), str(second.path), "--output", str(tmp_path / "out"), "--name", "both"]) == 64
    error = capsys.readouterr().err
    assert message in error
    assert str(second.path) in error
    assert ("repack-shards" in error) == (next(iter(change)) in ("block_rows", "codec", "container"))
    assert not (tmp_path / "out").exists()


def test_repacking_makes_sets_agree(tmp_path):
    first, second = toy_set(tmp_path / "first", [9]), toy_set(tmp_path / "second", [7], container="tar", codec="zstd")
    repack(second, tmp_path / "repacked", form_of(second.manifest, "arrow", "none"))
    merge([first.path, tmp_path / "repacked"], tmp_path / "out", "both")
    assert len(open_shards(tmp_path / "out", verify="shard")) == 16


def test_rows_that_would_come_twice_are_refused(tmp_path, capsys):
    """The same shards under another manifest, a repacked copy, and a part of what was merged."""
    first, other = toy_set(tmp_path / "first", [9]), toy_set(tmp_path / "other", [5, 3], name="other")
    again = toy_set(tmp_path / "again", [9], name="another name")
    repack(first, tmp_path / "repacked", form_of(first.manifest, block_rows=4, codec="zstd"))
    repack(open_shards(tmp_path / "repacked"), tmp_path / "back", form_of(first.manifest, level=None))
    merge([first.path, other.path], tmp_path / "merged", "both")
    for one in (again.path, tmp_path / "back", tmp_path / "merged"):
        for pair in ([first.path, one], [one, first.path]):
            assert main([*map(str, pair), "--output", str(tmp_path / "out"), "--name", "all"]) == 64
            assert "read twice an epoch" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_sets_may_share_their_names(tmp_path):
    first, second = toy_set(tmp_path / "first", [9]), toy_set(tmp_path / "second", [8, 4])
    assert first.manifest.name == second.manifest.name
    merged = merge([first.path, second.path], tmp_path / "out", "both")
    assert [parent.digest for parent in merged.parents] == [first.digest, second.digest]
    assert merged.totals.samples == 21


def test_mistakes_end_in_one_message(shard_sets, tmp_path, capsys):
    first = str(toy_set(tmp_path / "first", [9]).path)
    out = ["--output", str(tmp_path / "out"), "--name", "both"]
    assert main([first, first, *out]) == 64
    assert main([first, str(tmp_path / "nowhere"), *out]) == 74
    assert main([str(shard_sets / "encode"), *out]) == 64
    assert main([first, "--output", str(tmp_path / "first"), "--name", "both"]) == 64
    assert main([first, "--output", str(tmp_path / "out")]) == 64
    assert main([first, "--output", str(tmp_path / "out"), "--name", ""]) == 64
    lines = capsys.readouterr().err.splitlines()
    expected = (
        "name only one of them", "no shard set here", "token sets", "holds a shard set already", "--name", "--name: ex",
    )  # fmt: skip
    assert not (tmp_path / "out").exists()
    assert all(words in line for words, line in zip(expected, lines, strict=True))
