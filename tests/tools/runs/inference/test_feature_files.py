"""Vectors of texts in files: framed as in training, in their order, whatever the batches; files that are damaged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

import clozeline.model.scoring.features
import clozeline.tools.runs.inference.feature_files
from clozeline.errors import ConfigurationError, IntegrityError, NewerFormatError
from clozeline.sealed_json import seal
from clozeline.tools.runs.inference.feature_files import Extraction, Features, open_features, write_features
from clozeline.tools.runs.inference.text_likelihoods import word_spans
from clozeline.train.startup.open_run import Run, open_run
from tests.train.written_runs import write_run

TEXTS = [
    ("a:1", "the page of the book is long é."),
    ("a:2", "a"),
    ("b.txt", "another page, of another book " * 3),
    ("a:4", "book"),
    ("a:5", "Мама мыла раму 我们 喜欢"),
]


@pytest.fixture(scope="module")
def encoder(shard_sets: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Run]:
    run = tmp_path_factory.mktemp("featured")
    write_run(run, shard_sets, [3], 1)
    return run, open_run(run)


def written(run: tuple[Path, Run], folder: Path, **changes: Any) -> Features:
    chosen = Extraction(**{"layer": "last", "pool": "mean", "precision": "f32", "max_length": 40} | changes)
    write_features(folder, run[1], run[1].objectives[0], TEXTS, chosen, {"step": 3})
    return open_features(folder)


def row_of(trained: Run, text: str, room: int) -> torch.Tensor:
    """States of a row alone: [CLS], the text, [SEP]."""
    vocabulary = trained.tokenizer.vocabulary
    ids = trained.tokenizer.encode([text])[0].ids[:room].tolist()
    row = torch.tensor([[vocabulary.specials["cls"], *ids, vocabulary.specials["sep"]]])
    places = torch.arange(row.shape[1])[None]
    with torch.no_grad():
        states: torch.Tensor = trained.model.family(
            {"input_ids": row, "position_ids": places, "lengths": torch.tensor(row.shape[1])}
        )
    return states[0]


@pytest.mark.parametrize("pool", ["cls", "mean", "max", "last"])
def test_texts_in_their_order(encoder: tuple[Path, Run], tmp_path: Path, pool: str) -> None:
    found = written(encoder, tmp_path, pool=pool, max_length=12)
    assert found.uids == [name for name, _ in TEXTS]
    assert found.texts == [text for _, text in TEXTS]
    for (_, text), vector in zip(TEXTS, found.vectors, strict=True):
        states = row_of(encoder[1], text, 10)
        plain = {"cls": states[0], "last": states[-1], "mean": states.mean(0), "max": states.max(0).values}
        assert np.abs(vector - plain[pool].numpy()).max() < 1e-5
    encoded = encoder[1].tokenizer.encode([text for _, text in TEXTS])
    assert found.facts["truncated"] == sum(len(one.ids) > 10 for one in encoded) > 0
    assert (found.facts["texts"], found.facts["rows"], found.facts["width"]) == (5, 5, found.vectors.shape[1])


def test_tokens_and_words(encoder: tuple[Path, Run], tmp_path: Path) -> None:
    trained = encoder[1]
    tokens, words = (written(encoder, tmp_path / pool, pool=pool) for pool in ("token", "first_subword"))
    for name, text in TEXTS:
        encoded, states = trained.tokenizer.encode([text])[0], row_of(trained, text, 38)
        rows = [row for row, uid in enumerate(tokens.uids) if uid == name]
        assert [tokens.positions[row] for row in rows] == list(range(min(38, len(encoded.ids))))
        assert [tokens.texts[row] for row in rows] == [trained.tokenizer.piece(int(one)) for one in encoded.ids[:38]]
        assert np.abs(tokens.vectors[rows] - states[1:-1].numpy()).max() < 1e-5
        pieces = [trained.tokenizer.piece(int(one)) for one in encoded.ids]  # a character for each byte
        holder = [number for number, piece in enumerate(pieces) for _ in piece]
        spans, of_words = word_spans(text), [row for row, uid in enumerate(words.uids) if uid == name]
        for row in of_words:
            start, end = spans[words.positions[row]]
            assert words.texts[row] == text[start:end]
            place = holder[len(text[:start].encode())]
            assert np.abs(words.vectors[row] - states[1 + place].numpy()).max() < 1e-5
        assert len(of_words) == len({*(words.positions[row] for row in of_words)}) <= len(spans)
    assert words.texts[:8] == ["the", "page", "of", "the", "book", "is", "long", "é"]


def test_batches_change_the_rounding_alone(
    encoder: tuple[Path, Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = written(encoder, tmp_path / "whole", pool="token", layer="1")
    monkeypatch.setattr(clozeline.tools.runs.inference.feature_files, "_BATCH", 1)
    single = written(encoder, tmp_path / "single", pool="token", layer="1")
    assert (whole.uids, whole.positions, whole.texts) == (single.uids, single.positions, single.texts)
    assert np.abs(whole.vectors - single.vectors).max() < 1e-5
    half = written(encoder, tmp_path / "half", pool="token", layer="1", precision="f16")
    assert np.abs(whole.vectors - half.vectors).max() < 1e-2
    with pa.memory_map(str(tmp_path / "half" / "features.arrow")) as mapped:
        table = pa.ipc.open_file(mapped).read_all()
    assert table.schema.field("vector").type == pa.list_(pa.float16(), 20)
    assert set(table["layer"].to_pylist()) == {"1"}
    assert set(table["pool"].to_pylist()) == {"token"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"layer": "9"}, "layer=9: expected"),
        ({"max_length": 2}, "max_length: expected room for more than special tokens, got 2"),
    ],
    ids=["layer", "length"],
)
def test_what_cannot_be_extracted(
    encoder: tuple[Path, Run], tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises((ConfigurationError, clozeline.model.scoring.features.ConfigurationError), match=message):
        written(encoder, tmp_path, **changes)
    assert not list(tmp_path.iterdir())


def test_a_decoder_has_no_first_special_token_to_read(shard_sets: Path, tmp_path: Path) -> None:
    """Packed rows follow </s>; a text without a token is counted."""
    run = tmp_path / "run"
    run.mkdir()
    write_run(run, shard_sets, [3], 1, "causal_lm", model__family="decoder", model__heads={"lm": 1.0})
    trained = open_run(run)
    facts = trained.objectives[0]
    chosen = Extraction("last", "last", "f32", 40)
    said = write_features(tmp_path / "out", trained, facts, [*TEXTS, ("empty", "")], chosen, {})
    assert (said["rows"], said["empty"]) == (6, 1)
    with pytest.raises(ConfigurationError, match="expected a text, got none"):
        write_features(tmp_path / "none", trained, facts, [], chosen, {})
    assert not list((tmp_path / "none").glob("*"))


def test_damaged_files(encoder: tuple[Path, Run], tmp_path: Path) -> None:
    with pytest.raises(
        ConfigurationError, match=r"found no features\.json: give an output of clozeline extract-features"
    ):
        open_features(tmp_path)
    written(encoder, tmp_path)
    manifest, file = tmp_path / "features.json", tmp_path / "features.arrow"
    text = manifest.read_text(encoding="utf-8")
    manifest.write_text(text.replace('"mean"', '"last"'), encoding="utf-8")
    with pytest.raises(IntegrityError, match="is damaged: checksum"):
        open_features(tmp_path)
    manifest.write_text("{", encoding="utf-8")
    with pytest.raises(IntegrityError, match="extract the features again"):
        open_features(tmp_path)
    manifest.write_text("{}", encoding="utf-8")
    with pytest.raises(IntegrityError, match=r"features\.json: is damaged"):
        open_features(tmp_path)
    plain = {name: value for name, value in json.loads(text).items() if name != "checksum"}
    manifest.write_text(json.dumps(seal(plain | {"format": 2})), encoding="utf-8")
    with pytest.raises(NewerFormatError, match="format 2 of a newer version"):
        open_features(tmp_path)
    manifest.write_text(text, encoding="utf-8")
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    with pytest.raises(IntegrityError, match="is missing or not what"):
        open_features(tmp_path)
