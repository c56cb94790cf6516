"""Encoders that read from left to right: what the cases of every type in test_key_map.py do not show."""

import pytest
import torch

from clozeline.errors import ConfigurationError
from clozeline.model.checkpoints import build_checkpoint, export_checkpoint, map_of_type, read_checkpoint
from clozeline.model.generation.decoding import Decoding
from clozeline.model.generation.generate import generate
from tests.model.checkpoints._conversion.test_export import checkpoint_of
from tests.model.checkpoints.published import TYPES, edit_config, saved
from tests.model.small_models import built

CAUSAL = [name for name in TYPES for one in map_of_type(name).variants() if one.heads == ("lm",)]


@pytest.mark.parametrize("model_type", CAUSAL)
def test_it_continues_a_prompt_as_the_class_does(tmp_path, model_type):
    theirs = saved(tmp_path, f"{model_type} lm", 1)
    theirs.generation_config.eos_token_id = None
    expected = theirs.generate(torch.tensor([[5, 6, 7]]), max_new_tokens=6, do_sample=False, use_cache=False)
    (found,) = generate(build_checkpoint(read_checkpoint(tmp_path)), [[5, 6, 7]], Decoding(max_tokens=6))
    assert [5, 6, 7, *found.ids] == expected[0].tolist()


def test_a_class_without_the_head_is_a_causal_body(tmp_path):
    saved(tmp_path / "in", "bert lm")
    export = export_checkpoint(read_checkpoint(tmp_path / "in"), body_alone=True)
    assert (export.config["architectures"], export.config["is_decoder"]) == (["BertModel"], True)


def test_types_without_such_a_class_refuse_it(tmp_path):
    saved(tmp_path, "albert")
    edit_config(tmp_path, is_decoder=True)
    with pytest.raises(ConfigurationError, match="is_decoder: expected False, got True"):
        read_checkpoint(tmp_path)


@pytest.mark.parametrize(("form", "name"), [("transformed", "BertLMHeadModel"), ("linear", "GPT2LMHeadModel")])
def test_the_class_follows_from_the_head(form, name):
    """A post-norm decoder with segment types is a BERT, a pre-norm one without them a GPT-2."""
    keys = {"norm": "layer", "gated": False, "kv_heads": None, "bias": {}, "position": {"kind": "learned"}}
    bert = {"norm_place": "post", "final_norm": False, "emb_norm": True, "type_vocab_size": 2, "eps": 1e-12}
    more = bert if form == "transformed" else {}
    model = built("decoder", **keys, **more, activation="gelu", heads={"lm": {"projection": form}})
    assert export_checkpoint(checkpoint_of(model)).config["architectures"] == [name]


def test_a_plain_head_has_no_class_on_a_bert(tmp_path):
    bert = {"norm_place": "post", "final_norm": False, "emb_norm": True, "type_vocab_size": 2, "eps": 1e-12}
    keys = {"norm": "layer", "gated": False, "kv_heads": None, "bias": {}, "position": {"kind": "learned"}}
    model = built("decoder", **keys, **bert, activation="gelu")
    with pytest.raises(ConfigurationError, match=r"projection: expected transformed in a model of type .*, got linear"):
        export_checkpoint(checkpoint_of(model))
