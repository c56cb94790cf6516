"""What the config.json of a small model of each type needs besides the keys of its tables:
`options(draw, found)`.

The test file of a type may declare `options` of its own, as that of a new type does.
"""

LAYER_TYPES = [f"{kind}_attention" for kind in ("sliding", "sliding", "full", "sliding", "full")]
"""Types of the layers of `odd_llama`, at no regular distance."""
PLAIN_ROTATION = {"rope_type": "default"}
BOTH = [True, False]
OPT_NORMS = ({}, {"do_layer_norm_before": False}, {"_remove_final_layer_norm": True})
DEPENDS_ON_PADDING = ("bart", "mbart", "marian", "pegasus", "mobilebert")
"""Types whose class numbers padded positions too, or reads the padding next to a token."""


def odd_llama(draw):
    """Sizes of a kin of Llama in which no two are equal by chance, five layers deep, with shared
    keys and values."""
    return {
        "hidden_size": draw.choice([30, 42]),
        "num_hidden_layers": 5,
        "num_attention_heads": 6,
        "num_key_value_heads": 3,
        "head_dim": 10,
        "rms_norm_eps": 3e-4,
        "rope_parameters": {**PLAIN_ROTATION, "rope_theta": draw.choice([77.0, 777.0])},
    }


def llama(draw, found):
    theta = draw.choice([50.0, 1e4])
    return {
        "num_attention_heads": 2 * found["num_attention_heads"],
        "rope_parameters": {**PLAIN_ROTATION, "rope_theta": theta},
    }


def eurobert(draw, found):
    """Twice as many query heads as keys and values, of another width than the states divided by
    their number."""
    pooling = draw.choice(["bos", "mean", "late"])
    return llama(draw, found) | {
        "rms_norm_eps": 3e-4,
        "mask_token_id": 3,
        "classifier_pooling": pooling,
    }


def biased(draw):
    return {"attention_bias": draw.choice(BOTH)}


def gemma2(draw, found):
    return (
        odd_llama(draw)
        | biased(draw)
        | {
            "query_pre_attn_scalar": 7,
            "sliding_window": draw.choice([3, 4]),
            "layer_types": LAYER_TYPES,
            "attn_logit_softcapping": 1.5,
            "final_logit_softcapping": 2.0,
        }
    )


def gemma3(draw, found):
    bases = {"full_attention": 5000.0, "sliding_attention": 77.0}
    forms = {kind: {**PLAIN_ROTATION, "rope_theta": base} for kind, base in bases.items()}
    more = {
        "query_pre_attn_scalar": 13,
        "final_logit_softcapping": draw.choice([2.0, None]),
        "rope_parameters": forms,
    }

    return gemma2(draw, found) | {"attn_logit_softcapping": None} | more


def qwen2(draw, found):
    windows = draw.choice([{"layer_types": LAYER_TYPES}, {"max_window_layers": 2}])
    sizes = {key: value for key, value in odd_llama(draw).items() if key != "head_dim"}
    return (
        sizes
        | {"hidden_size": 36, "use_sliding_window": True, "sliding_window": draw.choice([3, 4])}
        | windows
    )


def qwen3(draw, found):
    windows = {
        "use_sliding_window": True,
        "sliding_window": draw.choice([3, 4]),
        "layer_types": LAYER_TYPES,
    }

    return odd_llama(draw) | windows | biased(draw)


def smollm3(draw, found):
    windows = draw.choice(
        [{}, {"use_sliding_window": True, "sliding_window": 3, "layer_types": LAYER_TYPES}]
    )
    return (
        odd_llama(draw)
        | {"hidden_size": 36, "no_rope_layers": draw.choice([None, [0, 1, 0, 1, 1]])}
        | windows
    )


def phi(draw, found):
    """Six heads of eight components with shared keys and values.

    Four or six components are rotated.
    """
    form = {
        "rope_theta": draw.choice([77.0, 777.0]),
        "partial_rotary_factor": draw.choice([0.5, 0.75]),
    }
    return {
        "hidden_size": 48,
        "num_attention_heads": 6,
        "num_key_value_heads": draw.choice([3, 6]),
        "layer_norm_eps": 3e-4,
        "qk_layernorm": draw.choice(BOTH),
        "rope_parameters": {**PLAIN_ROTATION, **form},
    }


def phi3(draw, found):
    sizes = {key: value for key, value in odd_llama(draw).items() if key != "head_dim"}
    return sizes | {"hidden_size": 36, "sliding_window": draw.choice([3, 4])}


def gpt_neox(draw, found):
    """Heads of eight components, of which two, six or all are rotated."""
    form = {
        "rope_theta": draw.choice([77.0, 777.0]),
        "partial_rotary_factor": draw.choice([0.25, 0.75, 1.0]),
    }
    return {
        "hidden_size": 8 * found["num_attention_heads"],
        "layer_norm_eps": 3e-4,
        "use_parallel_residual": draw.choice(BOTH),
        "rope_parameters": {**PLAIN_ROTATION, **form},
    }


def gpt2(draw, found):
    return {"n_inner": draw.choice([7, 33, None]), "scale_attn_weights": draw.choice(BOTH)}


def opt(draw, found):
    return {"word_embed_proj_dim": found["hidden_size"], **draw.choice(OPT_NORMS)}


def roberta(draw, found):
    return {
        "max_position_embeddings": 20,
        "pad_token_id": draw.choice([0, 1, 3]),
        "type_vocab_size": 1,
    }


def camembert(draw, found):
    """The ids of the published vocabulary, whose first pieces are `<s>` and `</s>`."""
    return {"max_position_embeddings": 20, "pad_token_id": 1, "bos_token_id": 5, "eos_token_id": 6}


def albert(draw, found):
    groups = draw.choice([1, found["num_hidden_layers"]])
    return {"num_hidden_groups": groups, "inner_group_num": draw.choice([1, 2])}


def electra(draw, found):
    return {"embedding_size": draw.choice([5, found["hidden_size"]]), "type_vocab_size": 2}


def deberta(draw, found):
    return {
        "relative_attention": True,
        "type_vocab_size": draw.choice([0, 2]),
        "pos_att_type": draw.choice(["c2p", "p2c", "c2p|p2c"]),
        "max_relative_positions": draw.choice([-1, 5]),
        "position_biased_input": draw.choice(BOTH),
    }


def deberta_v2(draw, found):
    return deberta(draw, found) | {
        "position_buckets": draw.choice([-1, 4, 6]),
        "share_att_key": draw.choice(BOTH),
        "norm_rel_ebd": draw.choice(["none", "layer_norm"]),
        "conv_kernel_size": draw.choice([0, 3, 5]),
        "conv_act": found["hidden_act"],
    }


def mobilebert(draw, found):
    """The stream has another width than the inside of a layer, where the heads are.

    At least one switch is on.
    """
    dim = found["hidden_size"]
    narrow = draw.choice(BOTH)
    return {
        "hidden_size": dim + 1,
        "embedding_size": dim - draw.choice([0, 1, 3]),
        "intra_bottleneck_size": found["num_attention_heads"] * 2,
        "num_feedforward_networks": draw.choice([1, 2, 4]),
        "use_bottleneck_attention": narrow,
        "key_query_shared_bottleneck": not narrow or draw.choice(BOTH),
        "classifier_activation": draw.choice(BOTH),
        "normalization_type": draw.choice(["no_norm", "layer_norm"]),
        "layer_norm_eps": 1e-5,
    }


def modernbert(draw, found):
    return {
        "num_hidden_layers": found["num_hidden_layers"] + 2,
        "cls_token_id": 1,
        "sep_token_id": 2,
        "local_attention": draw.choice([2, 3, 5, 8]),
        "classifier_activation": found["hidden_activation"],
        "decoder_bias": draw.choice(BOTH),
        "global_attn_every_n_layers": draw.choice([2, 3]),
    }


def modernbert_decoder(draw, found):
    sizes = {
        "hidden_size": 36,
        "num_attention_heads": 6,
        "num_hidden_layers": 5,
        "layer_types": LAYER_TYPES,
    }

    more = {"classifier_bias": draw.choice(BOTH), "local_attention": draw.choice([7, 8])}
    return modernbert(draw, found) | sizes | more


def t5(draw, found):
    kind = draw.choice(["relu", "gated-gelu", "gated-silu", "gelu"])
    return {"d_kv": draw.choice([3, 6]), "feed_forward_proj": kind, "decoder_start_token_id": 0}


def bart(draw, found):
    """Without a tie the class has three token tables, which is not built."""
    return {"decoder_start_token_id": 2, "tie_word_embeddings": True}


def pegasus(draw, found):
    return {"decoder_start_token_id": 0, "tie_word_embeddings": True}


def marian(draw, found):
    """The published layout: eos is 0, and the last id pads and starts the decoder."""
    last = found["vocab_size"] - 1
    return {
        "pad_token_id": last,
        "decoder_start_token_id": last,
        "eos_token_id": 0,
        "tie_word_embeddings": True,
    }


def xlm(draw, found):
    switches = ("gelu_activation", "sinusoidal_embeddings", "use_lang_emb")
    return {key: draw.choice(BOTH) for key in switches} | {"n_langs": draw.choice([1, 5])}


OPTIONS = {
    "albert": albert,
    "bart": bart,
    "camembert": camembert,
    "deberta": deberta,
    "deberta-v2": deberta_v2,
    "electra": electra,
    "eurobert": eurobert,
    "gemma": lambda draw, found: (
        {
            **odd_llama(draw),
            **biased(draw),
            "hidden_act": draw.choice(["gelu", "gelu_pytorch_tanh", "silu"]),
        }
    ),
    "gemma2": gemma2,
    "gemma3_text": gemma3,
    "gpt2": gpt2,
    "gpt_neox": gpt_neox,
    "llama": llama,
    "marian": marian,
    "mbart": bart,
    "mistral": lambda draw, found: {**odd_llama(draw), "sliding_window": draw.choice([3, 4, 5])},
    "mobilebert": mobilebert,
    "modernbert": modernbert,
    "modernbert-decoder": modernbert_decoder,
    "olmo2": lambda draw, found: {**odd_llama(draw), **biased(draw)},
    "opt": opt,
    "pegasus": pegasus,
    "phi": phi,
    "phi3": phi3,
    "qwen2": qwen2,
    "qwen3": qwen3,
    "roberta": roberta,
    "smollm3": smollm3,
    **dict.fromkeys(("t5", "mt5", "umt5"), t5),
    "xlm": xlm,
    **dict.fromkeys(("xlm-roberta", "xlm-roberta-xl"), roberta),
}
