"""A directory is read whole, or refused with the reason."""

from dataclasses import replace

import pytest
import torch

from clozeline.errors import ClozelineError, ConfigurationError, IntegrityError, WeightsError
from clozeline.model.checkpoints.checkpoint import build_checkpoint
from clozeline.model.checkpoints.reading import read_checkpoint
from tests.extensions.compression.methods.compressed_models import logits, model_of, odd_checkpoint
from tests.extensions.published.peers import edit_config, edit_tensors, saved
from tests.model.small_models import batch_for

NORM = "bert.embeddings.LayerNorm.weight"
TABLE = "bert.embeddings.word_embeddings.weight"


DENSE = "cls.predictions.transform.dense.weight"


@pytest.fixture
def folder(tmp_path):
    saved(tmp_path, "bert", tie_word_embeddings=True, num_hidden_layers=2)
    return tmp_path


def refused(folder, kind=WeightsError):
    with pytest.raises(kind) as caught:
        read_checkpoint(folder)
    return str(caught.value)


EDITS = {
    "missing": (
        lambda t: {n: v for n, v in t.items() if n != NORM},
        f"1 tensors are missing: {NORM}",
    ),
    "half a head": (lambda t: {n: v for n, v in t.items() if n != DENSE}, DENSE),
    "unknown": (
        lambda t: t | {"bert.encoder.layer.0.extra.weight": torch.zeros(2)},
        "bert.encoder.layer.0.extra.weig",
    ),
    "shape": (lambda t: t | {NORM: torch.ones(3)}, f"{NORM}: expected ["),
    "nan": (lambda t: t | {NORM: t[NORM] * float("nan")}, f"{NORM}: "),
    "integers": (lambda t: t | {NORM: t[NORM].to(torch.int8)}, "torch.int8"),
    "pooler": (
        lambda t: (
            t
            | {
                "cls.seq_relationship.weight": torch.ones(2, t[NORM].shape[0]),
                "cls.seq_relationship.bias": torch.ones(2),
            }
        ),
        "2 tensors are missing: bert.pooler.dense.bias, bert.pooler.dense.weight",
    ),
}


@pytest.mark.parametrize(("edit", "words"), EDITS.values(), ids=EDITS)
def test_other_tensors_are_named(folder, edit, words):
    edit_tensors(folder, edit)
    assert words in refused(folder)


def test_another_number_of_layers_and_a_truncated_file_are_refused(folder):
    edit_config(folder, num_hidden_layers=1)
    assert "tensors" in refused(folder)
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-40])
    assert "a truncated one" in refused(folder)


@pytest.mark.parametrize("name", ["cls.predictions.decoder.weight", "cls.predictions.decoder.bias"])
def test_copies_of_a_tied_tensor_must_be_equal_and_one_is_enough(folder, name):
    source = TABLE if name.endswith("weight") else "cls.predictions.bias"
    whole = read_checkpoint(folder)
    edit_tensors(folder, lambda tensors: tensors | {name: tensors[source].clone()})

    assert read_checkpoint(folder).notes == ()

    edit_tensors(
        folder,
        lambda tensors: {other: value for other, value in tensors.items() if other != source},
    )
    alone = read_checkpoint(folder)

    assert all(torch.equal(alone.tensors[name], tensor) for name, tensor in whole.tensors.items())

    edit_tensors(folder, lambda tensors: tensors | {source: tensors[name] + 1e-6})

    assert f"{name} and {source} are one tensor" in refused(folder)


def test_a_body_alone_has_no_head_and_what_is_not_read_is_said(folder):
    edit_config(folder, new_switch=7)
    more = {"bert.pooler.dense.bias": torch.zeros(4)}
    edit_tensors(
        folder,
        lambda tensors: {n: t for n, t in tensors.items() if not n.startswith("cls.")} | more,
    )
    checkpoint = read_checkpoint(folder)

    assert {name.split(".")[0] for name in checkpoint.absent} == {"heads"}

    pooler, head, keys = checkpoint.notes

    assert pooler == "skipped, not a part of the model: bert.pooler.dense.bias"
    assert "the head is missing" in head
    assert keys == "keys of config.json that were not read: new_switch"

    with pytest.raises(WeightsError, match="has no head"):
        build_checkpoint(checkpoint)


def test_a_folder_of_something_else_is_refused(tmp_path):
    assert "config.json" in refused(tmp_path, ClozelineError)

    for content, words in (("[1]", "expected keys and values"), ("{", "JSON")):
        (tmp_path / "config.json").write_text(content)
        assert words in refused(tmp_path, IntegrityError)

    saved(tmp_path, "bert")
    edit_config(tmp_path, quantization_config={"bits": 4})

    assert "integer weights" in refused(tmp_path, ConfigurationError)


@pytest.mark.parametrize("family", ["encoder", "decoder", "encoder_decoder"])
@pytest.mark.parametrize("tied", [True, False])
def test_a_model_on_the_tensors_of_a_checkpoint_is_the_model(family, tied):
    dense = odd_checkpoint(family, tied=tied)
    model = build_checkpoint(dense)

    assert torch.equal(logits(model, batch_for(family)), logits(model_of(dense), batch_for(family)))
    assert all(
        parameter.data_ptr() == dense.tensors[name].data_ptr()
        for name, parameter in model.named_parameters()
    )

    half = replace(
        dense, tensors={name: tensor.bfloat16() for name, tensor in dense.tensors.items()}
    )

    assert {parameter.dtype for parameter in build_checkpoint(half).parameters()} == {torch.float32}
