"""The same small model twice: transformers' with random weights, and ours with those weights copied by name."""

import re
from dataclasses import dataclass
from typing import Any

import torch
import transformers

from model.build import Model
from model.config import BiasConfig, ModelConfig, PositionConfig

NO_BIAS = BiasConfig(qkv=False, out=False, ffn=False)
VOCABULARY, PLACES = 37, 20

BERT = [
    (r"family\.tokens", "bert.embeddings.word_embeddings"),
    (r"family\.stack\.position\.table", "bert.embeddings.position_embeddings"),
    (r"family\.stack\.embeddings\.types", "bert.embeddings.token_type_embeddings"),
    (r"family\.stack\.embeddings\.norm", "bert.embeddings.LayerNorm"),
    (r"family\.stack\.layers", "bert.encoder.layer"),
    (r"attention\.body\.out", "attention.output.dense"),
    (r"attention\.body", "attention.self"),
    (r"attention\.norm", "attention.output.LayerNorm"),
    (r"feed_forward\.body\.up", "intermediate.dense"),
    (r"feed_forward\.body\.down", "output.dense"),
    (r"feed_forward\.norm", "output.LayerNorm"),
    (r"heads\.masked_lm\.transform", "cls.predictions.transform.dense"),
    (r"heads\.masked_lm\.norm", "cls.predictions.transform.LayerNorm"),
    (r"heads\.masked_lm\.projection\.bias", "cls.predictions.bias"),
]
GPT2 = [
    (r"family\.tokens", "transformer.wte"),
    (r"family\.stack\.position\.table", "transformer.wpe"),
    (r"family\.stack\.layers", "transformer.h"),
    (r"family\.stack\.norm", "transformer.ln_f"),
    (r"feed_forward\.body\.up", "mlp.c_fc"),
    (r"feed_forward\.body\.down", "mlp.c_proj"),
    (r"attention\.body\.out", "attn.c_proj"),
    (r"attention\.body", "attn"),
    (r"attention\.norm", "ln_1"),
    (r"feed_forward\.norm", "ln_2"),
]
LLAMA = [
    (r"family\.tokens", "model.embed_tokens"),
    (r"family\.stack\.layers", "model.layers"),
    (r"family\.stack\.norm", "model.norm"),
    (r"attention\.body\.(\w)\w+", r"self_attn.\1_proj"),
    (r"feed_forward\.body\.(\w+)", r"mlp.\1_proj"),
    (r"attention\.norm", "input_layernorm"),
    (r"feed_forward\.norm", "post_attention_layernorm"),
    (r"heads\.lm\.projection", "lm_head"),
]
T5 = [
    (r"family\.tokens", "shared"),
    (r"family\.(\w+)\.position\.table", r"\1.block.0.layer.0.SelfAttention.relative_attention_bias"),
    (r"family\.(\w+)\.norm", r"\1.final_layer_norm"),
    (r"family\.(\w+)\.layers", r"\1.block"),
    (r"attention\.body\.(\w)\w+", r"layer.0.SelfAttention.\1"),
    (r"attention\.norm", "layer.0.layer_norm"),
    (r"cross\.body\.(\w)\w+", r"layer.1.EncDecAttention.\1"),
    (r"cross\.norm", "layer.1.layer_norm"),
    (r"(encoder.*)feed_forward\.body", r"\1layer.1.DenseReluDense"),
    (r"(encoder.*)feed_forward\.norm", r"\1layer.1.layer_norm"),
    (r"(decoder.*)feed_forward\.body", r"\1layer.2.DenseReluDense"),
    (r"(decoder.*)feed_forward\.norm", r"\1layer.2.layer_norm"),
    (r"DenseReluDense\.down", "DenseReluDense.wo"),
    (r"heads\.lm\.projection", "lm_head"),
]
T5_PLAIN = [*T5, (r"DenseReluDense\.up", "DenseReluDense.wi")]
T5_GATED = [*T5, (r"DenseReluDense\.gate", "DenseReluDense.wi_0"), (r"DenseReluDense\.up", "DenseReluDense.wi_1")]
BART = [
    (r"family\.tokens", "model.shared"),
    (r"family\.(\w+)\.position\.table", r"model.\1.embed_positions"),
    (r"family\.(\w+)\.embeddings\.norm", r"model.\1.layernorm_embedding"),
    (r"family", "model"),
    (r"(attention|cross)\.body\.([qkv])\w+", r"\1.body.\2_proj"),
    (r"(attention|cross)\.body\.out", r"\1.body.out_proj"),
    (r"attention\.body", "self_attn"),
    (r"attention\.norm", "self_attn_layer_norm"),
    (r"cross\.body", "encoder_attn"),
    (r"cross\.norm", "encoder_attn_layer_norm"),
    (r"feed_forward\.body\.up", "fc1"),
    (r"feed_forward\.body\.down", "fc2"),
    (r"feed_forward\.norm", "final_layer_norm"),
]


@dataclass(frozen=True)
class Size:
    """Shared by both sides. `heads` must divide `dim` where the peer has no head width of its own."""

    dim: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    layers: int
    decoder_layers: int


@dataclass(frozen=True)
class Pair:
    ours: Model
    theirs: Any
    names: dict[str, str]
    """Our parameter name to theirs (fused projections unfused)."""


def bert(size, **changes):
    theirs = transformers.BertForMaskedLM(
        transformers.BertConfig(
            vocab_size=VOCABULARY, hidden_size=size.dim, num_hidden_layers=size.layers, num_attention_heads=size.heads,
            intermediate_size=size.ffn, max_position_embeddings=PLACES, pad_token_id=0, attn_implementation="eager",
        )
    )  # fmt: skip
    ours = ModelConfig(**{
        "family": "encoder", "dim": size.dim, "layers": size.layers, "attention_heads": size.heads, "ffn_dim": size.ffn,
        "type_vocab_size": 2, "eps": 1e-12, "norm_place": "post", "final_norm": False, "emb_norm": True,
        "position": PositionConfig(maximum=PLACES), "heads": {"masked_lm": 1.0},
    } | changes)  # fmt: skip
    return pair(ours, theirs, BERT)


def gpt2(size, **changes):
    theirs = transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            vocab_size=VOCABULARY, n_embd=size.dim, n_layer=size.layers, n_head=size.heads, n_inner=size.ffn,
            n_positions=PLACES, bos_token_id=1, eos_token_id=2, attn_implementation="eager",
        )
    )  # fmt: skip
    ours = ModelConfig(**{
        "family": "decoder", "dim": size.dim, "layers": size.layers, "attention_heads": size.heads, "ffn_dim": size.ffn,
        "activation": "gelu_tanh", "position": PositionConfig(maximum=PLACES), "heads": {"lm": 1.0},
    } | changes)  # fmt: skip
    return pair(ours, theirs, GPT2)


def llama(size, tied=False, **changes):
    theirs = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=VOCABULARY, hidden_size=size.dim, num_hidden_layers=size.layers, intermediate_size=size.ffn,
            num_attention_heads=size.heads, num_key_value_heads=size.kv_heads, head_dim=size.head_dim,
            max_position_embeddings=PLACES, rms_norm_eps=1e-5, tie_word_embeddings=tied, bos_token_id=1,
            eos_token_id=2, rope_parameters={"rope_type": "default", "rope_theta": 500.0}, attn_implementation="eager",
        )
    )  # fmt: skip
    ours = ModelConfig(**{
        "family": "decoder", "dim": size.dim, "layers": size.layers, "attention_heads": size.heads, "ffn_dim": size.ffn,
        "kv_heads": size.kv_heads, "head_dim": size.head_dim, "norm": "rms", "activation": "silu", "gated": True,
        "bias": NO_BIAS, "position": PositionConfig(kind="rope", theta=500.0), "tied": tied, "heads": {"lm": 1.0},
    } | changes)  # fmt: skip
    return pair(ours, theirs, LLAMA)


def t5(size, gated=False, **changes):
    theirs = transformers.T5ForConditionalGeneration(
        transformers.T5Config(
            vocab_size=VOCABULARY, d_model=size.dim, d_kv=size.head_dim, d_ff=size.ffn, num_layers=size.layers,
            num_decoder_layers=size.decoder_layers, num_heads=size.heads, relative_attention_num_buckets=8,
            relative_attention_max_distance=9, feed_forward_proj="gated-gelu" if gated else "relu", pad_token_id=0,
            eos_token_id=1, decoder_start_token_id=0, attn_implementation="eager",
            **({"scale_decoder_outputs": False} if gated else {}),
        )
    )  # fmt: skip
    if gated:  # transformers ties the head unless a checkpoint says otherwise
        theirs.lm_head.weight = torch.nn.Parameter(torch.empty_like(theirs.shared.weight))
    ours = ModelConfig(**{
        "family": "encoder_decoder", "dim": size.dim, "layers": size.layers, "decoder_layers": size.decoder_layers,
        "attention_heads": size.heads, "head_dim": size.head_dim, "ffn_dim": size.ffn, "norm": "rms", "eps": 1e-6,
        "activation": "gelu_tanh" if gated else "relu", "gated": gated, "bias": NO_BIAS, "qk_scale": 1.0,
        "tied": not gated, "out_scale": not gated, "position": PositionConfig(kind="t5", buckets=8, max_distance=9),
        "heads": {"lm": 1.0},
    } | changes)  # fmt: skip
    return pair(ours, theirs, T5_GATED if gated else T5_PLAIN)


def t5_v1_1(size, **changes):
    return t5(size, gated=True, **changes)


def bart(size, **changes):
    theirs = transformers.BartForConditionalGeneration(
        transformers.BartConfig(
            vocab_size=VOCABULARY, d_model=size.dim, encoder_layers=size.layers, decoder_layers=size.decoder_layers,
            encoder_attention_heads=size.heads, decoder_attention_heads=size.heads, encoder_ffn_dim=size.ffn,
            decoder_ffn_dim=size.ffn, max_position_embeddings=PLACES, pad_token_id=0, bos_token_id=1, eos_token_id=2,
            decoder_start_token_id=2, forced_eos_token_id=None, attn_implementation="eager",
        )
    )  # fmt: skip
    ours = ModelConfig(**{
        "family": "encoder_decoder", "dim": size.dim, "layers": size.layers, "decoder_layers": size.decoder_layers,
        "attention_heads": size.heads, "ffn_dim": size.ffn, "norm_place": "post", "final_norm": False, "emb_norm": True,
        "position": PositionConfig(maximum=PLACES, offset=2), "heads": {"lm": 1.0},
    } | changes)  # fmt: skip
    return pair(ours, theirs, BART)


PEERS = {"bert": bert, "gpt2": gpt2, "llama": llama, "t5": t5, "t5_v1_1": t5_v1_1, "bart": bart}


def pair(config, theirs, renames):
    """Draw every parameter anew (initial zeros and ones would hide mistakes), then copy theirs into ours."""
    draw = torch.Generator().manual_seed(3)
    for parameter in theirs.parameters():
        noise = torch.randn(parameter.shape, generator=draw)
        parameter.data = noise * parameter.shape[-1] ** -0.5 if parameter.ndim > 1 else 1 + noise * 0.2
    ours = Model(config, VOCABULARY)
    names = {name: rename(name, renames) for name, _ in ours.named_parameters()}
    assert len(set(names.values())) == len(names)
    source = unfused({name: parameter.data for name, parameter in theirs.named_parameters()})
    assert set(names.values()) == set(source), set(names.values()) ^ set(source)
    for name, parameter in ours.named_parameters():
        parameter.data = source[names[name]].clone()
    return Pair(ours.eval(), theirs.eval(), names)


def rename(name, renames):
    for pattern, replacement in renames:
        name = re.sub(pattern, replacement, name)
    return name


def unfused(tensors):
    """GPT-2's [in, out] matrices turned, and its one matrix for queries, keys and values cut in three."""
    found = {}
    for name, value in tensors.items():
        matrix = value.T if re.search(r"\.c_\w+\.weight", name) else value
        if ".c_attn." in name:
            for part, piece in zip(("query", "key", "value"), matrix.chunk(3), strict=True):
                found[name.replace("c_attn", part)] = piece
        else:
            found[name] = matrix
    return found
