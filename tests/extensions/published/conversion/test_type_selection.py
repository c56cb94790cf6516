from dataclasses import replace

import pytest

from clozeline.extensions.published.conversion.export import export_checkpoint
from clozeline.extensions.published.conversion.type_selection import find_map
from tests.extensions.published.conversion.test_export import checkpoint_of
from tests.model.small_models import built
from tests.model.test_presets import EXPECTED, load
from tests.refusals import refused

TYPES = {
    "t5_base_shared": None,
    "tinybert": "bert",
    "megatron_bert": "megatron-bert",
    "albert": "albert",
    "rembert": "rembert",
    "deberta_v": "deberta-v2",
    "deberta": "deberta",
    **{
        family: family
        for family in ("bert", "modernbert", "mobilebert", "roberta", "gpt2", "llama", "t5", "bart")
    },
    "distilbert": "distilbert",
    "gpt1": "openai-gpt",
    "gpt3": "gpt2",
    "mbart": "mbart",
    "xlm_r": "roberta",
    "xlm": "xlm",
    "unilm": "bert",
    "mass": "marian",
    "electra": None,
    "xlnet": "xlnet",
    "elmo": None,
    "awd": None,
}
"""Beginnings of the names of presets, and their types; None: transformers has none."""


@pytest.mark.parametrize("name", EXPECTED)
def test_every_preset_has_its_type(name):
    expected = next(kind for beginning, kind in TYPES.items() if name.startswith(beginning))
    if expected is None:
        with refused("no model type of transformers computes"):
            find_map(load(name), {})
    else:
        assert find_map(load(name), {"pad_token_id": 1}).model_type == expected


def test_the_head_decides_where_bodies_are_alike():
    """An XLM of one language has the body of a DistilBERT."""
    config = load("xlm_en_2048")
    assert find_map(config, {}).model_type == "xlm"
    assert find_map(replace(config, heads={"masked_lm": 1.0}), {}).model_type == "distilbert"


def test_no_type_fits():
    with refused(r"the nearest, bert, differs: model.norm_place: expected post"):
        find_map(replace(load("bert_base"), norm_place="pre"), {})

    with refused(r"model\.family: expected decoder, got encoder"):
        find_map(load("bert_base"), {}, "gpt2")


BERT = {
    "norm_place": "post",
    "final_norm": False,
    "emb_norm": True,
    "type_vocab_size": 2,
    "eps": 1e-12,
}
PLAIN = {
    "norm": "layer",
    "gated": False,
    "kv_heads": None,
    "bias": {},
    "position": {"kind": "learned"},
}


@pytest.mark.parametrize(
    ("form", "keys", "name"),
    [("transformed", BERT, "BertLMHeadModel"), ("linear", {}, "GPT2LMHeadModel")],
)
def test_the_class_of_a_decoder_follows_from_its_head(form, keys, name):
    """A post-norm decoder with segment types is a BERT, a pre-norm one without them a GPT-2."""
    model = built("decoder", **PLAIN, **keys, activation="gelu", heads={"lm": {"projection": form}})

    assert export_checkpoint(checkpoint_of(model)).config["architectures"] == [name]

    plain = built("decoder", **PLAIN, **BERT, activation="gelu")

    with refused(r"projection: expected transformed in a model of type .*, got linear"):
        export_checkpoint(checkpoint_of(plain))
