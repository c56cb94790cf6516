from dataclasses import replace

import pytest
import torch

from clozeline.errors import ConfigurationError, WeightsError
from clozeline.model.checkpoints import Checkpoint, export_checkpoint, read_checkpoint
from tests.model.checkpoints.published import saved
from tests.model.small_models import VOCABULARY, built


def checkpoint_of(model, **changes):
    """Return the parameters of a training run: parameters with rows that pad the vocabulary."""
    tensors = {name: parameter.detach() for name, parameter in model.named_parameters()}
    return replace(Checkpoint(model.config, VOCABULARY, tensors, {"pad_token_id": 0}, None, ()), **changes)


def test_rows_that_pad_the_vocabulary_are_cut_off():
    model = built("encoder", vocab_multiple=64, eps=1e-12)
    export = export_checkpoint(checkpoint_of(model))
    assert export.config["model_type"] == "bert"
    assert export.config["vocab_size"] == VOCABULARY
    table, bias = (export.tensors[name] for name in ("bert.embeddings.word_embeddings.weight", "cls.predictions.bias"))
    assert torch.equal(table, model.family.tokens.weight[:VOCABULARY])
    assert bias.shape == (VOCABULARY,)


def test_a_head_of_another_type_is_refused():
    model = built("encoder", heads={"lm": 1.0})
    known = (
        "has the heads masked_lm or masked_lm and sentence or sentence, this one lm: export some of them, or the body"
    )
    with pytest.raises(ConfigurationError, match=known):
        export_checkpoint(checkpoint_of(model))
    assert export_checkpoint(checkpoint_of(model), body_alone=True).config["architectures"] == ["BertModel"]


def test_a_head_without_a_transform_is_refused_where_the_type_has_one():
    model = built("encoder", eps=1e-12, heads={"masked_lm": {"transform": False}})
    with pytest.raises(ConfigurationError, match=r"transform: expected true in a model of type bert, got false"):
        export_checkpoint(checkpoint_of(model))


def test_a_body_cannot_be_exported_with_a_head(tmp_path):
    saved(tmp_path, "bert")
    whole = read_checkpoint(tmp_path)
    with pytest.raises(WeightsError, match="export the body alone"):
        export_checkpoint(replace(whole, absent=("heads.masked_lm.norm.weight",)))


def test_the_class_follows_from_the_heads_in_any_order():
    weights = {"sentence": 0.5, "masked_lm": 1.0}
    export = export_checkpoint(checkpoint_of(built("encoder", heads=weights)))
    assert (export.config["architectures"], export.loader) == (["BertForPreTraining"], "AutoModelForPreTraining")
    body = export_checkpoint(checkpoint_of(built("encoder", heads=weights)), body_alone=True)
    assert body.tensors.keys() >= {"pooler.dense.weight", "embeddings.LayerNorm.bias"}
    assert not any("predictions" in name or "relationship" in name for name in body.tensors)


def test_ids_are_written_even_where_there_are_none(tmp_path):
    """A class has defaults of its own, such as 50256, that lie outside a small vocabulary."""
    config = export_checkpoint(checkpoint_of(built("decoder"), token_ids={"eos_token_id": 3}), model_type="llama")
    assert config.config["bos_token_id"] is None
    assert config.config["eos_token_id"] == 3
    assert config.generation == {"eos_token_id": 3}
