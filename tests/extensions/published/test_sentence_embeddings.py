"""Vectors of an export, computed as its modules say, are those of the run."""

import importlib
import json

import pytest
import torch
from safetensors.torch import load_file
from torch.nn import functional as F

from clozeline.extensions.published.conversion.export import export_checkpoint
from clozeline.extensions.published.export_plan import ExportRequest, plan_export
from clozeline.extensions.published.sentence_embeddings import write_modules
from clozeline.model.build import build_model
from clozeline.model.checkpoints.checkpoint import Checkpoint
from tests.extensions.published.peers import export_to, loaded
from tests.model.small_models import small_config
from tests.refusals import refused

IDS = torch.tensor([[2, 9, 30, 11, 8, 3], [2, 14, 7, 3, 0, 0]])
LENGTHS = torch.tensor([6, 4])
KEYS = {"type_vocab_size": 2, "eps": 1e-12}


def pooling_of(checkpoint, asked, folder):
    """The pool that an export of the encoder alone has."""
    return plan_export(
        checkpoint, ExportRequest(body_alone=True, pooling=asked), tokenizer=folder
    ).pooling


def trained(heads):
    model = build_model(small_config("encoder", heads=heads, **KEYS), 60, {}, seed=2)
    draw = torch.Generator().manual_seed(8)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=draw) * 0.2)

    tensors = {name: parameter.detach() for name, parameter in model.named_parameters()}
    return model.eval(), Checkpoint(model.config, 60, tensors, {"pad_token_id": 0}, None, ())


def vectors_by_modules(folder, loader):
    """The vectors that the modules of a folder describe, each by the documentation of
    sentence-transformers."""
    body, _ = loaded(folder, loader, add_pooling_layer=False)
    inside = torch.arange(IDS.shape[1]) < LENGTHS[:, None]
    with torch.no_grad():
        states = body(input_ids=IDS, attention_mask=inside.long()).last_hidden_state
    vectors = states

    for module in json.loads((folder / "modules.json").read_text()):
        kind = module["type"].rpartition(".")[2]
        keys = folder / module["path"] / "config.json"
        plain = json.loads(keys.read_text()) if keys.is_file() else {}

        if kind == "Pooling":
            [mode] = [key for key, is_chosen in plain.items() if is_chosen is True]
            vectors = {
                "pooling_mode_cls_token": states[:, 0],
                "pooling_mode_mean_tokens": (states * inside[..., None]).sum(1) / LENGTHS[:, None],
                "pooling_mode_max_tokens": states.masked_fill(~inside[..., None], -torch.inf).amax(
                    1
                ),
                "pooling_mode_lasttoken": states[torch.arange(len(IDS)), LENGTHS - 1],
            }[mode]
        elif kind == "Dense":
            weights = load_file(folder / module["path"] / "model.safetensors")
            home, _, name = plain["activation_function"].rpartition(".")
            activation = getattr(importlib.import_module(home), name)()
            vectors = activation(
                F.linear(vectors, weights["linear.weight"], weights["linear.bias"])
            )
        elif kind == "Normalize":
            vectors = F.normalize(vectors, dim=-1)

    return vectors


@pytest.mark.parametrize("pool", ["cls", "mean", "max", "last", None])
def test_vectors_are_those_of_the_training(pool, tmp_path):
    model, checkpoint = trained({"similarity": {"pool": pool}})
    batch = {"input_ids": IDS, "position_ids": torch.arange(6).expand(2, 6), "lengths": LENGTHS}
    with torch.no_grad():
        expected = model.heads["similarity"].scores(model.family(batch), batch)
    export = export_checkpoint(checkpoint, body_alone=True)
    folder = export_to(tmp_path / "out", export)
    write_modules(folder, pooling_of(checkpoint, "run", tmp_path), checkpoint, 40)

    torch.testing.assert_close(
        vectors_by_modules(folder, export.loader), expected, rtol=0, atol=1e-5
    )


@pytest.mark.parametrize(
    ("pool", "asked"), [("cls", "mean"), ("mean", "cls"), (None, "cls"), ("max", "pooler")]
)
def test_another_pool_than_the_trained_one_is_refused(pool, asked, tmp_path):
    _, checkpoint = trained({"similarity": {"pool": pool}})
    with refused(f"got {asked}: this model was trained with the pool"):
        pooling_of(checkpoint, asked, tmp_path)


def test_a_model_without_vectors_of_texts_takes_the_pool_that_is_asked_for(tmp_path):
    _, checkpoint = trained({"masked_lm": 1.0})
    assert pooling_of(checkpoint, "mean", tmp_path) == "mean"
    with refused("trained without a pool"):
        pooling_of(checkpoint, "run", tmp_path)


def test_the_pool_of_a_classifier_holds_too(tmp_path):
    _, checkpoint = trained({"classification": {"classes": 2, "pool": "mean"}})
    assert pooling_of(checkpoint, "run", tmp_path) == "mean"
    with refused("got cls"):
        pooling_of(checkpoint, "cls", tmp_path)
