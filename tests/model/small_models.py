"""Small models and batches that the model tests share."""

import torch

from model.config import BiasConfig, InitConfig, ModelConfig, PositionConfig

VOCABULARY = 37

FAMILIES = ("encoder", "decoder", "encoder_decoder")


def small_config(family, /, **changes):
    """A BERT, Llama or T5 of a few thousand parameters; every part of the core occurs in one of them."""
    keys = {"family": family, "dim": 24, "layers": 2, "attention_heads": 4, "ffn_dim": 40}
    if family == "encoder":
        keys |= {
            "norm_place": "post",
            "final_norm": False,
            "emb_norm": True,
            "type_vocab_size": 2,
            "heads": {"masked_lm": 1.0},
        }
    elif family == "decoder":
        keys |= {"norm": "rms", "activation": "silu", "gated": True, "kv_heads": 2, "heads": {"lm": 1.0}}
        keys |= {"bias": BiasConfig(qkv=False, out=False, ffn=False), "position": PositionConfig(kind="rope")}
    else:
        keys |= {
            "norm": "rms",
            "activation": "relu",
            "head_dim": 5,
            "qk_scale": 1.0,
            "out_scale": True,
            "heads": {"lm": 1.0},
        }
        keys |= {"bias": BiasConfig(qkv=False, out=False, ffn=False), "decoder_layers": 3}
        keys |= {"position": PositionConfig(kind="t5", buckets=8, max_distance=12), "init": InitConfig(scheme="t5")}
    return ModelConfig(**(keys | changes))


def batch_for(family, seed=0, rows=4, columns=11, labels=True, lengths=None):
    """A padded batch with two labels a row (none, if not `labels`), filled by the generator of `seed`."""
    draw = torch.Generator().manual_seed(seed)
    if lengths is None:
        lengths = torch.randint(3, columns + 1, (rows,), generator=draw)
        lengths[0] = columns
    lengths = torch.as_tensor(lengths)
    rows = len(lengths)
    tensors = _rows(draw, rows, columns, lengths, "")
    labelled = columns
    if family == "encoder_decoder":
        labelled = columns - 2
        tensors |= _rows(draw, rows, labelled, lengths.clamp(max=labelled), "decoder_")
    index = torch.tensor([row * labelled + place for row in range(rows) for place in (0, 2)] if labels else [])
    tensors["label_index"] = index.long()
    tensors["label_ids"] = torch.randint(1, VOCABULARY, (len(index),), generator=draw)
    tensors["row_weight"] = torch.ones(rows)
    return tensors


def _rows(draw, rows, columns, lengths, prefix):
    places = torch.arange(columns).expand(rows, columns)
    ids = torch.randint(1, VOCABULARY, (rows, columns), generator=draw)
    return {
        f"{prefix}input_ids": ids.masked_fill(places >= lengths[:, None], 0),
        f"{prefix}position_ids": places.clone(),
        f"{prefix}lengths": lengths,
    }
