"""A directory is read whole, or refused with the reason."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from clozeline.errors import ClozelineError, ConfigurationError, WeightsError
from clozeline.model.checkpoints import build_checkpoint, read_checkpoint
from tests.model.checkpoints.published import edit_config, saved


@pytest.fixture
def folder(tmp_path):
    saved(tmp_path, "bert", tie_word_embeddings=True)
    return tmp_path


def change(folder, edit):
    """Let a function change the tensors of a directory."""
    path = folder / "model.safetensors"
    tensors = load_file(path)
    edit(tensors)
    save_file(tensors, path)


def refused(folder, kind=WeightsError):
    with pytest.raises(kind) as caught:
        read_checkpoint(folder)
    return str(caught.value)


NORM = "bert.embeddings.LayerNorm.weight"
TABLE = "bert.embeddings.word_embeddings.weight"


def test_a_missing_tensor_is_named(folder):
    change(folder, lambda tensors: tensors.pop(NORM))
    assert f"1 tensors are missing: {NORM}" in refused(folder)


def test_an_unknown_tensor_is_named(folder):
    change(folder, lambda tensors: tensors.update({"bert.encoder.layer.0.extra.weight": torch.zeros(2)}))
    assert "bert.encoder.layer.0.extra.weight" in refused(folder)


def test_a_layer_too_many_is_unknown(folder):
    layers = json.loads((folder / "config.json").read_text())["num_hidden_layers"]
    edit_config(folder, num_hidden_layers=layers - 1) if layers > 1 else edit_config(folder, num_hidden_layers=2)
    assert "tensors" in refused(folder)


def test_a_wrong_shape_is_named_with_both(folder):
    change(folder, lambda tensors: tensors.update({NORM: torch.ones(3)}))
    message = refused(folder)
    assert f"{NORM}: expected [" in message
    assert "got [3]" in message


def test_values_that_are_not_finite_are_refused(folder):
    def spoil(tensors):
        tensors[NORM][0] = float("nan")

    change(folder, spoil)
    assert f"{NORM}: 1 of" in refused(folder)


def test_integers_are_refused(folder):
    change(folder, lambda tensors: tensors.update({NORM: tensors[NORM].to(torch.int8)}))
    assert "torch.int8" in refused(folder)


def test_a_truncated_file_is_refused(folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-40])
    assert "torn" in refused(folder)


@pytest.mark.parametrize("name", ["cls.predictions.decoder.weight", "cls.predictions.decoder.bias"])
def test_copies_of_a_tied_tensor_must_be_equal(folder, name):
    source = TABLE if name.endswith("weight") else "cls.predictions.bias"
    change(folder, lambda tensors: tensors.update({name: tensors[source].clone()}))
    assert read_checkpoint(folder).notes == ()
    change(folder, lambda tensors: tensors.update({name: tensors[source] + 1e-6}))
    assert f"{name} and {source} are one tensor" in refused(folder)


def test_one_copy_of_a_tied_tensor_is_enough(folder):
    whole = read_checkpoint(folder)
    change(folder, lambda tensors: tensors.update({"cls.predictions.decoder.weight": tensors.pop(TABLE)}))
    name = "family.tokens.weight"
    assert torch.equal(read_checkpoint(folder).tensors[name], whole.tensors[name])


def test_a_body_alone_has_no_head(folder):
    def without_head(tensors):
        for name in [name for name in tensors if name.startswith("cls.")]:
            del tensors[name]

    change(folder, without_head)
    checkpoint = read_checkpoint(folder)
    assert {name.split(".")[0] for name in checkpoint.absent} == {"heads"}
    assert "the head is not there" in checkpoint.notes[0]
    with pytest.raises(WeightsError, match="holds no head"):
        build_checkpoint(checkpoint)


def test_half_a_head_is_an_error(folder):
    change(folder, lambda tensors: tensors.pop("cls.predictions.transform.dense.weight"))
    assert "cls.predictions.transform.dense.weight" in refused(folder)


def test_poolers_are_left_out_and_said(folder):
    change(folder, lambda tensors: tensors.update({"bert.pooler.dense.bias": torch.zeros(4)}))
    assert read_checkpoint(folder).notes == ("not read, no part of the model: bert.pooler.dense.bias",)


def test_unread_keys_are_said(folder):
    edit_config(folder, new_switch=7)
    assert read_checkpoint(folder).notes == ("keys of config.json that were not read: new_switch",)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model_type": "reformer"}, "model_type: expected one of"),
        ({"model_type": None}, "model_type: expected one of"),
        ({"hidden_size": None}, "expected the keys hidden_size"),
        ({"hidden_size": "many"}, "dim"),
        ({"hidden_size": 2**40}, "dim"),
        ({"hidden_act": "mish"}, "hidden_act: expected one of"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type"),
        ({"vocab_size": None}, "vocab_size"),
        ({"vocab_size": -1}, "vocab_size"),
        ({"quantization_config": {"bits": 4}}, "integer weights"),
        ({"num_attention_heads": 7}, "do not divide"),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(value),
)
def test_a_configuration_that_is_not_ours_is_refused(folder, changes, words):
    edit_config(folder, **changes)
    assert words in refused(folder, ConfigurationError)


def test_a_folder_of_something_else_is_refused(tmp_path):
    assert "config.json" in refused(tmp_path, ClozelineError)
    (tmp_path / "config.json").write_text("[1]")
    assert "expected keys and values" in refused(tmp_path)
    (tmp_path / "config.json").write_text("{")
    assert "JSON" in refused(tmp_path)
