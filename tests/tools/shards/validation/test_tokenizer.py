"""Sets beside, above and away from their tokenizer."""

from __future__ import annotations

import shutil

import pytest

from clozeline.errors import ConfigurationError
from clozeline.pipeline.shards import open_shards
from clozeline.tools.shards.validate_shards import main
from tests.shard_sets import change_manifest
from tests.tools.rewritten_set import fails
from tests.tools.small_run import example_sets


def test_a_set_without_its_tokenizer_is_checked_and_restored(copied, capsys):
    """Of the tokenizer, undoing a corruption needs only what the manifest says."""
    examples, samples, _ = copied
    assert main([str(examples), "--against", str(samples)]) == 0
    out = capsys.readouterr().out
    assert "every hash and count agrees" in out
    assert "the manifest was not compared with it: give its folder with --tokenizer" in out
    assert f"{len(open_shards(examples)):,} examples restored" in out
    assert main([str(examples)]) == 0
    assert "the manifest was not compared with it: give its folder with --tokenizer" in capsys.readouterr().out
    assert main([str(samples), "--against", str(samples)]) == 64
    assert "expected an example set" in capsys.readouterr().err


def test_every_kind_of_example_is_restored_without_its_tokenizer(shard_sets, tmp_path, capsys):
    """And a wrong one is found all the same."""
    for label, (manifest, samples) in example_sets(shard_sets).items():
        examples = shutil.copytree(manifest.parent, tmp_path / label / "examples")
        origin = shutil.copytree(samples.parent, tmp_path / label / "samples")
        assert main([str(examples), "--against", str(origin)]) == 0, label
        assert f"{len(open_shards(examples)):,} examples restored" in capsys.readouterr().out


def test_examples_that_need_more_than_the_manifest_are_named(shard_sets, tmp_path, capsys, monkeypatch):
    """Mode tokens, for one, are in no manifest."""
    manifest, samples = example_sets(shard_sets)["masked_lm"]
    examples = shutil.copytree(manifest.parent, tmp_path / "examples")
    origin = shutil.copytree(samples.parent, tmp_path / "samples")

    def refused(*_: object) -> None:
        raise ConfigurationError("needs the mode token 'R'")

    monkeypatch.setattr("clozeline.tools.shards.validate_shards.RoundTrip", refused)
    assert main([str(examples), "--against", str(origin)]) == 0
    assert "and no example was restored (needs the mode token 'R')" in capsys.readouterr().out
    assert main([str(manifest), "--against", str(samples)]) == 64, "with its tokenizer it is an error"


def test_the_tokenizer_is_found_above_the_samples_and_through_links(output, tmp_path, capsys):
    """A set that was moved to a faster disk, alone or with a link in its former place."""
    manifest, samples = example_sets(output)["masked_lm"]
    moved = shutil.copytree(manifest.parent, tmp_path / "fast" / "set")
    assert main([str(moved), "--against", str(samples)]) == 0
    assert "--tokenizer" not in capsys.readouterr().out
    shutil.rmtree(manifest.parent)
    manifest.parent.symlink_to(moved)
    assert main([str(manifest.parent)]) == 0
    assert "--tokenizer" not in capsys.readouterr().out


def test_a_tokenizer_elsewhere_is_named(copied, capsys):
    examples, samples, tokenizer = copied
    assert main([str(examples), "--against", str(samples), "--tokenizer", str(tokenizer)]) == 0
    assert f"{len(open_shards(examples)):,} examples restored" in capsys.readouterr().out
    assert main([str(samples), "--tokenizer", str(tokenizer)]) == 0
    assert "--tokenizer" not in capsys.readouterr().out


@pytest.mark.parametrize("place", ["", "corrupt/masked_lm/train", "corrupt/masked_lm/train/manifest.json"])
def test_an_output_folder_or_another_set_of_it_may_be_named(copied, output, capsys, place):
    assert main([str(copied[0]), "--tokenizer", str(output / place)]) == 0
    assert "--tokenizer" not in capsys.readouterr().out


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
