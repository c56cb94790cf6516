from __future__ import annotations

import shutil

import pytest

from clozeline.pipeline.shards import Manifest
from clozeline.tools.shards.diff_manifests import differences, main
from clozeline.tools.shards.repack_shards import form_of, repack
from tests.shard_sets import IDS, TOKENIZER, objective, toy_set
from tests.tools.small_run import example_sets, plain_text


@pytest.fixture(autouse=True)
def wide(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")


def test_a_copy_is_equal(shard_sets, tmp_path, capsys):
    folder = example_sets(shard_sets)["masked_lm"][0].parent
    copy = shutil.copytree(folder, tmp_path / "copy")
    assert main([str(folder), str(copy)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("equal: masked_lm/train, 212 rows in 4 shards")
    assert "same digest" in out


@pytest.mark.parametrize(
    ("change", "fields"),
    [
        ({"objective": objective("decoder", rate=0.2)}, {"objective.options.rate": ("0.15", "0.2")}),
        ({"tokenizer": {**TOKENIZER, "fingerprint": "e" * 64}},
         {"tokenizer.fingerprint": (f"{'f' * 16}…", f"{'e' * 16}…")}),
        ({"seed": 2}, {"seed": ("1", "2")}),
        ({"name": "other"}, {"name": ("toy/train", "other")}),
        ({"parents": [{"name": "a", "digest": "b", "role": "samples"}]},
         {"parents.a": ("absent", "digest b, role samples")}),
        ({"config": {"rate": 1}}, {"config.rate": ("absent", "1")}),
        ({"columns": (type(IDS)("input_ids", "uint16", "list", "other words"),)},
         {"columns.input_ids.description": ("token ids", "other words")}),
    ],
)  # fmt: skip
def test_each_difference_is_named_with_both_values(tmp_path, capsys, change, fields):
    plain = {"objective": objective("decoder", rate=0.15)}
    first = toy_set(tmp_path / "first", [9, 3], **plain)
    second = toy_set(tmp_path / "second", [9, 3], **{**plain, **change})
    found = {one.field: (one.left, one.right) for one in differences(first.manifest, second.manifest)}
    assert found == fields
    provenance = {field.split(".")[0] for field in fields} <= {"parents", "config"}
    assert main([str(first.path), str(second.path)]) == (0 if provenance else 1)
    shown = plain_text(capsys.readouterr().out)
    assert all(f"{field} {left} {right}" in shown for field, (left, right) in fields.items())


def test_other_rows_differ_in_counts_and_hashes(tmp_path, capsys):
    first, second = toy_set(tmp_path / "first", [9, 3]), toy_set(tmp_path / "second", [9, 4])
    fields = [one.field for one in differences(first.manifest, second.manifest)]
    assert {"totals.samples", "totals.tokens", "index.sha256"} <= set(fields)
    assert not any("shard-00000" in field for field in fields)
    assert main([str(first.path), str(second.path), "--most", "1"]) == 1
    shown = plain_text(capsys.readouterr().out)
    assert "totals.samples 12 13" in shown
    assert "shards: " in shown
    assert "another data set" in shown


def test_columns_in_another_order_are_another_schema(tmp_path):
    manifest = toy_set(tmp_path, [4]).manifest
    turned = manifest.model_copy(update={"columns": manifest.columns[::-1]})
    assert [one.field for one in differences(manifest, turned)] == ["order of columns"]


def test_mistakes_end_in_one_message(tmp_path, capsys):
    folder = toy_set(tmp_path / "set", [4]).path.parent
    assert main([str(folder)]) == 64
    assert main([str(folder), str(tmp_path)]) == 74
    (folder / "manifest.json").write_text("{}")
    assert main([str(folder), str(folder)]) == 65
    assert len(capsys.readouterr().err.splitlines()) == 3


@pytest.mark.parametrize(("rows", "order"), [(4, "is the same"), (3, "is different")])
def test_a_repacked_set_is_known_as_such(tmp_path, capsys, rows, order):
    first = toy_set(tmp_path / "first", [9])
    repack(first, tmp_path / "second", form_of(first.manifest, "tar", block_rows=rows))
    for pair in (["first", "second"], ["second", "first"]):
        assert main([str(tmp_path / name) for name in pair]) == 1
        verdict = capsys.readouterr().out.splitlines()[-1]
        assert "one is the other repacked: the same rows" in verdict
        assert order in verdict


def test_parents_of_one_name_are_told_apart(tmp_path):
    parents = [{"name": "a", "digest": digest, "role": "merged"} for digest in ("b", "c")]
    first = toy_set(tmp_path / "first", [4], parents=parents)
    second = toy_set(tmp_path / "second", [4], parents=[parents[0], {**parents[1], "digest": "d"}])
    assert [(one.field, one.left, one.right) for one in differences(first.manifest, second.manifest)] == [
        ("parents.a (1).digest", "c", "d")
    ]


def test_a_manifest_does_not_differ_from_itself(shard_sets):
    for manifest, _ in example_sets(shard_sets).values():
        assert differences(Manifest.load(manifest), Manifest.load(manifest)) == []
