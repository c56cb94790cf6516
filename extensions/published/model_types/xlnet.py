"""XLNet (arXiv 1906.08237)."""

from collections.abc import Mapping
from typing import Final

from clozeline.extensions.published.conversion.classes import Classes
from clozeline.extensions.published.conversion.key_map import KeyMap
from clozeline.extensions.published.conversion.tables import (
    Keys,
    Names,
    Reshaped,
    Values,
    layer_names,
)
from clozeline.extensions.published.conversion.task_heads import TaskHeadNames
from clozeline.model.configuration.head import ClassifierOptions
from clozeline.model.configuration.model_config import ModelConfig

_MATRICES_BY_HEAD: Mapping[str, str] = {
    "query.weight": "q",
    "key.weight": "k",
    "value.weight": "v",
    "position.weight": "r",
    "out.weight": "o",
    "segments": "seg_embed",
}
_BIASES_BY_HEAD: Mapping[str, str] = {
    "content_bias": "r_w_bias",
    "position_bias": "r_r_bias",
    "segment_bias": "r_s_bias",
}
_SUMMARY_HEAD = TaskHeadNames(
    *("logits_proj", "sequence_summary.summary"),
    options={"hidden": "tanh", "pool": "last"},
    dropout="summary_last_dropout",
    default_dropout=0.1,
)
_LAYER_MODULES: Final = {
    "attention.norm": "rel_attn.layer_norm",
    "feed_forward.body.up": "ff.layer_1",
    "feed_forward.body.down": "ff.layer_2",
    "feed_forward.norm": "ff.layer_norm",
}
"""Modules of a layer."""


class XLNetKeys(KeyMap):
    """Relative attention whose parameters have an axis for the heads.

    Segment-level recurrence is not implemented.
    """

    model_type = "xlnet"
    classes = Classes(
        "XLNet",
        head_classes={("masked_lm",): "LMHeadModel"},
        head_options={"transform": False},
        loader="AutoModelForPreTraining",
        tasks={
            "ForSequenceClassification": _SUMMARY_HEAD,
            "ForMultipleChoice": _SUMMARY_HEAD,
            "ForTokenClassification": TaskHeadNames("classifier", options={"dropout": 0.0}),
            "ForQuestionAnswering": TaskHeadNames(
                "qa_outputs", options={"dropout": 0.0}, suffix="Simple"
            ),
        },
    )

    class Configuration(KeyMap.Configuration):
        fixed = {
            "family": "xlnet",
            "norm_place": "post",
            "final_norm": False,
            "position.kind": "sinusoidal",
            "bias.qkv": False,
            "bias.out": False,
        }
        table = {
            "dim": "d_model",
            "layers": "n_layer",
            "attention_heads": "n_head",
            "ffn_dim": "d_inner",
            "eps": ("layer_norm_eps", 1e-12),
            "tied": ("tie_word_embeddings", True),
            "dropout.hidden": ("dropout", 0.1),
            "dropout.embedding": "dropout",
            "dropout.attention": "dropout",
            "dropout.activation": "dropout",
            "dropout.output": "dropout",
            "init.std": ("initializer_range", 0.02),
            "activation": ("ff_activation", "gelu"),
        }
        supported = {"attn_type": ("bi",), "bi_data": (False,), "clamp_len": (-1, 0)}
        extra_keys = {
            "d_head",
            "untie_r",
            "same_length",
            "mem_len",
            "reuse_len",
            "use_mems_eval",
            "use_mems_train",
            "start_n_top",
            "end_n_top",
            "summary_last_dropout",
        }

        def task_options(self, ending: str, config_json: Keys) -> Values:
            """Raise ConfigurationError for summary keys other than the class's defaults."""
            if ending in ("ForSequenceClassification", "ForMultipleChoice"):
                supported_values = {
                    "summary_type": ("last",),
                    "summary_use_proj": (True,),
                    "summary_activation": ("tanh",),
                }
                self.refuse_other_values(config_json, supported_values)
            return {}

        def task_keys(self, config: ModelConfig, head: ClassifierOptions) -> Values:
            return {"summary_type": "last", "summary_use_proj": True, "summary_activation": "tanh"}

    class Tensors(KeyMap.Tensors):
        base = "transformer."
        modules = {
            "family.tokens": "transformer.word_embedding",
            **layer_names("family", "transformer.layer", _LAYER_MODULES),
            "heads.masked_lm.projection": "lm_loss",
        }
        transposed = ("q", "k", "v", "r")

        def names(self, config: ModelConfig) -> Names:
            """Also return the parameters with an axis for the heads."""
            heads = config.attention_heads
            width = config.head_width
            our_module = "family.layers.{i}.attention.body"
            published = "transformer.layer.{i}.rel_attn"
            matrices = {
                name: Reshaped(f"{published}.{target}", (-1, heads, width))
                for name, target in _MATRICES_BY_HEAD.items()
            }
            biases = {
                name: Reshaped(f"{published}.{target}", (heads, width))
                for name, target in _BIASES_BY_HEAD.items()
            }

            return {
                **self.modules,
                **{f"{our_module}.{name}": target for name, target in (matrices | biases).items()},
                "family.unknown": Reshaped("transformer.mask_emb", (1, 1, config.embedding_width)),
            }
