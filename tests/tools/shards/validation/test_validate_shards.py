"""Damage of every kind is found and named, in one message."""

import json
import shutil

import numpy as np
import pytest

from clozeline.pipeline.shards import open_shards
from clozeline.tools.shards.quarantine_blocks import main as quarantine_blocks
from clozeline.tools.shards.quarantine_blocks import put_in_quarantine
from clozeline.tools.shards.validate_shards import main as validate_shards
from clozeline.tools.shards.validate_shards import validate
from tests.shard_sets import change_manifest, toy_set
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

    assert "block 1: expected ids below the vocabulary's 600 in input_ids, got 600" in fails(
        capsys, manifest
    )


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


def damage(path, place):
    raw = bytearray(path.read_bytes())
    raw[place] ^= 16
    path.write_bytes(raw)


@pytest.mark.parametrize("container", ["arrow", "tar"])
def test_damaged_blocks_are_put_in_quarantine(tmp_path, capsys, container):
    shards = toy_set(tmp_path, [12, 8], container=container)

    for block in (1, 4):
        damage(
            shards.shard_path(int(shards.index.shard[block])), int(shards.index.offset[block]) + 300
        )

    assert quarantine_blocks([str(tmp_path)]) == 0
    assert "2 blocks put in quarantine, 0 were there before" in capsys.readouterr().out

    entries = json.loads((tmp_path / "quarantine.json").read_text())["blocks"]
    names = [facts.path for facts in shards.manifest.shards]

    assert [(entry["shard"], entry["block"]) for entry in entries] == [(names[0], 1), (names[1], 1)]
    assert all(entry["reason"].startswith("expected xxh3-128 ") for entry in entries)
    assert (open_shards(tmp_path).digest, open_shards(tmp_path).quarantined) == (
        shards.digest,
        {1, 4},
    )


def test_a_lost_shard_and_a_short_one(tmp_path):
    shards = toy_set(tmp_path, [12, 8, 5])
    shards.shard_path(1).unlink()
    path = shards.shard_path(2)
    path.write_bytes(path.read_bytes()[:-1])
    before, new = put_in_quarantine(tmp_path / "manifest.json")

    assert before == []
    assert [
        (
            entry["shard"][:11],
            entry["block"],
            entry["reason"][:13],
        )
        for entry in new
    ] == [
        ("shard-00001", 0, "the shard is "),
        ("shard-00001", 1, "the shard is "),
        ("shard-00002", 0, "the shard has"),
        ("shard-00002", 1, "the shard has"),
    ]
    assert open_shards(tmp_path).quarantined == {3, 4, 5, 6}


def test_what_stands_in_quarantine_stays_and_nothing_is_listed_twice(tmp_path, capsys):
    shards = toy_set(tmp_path, [12, 8])
    name = shards.manifest.shards[0].path
    mine = [
        {"shard": name, "block": 2, "reason": "spam"},
        {"shard": name, "block": 0, "reason": "doubtful"},
    ]
    (tmp_path / "quarantine.json").write_text(json.dumps(mine))
    for block in (0, 1):
        damage(shards.shard_path(0), int(shards.index.offset[block]) + 300)
    for added in (1, 0):
        assert quarantine_blocks([str(tmp_path)]) == 0
        assert f"{added} block" in capsys.readouterr().out
        entries = json.loads((tmp_path / "quarantine.json").read_text())["blocks"]
        assert entries[:2] == mine
        assert [entry["block"] for entry in entries] == [2, 0, 1]


def test_a_set_in_a_store_is_refused(capsys):
    assert quarantine_blocks(["memory://nowhere/set"]) == 64
    assert "copy the set here first" in capsys.readouterr().err


def test_what_was_checked_is_printed_as_json(shard_sets, capsys):
    manifest, samples = example_sets(shard_sets)["masked_lm"]
    assert validate_shards([str(manifest), "--against", str(samples), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["rows"], found["restored"]) == (len(open_shards(manifest)),) * 2
