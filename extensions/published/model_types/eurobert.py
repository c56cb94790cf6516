"""Encoders with Llama's layers: EuroBERT and NeoBERT."""

from dataclasses import replace
from typing import Final

import torch
from torch import Tensor

from clozeline.extensions.published.conversion.classes import Classes
from clozeline.extensions.published.conversion.key_map import KeyMap
from clozeline.extensions.published.conversion.tables import (
    GATED,
    Keys,
    Tensors,
    Values,
    attention_names,
    fused_names,
    layer_names,
    pool_name,
)
from clozeline.extensions.published.conversion.task_heads import TaskHeadNames
from clozeline.extensions.published.model_types.llama import LlamaKeys
from clozeline.model.configuration.head import ClassifierOptions
from clozeline.model.configuration.model_config import ModelConfig

_POOL_NAMES: Final = {"late": "late", "mean": "mean", "bos": "cls"}
"""Names of poolings in config.json, each with our name; the first is the default."""


class EuroBertKeys(LlamaKeys):
    """EuroBERT (arXiv 2503.05500).

    Llama's layers without a causal mask; the masked LM head is only a projection, with a bias if
    feed-forward blocks have one.

    The transformers class scores every token and averages the scores (`late`), unless
    `classifier_pooling` says otherwise.
    """

    model_type = "eurobert"
    classes = replace(
        LlamaKeys.classes,
        prefix="EuroBert",
        head_classes={("masked_lm",): "ForMaskedLM"},
        head_options={"transform": False},
        tasks={
            "ForSequenceClassification": TaskHeadNames(
                "classifier", "dense", options={"hidden": "gelu", "dropout": 0.0}
            ),
            "ForTokenClassification": TaskHeadNames("classifier", options={"dropout": 0.0}),
        },
    )

    class Configuration(LlamaKeys.Configuration):
        fixed = {**LlamaKeys.Configuration.fixed, "family": "encoder"}
        more_defaults = {"rms_norm_eps": 1e-5, "max_position_embeddings": 8192}
        extra_keys = {"classifier_pooling"}

        def read_extra(self, config_json: Keys, tensors: Tensors) -> Values:
            head = {"weight": 1.0, "transform": False, "bias": bool(config_json.get("mlp_bias"))}
            return {**super().read_extra(config_json, tensors), "heads.masked_lm": head}

        def task_options(self, ending: str, config_json: Keys) -> Values:
            if ending != "ForSequenceClassification":
                return {}
            if (name := config_json.get("classifier_pooling", "late")) not in _POOL_NAMES:
                self.refuse(
                    "classifier_pooling", f"expected one of {', '.join(_POOL_NAMES)}, got {name!r}"
                )
            return {"pool": _POOL_NAMES[name]}

        def task_keys(self, config: ModelConfig, head: ClassifierOptions) -> Values:
            return {"classifier_pooling": pool_name(_POOL_NAMES, head.pool_in(config.architecture))}

    class Tensors(LlamaKeys.Tensors):
        modules = {
            **{
                ours: published
                for ours, published in LlamaKeys.Tensors.modules.items()
                if not ours.startswith("heads.")
            },
            "heads.masked_lm.projection": "lm_head",
        }


_LAYER_MODULES = {
    **attention_names("qkv.query", "qkv.key", "qkv.value", "wo"),
    "attention.norm": "attention_norm",
    "feed_forward.body.down": "ffn.w3",
    "feed_forward.norm": "ffn_norm",
}
"""Modules of a layer."""


class NeoBertKeys(KeyMap):
    """NeoBERT (arXiv 2502.19587).

    Pre-norm encoder with RMSNorm and gated SiLU, whose rotation pairs neighboring components;
    import only.

    One matrix holds queries, keys and values, one attention head after another. An import splits
    it, and reorders queries and keys.
    """

    model_type = "neobert"
    read_only = (
        "transformers has no class for it, only code that its publisher ships; export the body "
        "alone as eurobert, which computes the same"
    )
    classes = Classes(
        "NeoBERT",
        head_classes={("masked_lm",): "LMHead"},
        base_class="",
        head_options={"transform": False},
    )

    class Configuration(KeyMap.Configuration):
        fixed = {
            "family": "encoder",
            "norm": "rms",
            "gated": True,
            "activation": "silu",
            "tied": False,
            "position.kind": "rope",
            **dict.fromkeys(("bias.qkv", "bias.out", "bias.ffn"), False),
        }
        table = {
            "dim": "hidden_size",
            "layers": "num_hidden_layers",
            "attention_heads": "num_attention_heads",
            "eps": ("norm_eps", 1e-6),
        }
        extra_keys = {
            "intermediate_size",
            "dim_head",
            "auto_map",
            "kwargs",
            "embedding_init_range",
            "decoder_init_range",
            "classifier_init_range",
        }

        def read_extra(self, config_json: Keys, tensors: Tensors) -> Values:
            """Return `ffn_dim`: 2/3 of `intermediate_size`, rounded up to a multiple of 8."""
            down = next(
                (tensor for name, tensor in tensors.items() if name.endswith(".0.ffn.w3.weight")),
                None,
            )
            narrow = int(config_json.get("intermediate_size", 3072) * 2 / 3)
            return {"ffn_dim": -(-narrow // 8) * 8 if down is None else down.shape[1]}

    class Tensors(KeyMap.Tensors):
        base = "model."
        modules = {
            "family.tokens": "model.encoder",
            **layer_names("family.stack", "model.transformer_encoder", _LAYER_MODULES),
            **fused_names("model.transformer_encoder.{i}.ffn.w12", GATED),
            "family.stack.norm": "model.layer_norm",
            "heads.masked_lm.projection": "decoder",
        }
        buffers = {
            r"(^|\.)freqs_cis$",
        }

        def tensors_of_class(self, tensors: Tensors, config: ModelConfig) -> dict[str, Tensor]:
            """Split fused projections, and reorder queries and keys, which rotate neighbors."""
            split: dict[str, Tensor] = {}

            for name, tensor in tensors.items():
                if not name.endswith(".qkv.weight"):
                    split[name] = tensor
                    continue
                # [heads, (query, key, value), head_dim, inputs]
                parts = tensor.view(config.attention_heads, 3, config.head_width, -1).unbind(1)
                for part, rows in zip(("query", "key", "value"), parts, strict=True):
                    reordered = (
                        rows if part == "value" else torch.cat((rows[:, ::2], rows[:, 1::2]), dim=1)
                    )
                    split[name.replace("qkv", f"qkv.{part}")] = reordered.flatten(0, 1)

            return split
