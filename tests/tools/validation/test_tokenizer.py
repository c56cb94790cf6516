"""Sets beside, above and away from their tokenizer."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pipeline.shards import open_shards
from tests.shard_sets import change_manifest
from tests.tools.rewritten_set import fails
from tests.tools.small_run import example_sets
from tools.validate_shards import main


@pytest.fixture
def output(shard_sets, tmp_path) -> Path:
    return shutil.copytree(shard_sets, tmp_path / "out")


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
