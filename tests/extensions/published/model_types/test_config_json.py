"""Keys of config.json, current and former ones, as the classes of transformers read them, and what
is refused."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest
import transformers

from clozeline.extensions.published.conversion.type_selection import find_class_map, find_map
from clozeline.model.checkpoints.checkpoint import build_checkpoint
from tests.contracts import cases_about
from tests.extensions.published.peers import (
    MODEL_TYPES,
    TYPES,
    difference,
    edit_config,
    in_and_out,
    options,
    saved,
    type_of,
)
from tests.extensions.published.type_options import LAYER_TYPES

FULL = "full_attention"
SLIDING = "sliding_attention"


class Read(NamedTuple):
    """A model of a class, what was edited in its config.json, and what an import and an export then
    hold."""

    case: str
    keys: Mapping[str, Any] = {}
    edits: Mapping[str, Any] = {}
    """None removes a key"""
    ours: Mapping[str, Any] = {}
    """values of dotted keys of our configuration, or of the layers that are local"""
    theirs: Mapping[str, Any] = {}
    """keys of the export"""


def rotation(theta, share=None, **scaling):
    more = {} if share is None else {"partial_rotary_factor": share}
    return {"rope_parameters": {"rope_type": "default", "rope_theta": theta, **more, **scaling}}


def two_rotations(wide, near, **scaling):
    form = {"rope_type": "default"}
    return {
        "rope_parameters": {
            FULL: {**form, "rope_theta": wide, **scaling},
            SLIDING: {**form, "rope_theta": near},
        }
    }


WIDTH = {"hidden_size": 12, "num_attention_heads": 3}
TIED, UNTIED = ({"tie_word_embeddings": value} for value in (True, False))


ENCODERS = [
    *(Read("distilbert", {"sinusoidal_pos_embds": fixed}) for fixed in (True, False)),
    Read("xlm", {"n_langs": 1, "use_lang_emb": True}, {}, {"languages": 0}),
    Read(
        "deberta-v2",
        {**WIDTH, "conv_kernel_size": 3, "conv_act": "gelu", "hidden_act": "gelu"},
        {"attention_head_size": 4, "conv_groups": 1},
    ),
    Read(
        "xlnet",
        {},
        {
            "untie_r": True,
            "mem_len": None,
            "reuse_len": None,
            "same_length": False,
            "start_n_top": 5,
            "summary_type": "last",
            "summary_use_proj": True,
            "end_n_top": 5,
        },
    ),
]
MODERN = {**WIDTH, "num_hidden_layers": 4, "global_attn_every_n_layers": 3}


MODERNBERT = [
    Read(
        "modernbert",
        {**MODERN, **two_rotations(900.0, 30.0)},
        {},
        {"position.theta": 900.0, "local.theta": 30.0, "local.global_every": 3},
        {
            **two_rotations(900.0, 30.0),
            "global_rope_theta": 900.0,
            "local_rope_theta": 30.0,
            "layer_types": [FULL, SLIDING, SLIDING, FULL],
            "global_attn_every_n_layers": 3,
        },
    ),
    Read(
        "modernbert",
        {**MODERN, **two_rotations(900.0, 30.0)},
        {
            "rope_parameters": None,
            "layer_types": None,
            "global_rope_theta": 900.0,
            "local_rope_theta": 30.0,
            "global_attn_every_n_layers": 3,
        },
        {"position.theta": 900.0, "local.theta": 30.0, "local.global_every": 3},
        two_rotations(900.0, 30.0),
    ),
    Read(
        "modernbert",
        MODERN,
        {"rope_parameters": None},
        {"position.theta": 160000.0, "local.theta": 10000.0},
        {"global_rope_theta": 160000.0, "local_rope_theta": 10000.0},
    ),
    *(
        Read(
            "modernbert",
            {**MODERN, "local_attention": 4, "layer_types": kinds},
            {},
            {"local": local},
            {"layer_types": kinds},
        )
        for kinds, local in (
            ([SLIDING, SLIDING, FULL, SLIDING], [0, 1, 3]),
            ([FULL, *[SLIDING] * 3], [1, 2, 3]),
            ([FULL] * 4, []),
            ([SLIDING] * 4, [0, 1, 2, 3]),
        )
    ),
    *(
        Read(
            "modernbert-decoder",
            {"local_attention": width},
            edits,
            {"local.window": seen - 1},
            {"sliding_window": seen},
        )
        for width, seen in ((8, 4), (7, 3), (2, 1))
        for edits in ({}, {"sliding_window": None})
    ),
]
LINEAR = {"rope_type": "linear", "factor": 3.0}


LLAMAS = [
    *(
        Read(
            "llama",
            rotation(50.0),
            edits,
            {"position.theta": 50.0},
            {**rotation(50.0), "rope_theta": 50.0},
        )
        for edits in (
            {"rope_parameters": None, "rope_theta": 50.0},
            {"rope_theta": 50.0},
            {"rope_parameters": None, "rope_theta": 50.0, "rope_scaling": {"type": "default"}},
            {"rope_scaling": {"rope_type": "default", "rope_theta": 50.0}},
        )
    ),
    *(
        Read(
            "gemma",
            {"hidden_act": "gelu_pytorch_tanh"},
            {"hidden_act": "gelu", **edits},
            {"activation": "gelu_tanh"},
        )
        for edits in ({}, {"hidden_activation": None}, {"hidden_activation": "gelu_pytorch_tanh"})
    ),
    Read(
        "gemma2",
        {"attn_logit_softcapping": None, "final_logit_softcapping": None},
        {},
        {"attn_logit_softcapping": None, "final_logit_softcapping": None},
    ),
    Read(
        "gemma2",
        {
            "layer_types": None,
            "sliding_window": 4096,
            "attn_logit_softcapping": 50.0,
            "final_logit_softcapping": 30.0,
            "query_pre_attn_scalar": 256,
            "hidden_activation": "gelu_pytorch_tanh",
        },
        dict.fromkeys(
            (
                "layer_types",
                "sliding_window",
                "attn_logit_softcapping",
                "final_logit_softcapping",
                "hidden_activation",
                "query_pre_attn_scalar",
            )
        ),
        {
            "local": [0, 2, 4],
            "local.window": 4095,
            "activation": "gelu_tanh",
            "qk_scale": 256**-0.5,
        },
    ),
    *(
        Read(case, {"layer_types": [FULL] * 5}, {}, {"local": []}, {"layer_types": [FULL] * 5})
        for case in ("gemma2", "gemma3_text")
    ),
    *(
        Read(
            "gemma3_text",
            two_rotations(5000.0, 77.0, **scaling),
            edits,
            {"position.theta": 5000.0, "local.theta": 77.0},
            {
                **two_rotations(5000.0, 77.0, **scaling),
                "rope_theta": 5000.0,
                "rope_local_base_freq": 77.0,
            },
        )
        for scaling in ({}, LINEAR)
        for edits in (
            {},
            {
                "rope_parameters": None,
                "rope_theta": 5000.0,
                "rope_local_base_freq": 77.0,
                "rope_scaling": scaling or None,
            },
        )
    ),
    Read("gemma3_text", {"attn_logit_softcapping": 0.5}, {}, {"attn_logit_softcapping": None}),
    *(
        Read(
            "gemma3_text",
            {"layer_types": None, "num_hidden_layers": 7, **keys},
            {"layer_types": None, "sliding_window_pattern": None, **keys},
            {"local": [layer for layer in range(7) if layer not in whole]},
        )
        for keys, whole in (
            ({}, [5]),
            ({"sliding_window_pattern": 2}, [1, 3, 5]),
            ({"sliding_window_pattern": 4}, [3]),
        )
    ),
    Read("mistral", {"sliding_window": None}, {}, {"local": []}, {"sliding_window": None}),
    Read("mistral", {"sliding_window": 4096}, {"sliding_window": None}, {"local.window": 4095}),
    Read("mistral", {"sliding_window": 3}, {"layer_types": [FULL] * 5}, {"local": [0, 1, 2, 3, 4]}),
    Read(
        "qwen2",
        {
            "use_sliding_window": True,
            "sliding_window": 3,
            "max_window_layers": 2,
            "layer_types": None,
        },
        {"layer_types": None},
        {"local": [2, 3, 4], "local.window": 2},
        {
            "use_sliding_window": True,
            "sliding_window": 3,
            "max_window_layers": 2,
            "layer_types": [FULL, FULL, SLIDING, SLIDING, SLIDING],
        },
    ),
    Read(
        "qwen2",
        {"sliding_window": 3, "layer_types": LAYER_TYPES},
        {"max_window_layers": 0},
        {"local": [0, 1, 3]},
    ),
    Read(
        "qwen2",
        {"use_sliding_window": False, "layer_types": None, "max_window_layers": 1},
        {"sliding_window": 2},
        {"local": []},
    ),
    Read("qwen2", {"head_dim": 10}, {}, {"head_width": 10}),
    Read("qwen3", {"head_dim": 128}, {"head_dim": None}, {"head_width": 128}),
    *(
        Read(
            "smollm3",
            {"no_rope_layers": None, **keys},
            {"no_rope_layers": None, **keys},
            {"position.nope_layers": nope},
            {"no_rope_layers": [int(layer not in nope) for layer in range(5)]},
        )
        for keys, nope in (
            ({}, (3,)),
            ({"no_rope_layer_interval": 2}, (1, 3)),
            ({"no_rope_layers": [1, 0, 0, 1, 1, 7]}, (1, 2)),
        )
    ),
    Read(
        "smollm3",
        {
            "use_sliding_window": True,
            "sliding_window": 3,
            "layer_types": None,
            "no_rope_layers": None,
        },
        {"layer_types": None},
        {"local": [3]},
    ),
    Read("phi3", {"sliding_window": None}, {}, {"local": []}),
]


SWITCHES = [
    Read(
        "albert",
        {"num_hidden_layers": 4, "num_hidden_groups": 2, "inner_group_num": 2},
        {},
        {"layers": 8},
    ),
    Read("roberta", {"pad_token_id": 3}, {}, {"position.offset": 4, "position.maximum": 16}),
    Read("deberta-v2", {"pos_att_type": "p2c|c2p", "num_hidden_layers": 2}),
    Read("bart", {"scale_embedding": False}, {}, {"emb_scale": False}),
    Read(
        "llama",
        {"attention_bias": True, "mlp_bias": True},
        {},
        {"bias.qkv": True, "bias.out": True},
    ),
    Read(
        "eurobert",
        {"mlp_bias": True, **rotation(77.0)},
        {},
        {"bias.ffn": True, "position.theta": 77.0},
    ),
    Read("qwen3", {"attention_bias": True}, {}, {"bias.qkv": True, "bias.ffn": False}),
    Read(
        "gpt2", {"scale_attn_weights": False}, {}, {"qk_scale": 1.0}, {"scale_attn_weights": False}
    ),
    Read("opt", {"do_layer_norm_before": False}, {}, {"norm_place": "post", "final_norm": False}),
    Read("opt", {"_remove_final_layer_norm": True}, {}, {"norm_place": "pre", "final_norm": False}),
    Read(
        "openai-gpt",
        {"afn": "gelu", "n_embd": 12, "n_head": 3},
        {},
        {"activation": "gelu_tanh", "ffn_dim": 48},
    ),
    Read(
        "gpt_neox",
        {"use_parallel_residual": True, **UNTIED, **rotation(77.0, 0.25)},
        {},
        {"parallel": "two_norms", "rotated_width": 2},
        {"rotary_pct": 0.25, "rotary_emb_base": 77.0},
    ),
    Read(
        "phi",
        rotation(77.0, 0.5),
        {"rope_parameters": None, "rope_theta": 77.0},
        {"rotated_width": 4},
        {"partial_rotary_factor": 0.5},
    ),
]


PAIRED = [
    Read("mbart", {}, {"normalize_before": True}, {"norm_place": "pre", "final_norm": True}),
    Read(
        "marian",
        {"activation_function": "swish"},
        {},
        {"activation": "silu"},
        {"activation_function": "silu"},
    ),
    Read(
        "mt5",
        {"feed_forward_proj": "gated-gelu", "layer_norm_epsilon": 1e-6},
        {"feed_forward_proj": None, "layer_norm_epsilon": None, "scale_decoder_outputs": True},
        {"out_scale": False, "gated": True, "activation": "gelu_tanh", "eps": 1e-6},
    ),
    Read(
        "umt5",
        {"num_layers": 3, "num_decoder_layers": 2, "feed_forward_proj": "gated-gelu"},
        {"feed_forward_proj": None},
        {"out_scale": True, "gated": True, "tied": True},
    ),
    *(
        Read(
            case,
            {"feed_forward_proj": "gated-gelu"},
            {"feed_forward_proj": "relu"},
            {"gated": True, "activation": "gelu_tanh"},
        )
        for case in ("t5", "mt5", "umt5")
    ),
]
READ = [*ENCODERS, *MODERNBERT, *LLAMAS, *SWITCHES, *PAIRED]


def value_of(config, key):
    if key == "local":
        return [layer for layer in range(config.layers) if config.is_local(layer)]
    for part in key.split("."):
        config = config[part] if isinstance(config, dict) else getattr(config, part)
    return config


@pytest.mark.parametrize("read", READ)
def test_keys_are_read_as_the_class_reads_them(tmp_path, read):
    theirs = saved(tmp_path / "in", read.case, **read.keys)
    if read.edits:
        edit_config(tmp_path / "in", **read.edits)
    checkpoint, export, _ = in_and_out(tmp_path, theirs)

    assert not any("keys of config.json" in note for note in checkpoint.notes)
    assert {key: value_of(checkpoint.config, key) for key in read.ours} == read.ours
    assert {key: export.config.get(key) for key in read.theirs} == read.theirs
    assert difference(build_checkpoint(checkpoint), theirs) < 2e-5


TYPE_OF = {"camembert": "roberta", "xlm-roberta": "roberta", "mt5": "t5", "phi3": "mistral"}
"""Types whose models a more general one holds as well."""


@pytest.mark.parametrize("model_type", cases_about(MODEL_TYPES, TYPES, type_of))
def test_the_type_of_a_model_follows_from_what_it_computes(model_type):
    config = read_keys(model_type, {}, {})
    ids = {"pad_token_id": options(model_type, 0)["pad_token_id"]}
    assert find_map(config, ids).model_type == TYPE_OF.get(model_type, model_type)
    assert find_map(config, ids, model_type).model_type == model_type


def read_keys(case, keys, edits):
    """Our configuration from the keys that a class writes, after some of them were edited.

    None removes one.
    """
    settings = transformers.CONFIG_MAPPING[type_of(case)](**(options(case, 0) | keys))
    plain = json.loads(settings.to_json_string(use_diff=False)) | edits
    plain = {key: value for key, value in plain.items() if value is not None or key not in edits}
    key_map = find_class_map(plain)

    assert key_map.configuration.vocab_size(plain)

    return key_map.configuration.read(plain, {})


@pytest.mark.parametrize("model_type", cases_about(MODEL_TYPES, TYPES, type_of))
def test_a_key_that_is_left_out_has_the_default_of_the_class(model_type):
    deberta = model_type.startswith("deberta")
    needed = {"relative_attention": True, "pos_att_type": "c2p|p2c"} if deberta else {}
    settings = transformers.CONFIG_MAPPING[model_type](**needed)
    plain = json.loads(settings.to_json_string(use_diff=False))
    key_map = find_class_map(plain)
    given = effective(key_map.configuration.read(plain, {}))

    for key in {
        *key_map.configuration.defaults,
        *key_map.configuration.extra_keys,
        key_map.configuration.activation,
    } - {*NEEDED}:
        without = {name: value for name, value in plain.items() if name != key}
        assert effective(key_map.configuration.read(without, {})) == given, key


NEEDED = ("max_position_embeddings", "relative_attention", "pos_att_type")
"""Keys that no class has a default for, or only for a model that we do not have."""


def effective(config):
    """A configuration in which sizes that others imply are written out."""
    sizes = {"kv_heads": config.key_value_heads, "head_dim": config.head_width}
    if config.architecture == "encoder_decoder":
        sizes["decoder_layers"] = config.decoder_depth
    return vars(config) | sizes
