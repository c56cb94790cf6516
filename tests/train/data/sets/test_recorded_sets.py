"""What a run directory keeps of its training sets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clozeline.errors import IntegrityError
from clozeline.pipeline.shards import open_shards
from clozeline.pipeline.tokenize.tokenizers import load_tokenizer
from clozeline.train.configuration.data import DataConfig
from clozeline.train.data.sets.recorded_sets import read_sets, record_sets, tokenizer_of_run
from clozeline.train.data.stream.phases import open_phases
from tests.crawled_chain import Chain
from tests.train.masked_set import write_masked_sets


def test_facts_and_tokenizer_are_those_of_the_set(chain: Chain, tmp_path: Path) -> None:
    manifest = chain.output / "corrupt" / "masked_lm" / "train" / "manifest.json"
    data = DataConfig(shards=manifest)
    record_sets(tmp_path, data, open_phases(data))
    (one,) = read_sets(tmp_path)
    shards = open_shards(manifest)
    assert one.objective == shards.manifest.objective
    assert (one.path, one.name, one.digest) == (str(manifest), shards.manifest.name, shards.digest)
    assert one.columns == tuple(spec.name for spec in shards.columns)
    folder = tokenizer_of_run(tmp_path, one)
    assert folder == tmp_path / "tokenizer"
    assert load_tokenizer(folder).vocabulary.fingerprint == shards.manifest.tokenizer.fingerprint
    (folder / "vocabulary.json").write_text("{}")
    record_sets(tmp_path, data, open_phases(data))
    assert load_tokenizer(folder).vocabulary.size == shards.manifest.tokenizer.vocab_size, "made whole by a start"


def test_samples_have_the_facts_of_the_examples_that_the_stream_makes(chain: Chain, tmp_path: Path) -> None:
    samples = chain.output / "group" / "packed-126-sep" / "train"
    data = DataConfig(shards=samples, corrupt=[{"name": "masked_lm", "max_length": 128}])  # type: ignore[list-item]
    record_sets(tmp_path, data, open_phases(data))
    (one,) = read_sets(tmp_path)
    assert one.objective.name == "masked_lm"
    assert {"input_ids", "label_positions", "label_ids"} <= set(one.columns)


def test_sets_without_a_tokenizer_and_damaged_facts(tmp_path: Path) -> None:
    manifest = write_masked_sets(tmp_path / "corrupt")
    data = DataConfig(shards=manifest)
    record_sets(tmp_path, data, open_phases(data))
    assert not (tmp_path / "tokenizer").exists()
    path = tmp_path / "sets.json"
    plain = json.loads(path.read_text())
    plain["sets"][0]["max_length"] += 1
    path.write_text(json.dumps(plain))
    with pytest.raises(IntegrityError, match=r"sets\.json: is missing or damaged"):
        read_sets(tmp_path)
