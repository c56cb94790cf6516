"""Each key of a published config.json is read as transformers reads it, or named.

An export writes it as it was.
"""

import json
from dataclasses import replace

import pytest
import torch

from clozeline.errors import ClozelineError
from clozeline.extensions.published.conversion.export import continue_published, export_checkpoint
from clozeline.extensions.published.conversion.published_texts import (
    find_published,
    store_published,
)
from clozeline.model.checkpoints.checkpoint import Checkpoint, build_checkpoint
from clozeline.model.checkpoints.reading import read_checkpoint
from tests.contracts import cases_about
from tests.extensions.published.peers import (
    CLASSES,
    MODEL_TYPES,
    TYPES,
    difference,
    edit_config,
    export_to,
    loaded,
    peer_of,
    saved,
    type_of,
)

ELSEWHERE = {
    "architectures",
    "model_type",
    "id2label",
    "label2id",
    "return_dict",
    "is_encoder_decoder",
    "dtype",
    "pad_token_id",
}
"""Keys with tests of their own, and those that change what a class returns, not what it
computes."""
NEUTRAL = (
    "initializer_range",
    "use_cache",
    "summary_type",
    "classifier_dropout",
    "chunk_size_feed_forward",
    "max_length",
)
"""Some keys that change no logits of a pretraining head."""


def published(folder):
    """Content of config.json, and the model as an import reads it."""
    content = json.loads((folder / "config.json").read_text())
    return content, replace(read_checkpoint(folder), published=find_published(folder))


def other_values(value):
    """Values of a key that differ from the one that it has; many classes refuse some of them."""
    match value:
        case bool():
            return [not value]
        case int():
            return [value + 1, 2 * value]
        case float():
            return [3 * value + 0.25]
        case str():
            return ["gelu", "relu", "tanh", "first", "mean"]
        case None:
            return [0.5, 3, True]
        case list():
            return [value[::-1], value[:1]]

    return []


@pytest.mark.parametrize("case", cases_about(MODEL_TYPES, CLASSES, type_of))
def test_what_nothing_changes_is_written_back(tmp_path, case):
    saved(tmp_path, case)
    edit_config(tmp_path, no_class_has_it=[1], **dict.fromkeys(NEUTRAL, 1))
    content, checkpoint = published(tmp_path)
    assert any("no_class_has_it" in note for note in checkpoint.notes)
    assert export_checkpoint(checkpoint).config == content


@pytest.mark.slow
@pytest.mark.parametrize("model_type", cases_about(MODEL_TYPES, TYPES, type_of))
def test_each_key_of_a_class_is_read_as_the_class_reads_it_or_named(tmp_path, model_type):
    """Another value of a key gives the logits of transformers, also after an export, unless it is
    refused or named."""
    theirs = saved(tmp_path / "in", model_type)
    known = theirs.config.to_dict()
    plain = json.loads((tmp_path / "in/config.json").read_text())
    name = peer_of(model_type).name
    seen = 0

    for key in sorted(known.keys() - ELSEWHERE):
        for number, value in enumerate(other_values(known[key])):
            (tmp_path / "in/config.json").write_text(json.dumps(plain | {key: value}))

            try:
                changed, report = loaded(tmp_path / "in", name)
                content, checkpoint = published(tmp_path / "in")
            except Exception:  # whatever a class raises
                continue

            if report or checkpoint.absent or any(key in note for note in checkpoint.notes):
                continue  # the weights are those of another model, or the key is named
            model = build_checkpoint(checkpoint)
            export = export_checkpoint(checkpoint)

            assert difference(model, changed) < 1e-4, (key, value)

            again, report = loaded(
                export_to(tmp_path / f"{key} {number}", export), export.config["architectures"][0]
            )

            assert (report, difference(model, again) < 1e-4) == ({}, True), (key, value)

            written = {
                other for other in content if export.config.get(other, value) != content[other]
            }

            assert written <= {"architectures"}, (key, value)

            seen += 1

    assert seen > 8


def test_a_run_changes_what_it_trains(tmp_path):
    """Its tensors decide dtype and rows.

    Its tokenizer adds ids, and those of the publisher stay.
    """
    saved(tmp_path / "in", "bert", pad_token_id=3)
    edit_config(tmp_path / "in", custom=7, dtype="bfloat16")
    content, checkpoint = published(tmp_path / "in")
    store_published(tmp_path / "in", tmp_path)
    rows = content["vocab_size"] + 2
    width = content["hidden_size"]
    larger = dict(checkpoint.tensors)
    larger["family.tokens.weight"] = torch.cat(
        [larger["family.tokens.weight"], torch.ones(2, width)]
    )
    larger["heads.masked_lm.projection.bias"] = torch.zeros(rows)
    ids = {"pad_token_id": 3, "eos_token_id": None, "sep_token_id": rows - 1}
    trained = Checkpoint(checkpoint.config, rows, larger, ids, None, ())
    found = export_checkpoint(continue_published(trained, find_published(tmp_path))).config

    assert found == content | {"vocab_size": rows, "dtype": "float32", "sep_token_id": rows - 1}


def test_another_type_starts_anew(tmp_path):
    saved(tmp_path / "in", "roberta")
    edit_config(tmp_path / "in", custom=7)
    _, checkpoint = published(tmp_path / "in")
    export = export_checkpoint(checkpoint, model_type="xlm-roberta")

    assert export.config["model_type"] == "xlm-roberta"
    assert "custom" not in export.config

    again, report = loaded(export_to(tmp_path / "out", export), "XLMRobertaForMaskedLM")

    assert (report, difference(build_checkpoint(checkpoint), again) < 1e-5) == ({}, True)


def test_a_damaged_record_of_a_run_is_named(tmp_path):
    saved(tmp_path / "in", "bert")
    store_published(tmp_path / "in", tmp_path)
    (file,) = tmp_path.glob("*.json")
    file.write_text(file.read_text().replace("hidden_size", "hidden_sizes"))
    with pytest.raises(ClozelineError, match=file.name):
        find_published(tmp_path)
