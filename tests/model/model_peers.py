"""The same small model twice: transformers' with random weights, and ours with those weights copied by name."""

from dataclasses import dataclass
from typing import Any

import torch
import transformers

from clozeline.model.build import Model
from clozeline.model.checkpoints import KeyMap, map_of_type
from clozeline.model.checkpoints._conversion.tensor_layouts import to_ours
from clozeline.model.configuration.layer import BiasConfig, ShareConfig
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.configuration.position import DisentangledConfig, PositionConfig

NO_BIAS = BiasConfig(qkv=False, out=False, ffn=False)
VOCABULARY, PLACES = 37, 20


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
    key_map: KeyMap

    def of_theirs(self, tensors):
        """Their tensors by name, such as weights or gradients, in our names and shapes."""
        return to_ours(self.key_map, self.ours.config, tensors, [name for name, _ in self.ours.named_parameters()])


def bert(size, kind="Bert", theirs=None, **changes):
    settings = getattr(transformers, f"{kind}Config")(
        vocab_size=VOCABULARY, hidden_size=size.dim, num_hidden_layers=size.layers, num_attention_heads=size.heads,
        intermediate_size=size.ffn, max_position_embeddings=PLACES, pad_token_id=0, bos_token_id=1, eos_token_id=2,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, attn_implementation="eager", **(theirs or {}),
    )  # fmt: skip
    theirs = getattr(transformers, f"{kind}ForMaskedLM")(settings)
    ours = ModelConfig(**{
        "family": "encoder", "dim": size.dim, "layers": size.layers, "attention_heads": size.heads, "ffn_dim": size.ffn,
        "type_vocab_size": 2, "eps": 1e-12, "norm_place": "post", "final_norm": False, "emb_norm": True,
        "position": PositionConfig(maximum=PLACES), "heads": {"masked_lm": 1.0},
    } | changes)  # fmt: skip
    return pair(ours, theirs, settings.model_type)


def albert(size, **changes):
    theirs = {"embedding_size": 7, "num_hidden_groups": 1}
    changes = {"emb_dim": 7, "share": ShareConfig(groups=1), "activation": "gelu_tanh"} | changes
    return bert(size, "Albert", theirs, **changes)


def megatron_bert(size, **changes):
    changes = {"norm_place": "pre", "final_norm": True, "emb_norm": False} | changes
    return bert(size, "MegatronBert", **changes)


def rembert(size, **changes):
    theirs = {"input_embedding_size": 5, "output_embedding_size": 7}
    return bert(size, "RemBert", theirs, **{"emb_dim": 5, "out_dim": 7, "tied": False} | changes)


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
    return pair(ours, theirs, "gpt2")


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
    return pair(ours, theirs, "llama")


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
    return pair(ours, theirs, "t5")


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
    return pair(ours, theirs, "bart")


def xlm(size, **changes):
    theirs = transformers.XLMWithLMHeadModel(
        transformers.XLMConfig(
            vocab_size=VOCABULARY, emb_dim=size.dim, n_layers=size.layers, n_heads=size.heads, n_langs=3,
            max_position_embeddings=PLACES, pad_token_id=0, attn_implementation="eager",
        )
    )  # fmt: skip
    ours = ModelConfig(**{
        "family": "encoder", "dim": size.dim, "layers": size.layers, "attention_heads": size.heads,
        "ffn_dim": 4 * size.dim, "languages": 3, "eps": 1e-12, "norm_place": "post", "final_norm": False,
        "emb_norm": True, "position": PositionConfig(maximum=PLACES), "heads": {"masked_lm": {"transform": False}},
    } | changes)  # fmt: skip
    return pair(ours, theirs, "xlm")


def deberta(size, **changes):
    """Distances beyond 5 share the last row, so that both ends of the table are reached."""
    theirs = transformers.DebertaForMaskedLM(
        transformers.DebertaConfig(**_deberta(size), position_biased_input=True, pos_att_type=["c2p", "p2c"])
    )
    relative = DisentangledConfig(max_distance=5)
    return pair(
        _deberta_config(size, PositionConfig(maximum=PLACES, disentangled=relative), changes), theirs, "deberta"
    )


def deberta_v2(size, **changes):
    theirs = transformers.DebertaV2ForMaskedLM(
        transformers.DebertaV2Config(
            **_deberta(size), position_biased_input=False, pos_att_type=["c2p", "p2c"], position_buckets=4,
            share_att_key=True, norm_rel_ebd="layer_norm", conv_kernel_size=3, conv_act="gelu",
        )
    )  # fmt: skip
    relative = {"max_distance": 5, "buckets": 4, "shared_projections": True, "norm": True, "convolution": 3}
    position = PositionConfig(kind="none", disentangled=DisentangledConfig(**relative))
    return pair(_deberta_config(size, position, {"bias": BiasConfig()} | changes), theirs, "deberta-v2")


def _deberta(size):
    return {
        "vocab_size": VOCABULARY, "hidden_size": size.dim, "num_hidden_layers": size.layers,
        "num_attention_heads": size.heads, "intermediate_size": size.ffn, "max_position_embeddings": PLACES,
        "pad_token_id": 0, "relative_attention": True, "max_relative_positions": 5, "attn_implementation": "eager",
    }  # fmt: skip


def _deberta_config(size, position, changes):
    return ModelConfig(**{
        "family": "encoder", "dim": size.dim, "layers": size.layers, "attention_heads": size.heads, "ffn_dim": size.ffn,
        "eps": 1e-7, "norm_place": "post", "final_norm": False, "emb_norm": True, "bias": BiasConfig(key=False),
        "position": position, "heads": {"masked_lm": 1.0},
    } | changes)  # fmt: skip


PEERS = {
    "bert": bert,
    "albert": albert,
    "megatron_bert": megatron_bert,
    "rembert": rembert,
    "gpt2": gpt2,
    "llama": llama,
    "t5": t5,
    "t5_v1_1": t5_v1_1,
    "bart": bart,
    "xlm": xlm,
    "deberta": deberta,
    "deberta_v2": deberta_v2,
}


def pair(config, theirs, model_type):
    """Draw every parameter again (initial zeros and ones would hide mistakes), then copy theirs into ours."""
    draw = torch.Generator().manual_seed(3)
    for parameter in theirs.parameters():
        noise = torch.randn(parameter.shape, generator=draw)
        parameter.data = noise * parameter.shape[-1] ** -0.5 if parameter.ndim > 1 else 1 + noise * 0.2
    both = Pair(Model(config, VOCABULARY).eval(), theirs.eval(), map_of_type(model_type))
    source = both.of_theirs({name: parameter.data for name, parameter in theirs.named_parameters()})
    for name, parameter in both.ours.named_parameters():
        parameter.data = source[name].clone()
    return both
