"""The tokenizer of a set: found above it or where it is named, and what the manifest alone says of it."""

import shutil
from dataclasses import replace

import numpy as np
import pytest

from clozeline.errors import ConfigurationError
from clozeline.pipeline.shards import open_shards
from clozeline.pipeline.tokenize.tokenizers import load_tokenizer
from clozeline.pipeline.vocabulary import Vocabulary
from clozeline.tools.shards.provenance.tokenizer import tokenizer_folder, vocabulary_of_manifest
from clozeline.tools.shards.validate_shards import main
from tests.shard_sets import change_manifest
from tests.tools.rewritten_set import fails
from tests.tools.small_run import example_sets


def test_it_is_found_above_the_set_or_in_any_folder_that_leads_to_it(shard_sets, tmp_path):
    manifest = example_sets(shard_sets)["masked_lm"][0]
    shards, folder = open_shards(manifest), (shard_sets / "train_tokenizer" / "tokenizer").resolve()
    assert tokenizer_folder(shards).resolve() == folder
    moved = open_shards(shutil.copytree(manifest.parent, tmp_path / "moved"))
    with pytest.raises(ConfigurationError, match="no train_tokenizer/tokenizer above"):
        tokenizer_folder(moved)
    for given in (folder, shard_sets, shard_sets / "encode", manifest.parent):
        assert tokenizer_folder(moved, given).resolve() == folder
    with pytest.raises(ConfigurationError, match=rf"--tokenizer {tmp_path}: no tokenizer here"):
        tokenizer_folder(moved, tmp_path)


def test_another_tokenizer_is_refused(shard_sets, tmp_path):
    shards = open_shards(example_sets(shard_sets)["masked_lm"][0])
    other = shutil.copytree(shard_sets / "train_tokenizer" / "tokenizer", tmp_path / "other")
    replace(Vocabulary.load(other / "vocabulary.json"), fingerprint="0" * 64).save(other / "vocabulary.json")
    with pytest.raises(ConfigurationError, match=f"has the fingerprint {'0' * 64}, but .* was made with"):
        tokenizer_folder(shards, other)


def test_a_manifest_knows_size_and_special_ids_and_takes_each_piece_for_a_word(shard_sets):
    facts = open_shards(example_sets(shard_sets)["masked_lm"][0]).manifest.tokenizer
    whole = load_tokenizer(shard_sets / "train_tokenizer" / "tokenizer").vocabulary
    found = vocabulary_of_manifest(facts)
    assert (found.size, found.specials, found.sentinels, found.fingerprint) == (
        whole.size, whole.specials, whole.sentinels, whole.fingerprint,
    )  # fmt: skip
    assert not (found.special & ~whole.special).any()
    assert set(np.flatnonzero(found.special)) == {*whole.specials.values(), *whole.sentinels}
    assert (found.word_start == ~found.special).all()


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

    def refused(*_):
        raise ConfigurationError("needs the mode token 'R'")

    monkeypatch.setattr("clozeline.tools.shards.validate_shards.RoundTrip", refused)
    assert main([str(examples), "--against", str(origin)]) == 0
    assert "and no example was restored (needs the mode token 'R')" in capsys.readouterr().out
    assert main([str(manifest), "--against", str(samples)]) == 64, "with its tokenizer it is an error"


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
