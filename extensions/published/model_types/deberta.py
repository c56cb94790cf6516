"""DeBERTa, and DeBERTa v2 and v3."""

from dataclasses import replace
from typing import Final

from clozeline.extensions.published.conversion.classes import Classes
from clozeline.extensions.published.conversion.tables import (
    ACTIVATIONS,
    ANSWER,
    Keys,
    Names,
    Slice,
    Tensors,
    Values,
    layer_names,
)
from clozeline.extensions.published.conversion.task_heads import TaskHeadNames
from clozeline.extensions.published.model_types.bert import (
    BODY,
    FIXED,
    MaskedLMKeys,
    embedding_names,
)
from clozeline.model.configuration.head import ClassifierOptions
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.configuration.position import DisentangledConfig

_LAYER_PATH: Final = "deberta.encoder.layer"
_SCORE_KEYS: Final = {"c2p": "content_to_position", "p2c": "position_to_content"}


class DebertaKeys(MaskedLMKeys):
    """DeBERTa (arXiv 2006.03654).

    Post-norm encoder with disentangled attention; its fused projection alternates between heads.

    Published files have the head's parameters under the names of the class with `legacy: false`.
    Both forms can be read; an export has the other names, which every version of transformers
    reads. Neither class has the enhanced mask decoder.
    """

    model_type = "deberta"
    classes = Classes(
        "Deberta",
        head_classes={("masked_lm",): "ForMaskedLM"},
        tasks={
            "ForSequenceClassification": TaskHeadNames(
                "classifier", "pooler.dense", dropout="cls_dropout"
            ),
            "ForTokenClassification": TaskHeadNames("classifier"),
            "ForQuestionAnswering": ANSWER,
        },
    )

    class Configuration(MaskedLMKeys.Configuration):
        fixed = {**FIXED, "bias.key": False}
        table = {"position.maximum": "max_position_embeddings"}
        more_defaults = {
            "type_vocab_size": 0,
            "layer_norm_eps": 1e-7,
            "max_position_embeddings": 512,
        }
        supported = {"talking_head": (False,)}
        extra_keys = {
            "relative_attention",
            "max_relative_positions",
            "pos_att_type",
            "position_biased_input",
            "legacy",
            "embedding_size",
            "pooler_hidden_size",
            "pooler_dropout",
            "pooler_hidden_act",
            "cls_dropout",
        }
        layout = ("legacy",)

        def read_extra(self, config_json: Keys, tensors: Tensors) -> Values:
            """Return the keys of positions; a head with `legacy: false` is always tied."""
            self.refuse_other_computations(config_json)
            maximum = config_json.get("max_position_embeddings", 512)
            distance = config_json.get("max_relative_positions", -1)
            ours = {
                "position.kind": "learned"
                if config_json.get("position_biased_input", True)
                else "none",
                "position.disentangled.max_distance": maximum if distance == -1 else distance,
            }

            ours |= {
                f"position.disentangled.{key}": name in _scores(config_json)
                for name, key in _SCORE_KEYS.items()
            }
            return ours if config_json.get("legacy", True) else {**ours, "tied": True}

        def write_extra(self, config: ModelConfig) -> Values:
            chosen = config.position.disentangled or DisentangledConfig()
            return {
                "relative_attention": True,
                "max_relative_positions": chosen.max_distance,
                "pos_att_type": [
                    name for name, ours in _SCORE_KEYS.items() if getattr(chosen, ours)
                ],
                "position_biased_input": config.position.kind == "learned",
                "legacy": True,
            }

        def task_options(self, ending: str, config_json: Keys) -> Values:
            if ending not in ("ForSequenceClassification", "ForMultipleChoice"):
                return {}
            key = "pooler_hidden_act"
            known = {**ACTIVATIONS, "tanh": "tanh"}
            act = self.read_activation(config_json.get(key, "gelu"), key, known)
            return {"hidden": act, "input_dropout": config_json.get("pooler_dropout", 0.0)}

        def task_keys(self, config: ModelConfig, head: ClassifierOptions) -> Values:
            names = [
                theirs
                for theirs, ours in {**ACTIVATIONS, "tanh": "tanh"}.items()
                if ours == head.hidden
            ]
            return (
                {"pooler_hidden_act": names[0], "pooler_dropout": head.input_dropout}
                if names
                else {}
            )

        def refuse_other_computations(self, config_json: Keys) -> None:
            """Raise ConfigurationError for attention and widths that are not supported."""
            width = config_json.get("hidden_size")
            if not (relative := config_json.get("relative_attention")):
                why = "attention without relative positions is not supported"
                self.refuse("relative_attention", f"expected true, got {relative!r}; {why}")

            if (got := config_json.get("embedding_size", width)) != width:
                self.refuse(
                    "embedding_size",
                    f"expected hidden_size {width}, got {got}: other widths are not supported",
                )

            if unknown := _scores(config_json) - _SCORE_KEYS.keys():
                self.refuse(
                    "pos_att_type",
                    f"expected {' and '.join(_SCORE_KEYS)}, got {', '.join(sorted(unknown))}",
                )

    class Tensors(MaskedLMKeys.Tensors):
        base = "deberta."
        head = "cls.predictions"
        modules = {
            **embedding_names("deberta."),
            "family.stack.relative.table": "deberta.encoder.rel_embeddings",
            **layer_names(
                "family.stack",
                _LAYER_PATH,
                {name: theirs for name, theirs in BODY.items() if "self" not in theirs},
            ),
            **layer_names(
                "family.stack",
                _LAYER_PATH,
                {
                    "attention.body.query.bias": "attention.self.q_bias",
                    "attention.body.value.bias": "attention.self.v_bias",
                    "attention.body.key_of_place": "attention.self.pos_proj",
                    "attention.body.query_of_place": "attention.self.pos_q_proj",
                },
            ),
            "heads.masked_lm.transform": "cls.predictions.transform.dense",
            "heads.masked_lm.norm": "cls.predictions.transform.LayerNorm",
        }
        other_names = {
            "lm_predictions.lm_head.dense.": "cls.predictions.transform.dense.",
            "lm_predictions.lm_head.LayerNorm.": "cls.predictions.transform.LayerNorm.",
            "lm_predictions.lm_head.": "cls.predictions.",
        }
        only_trained = {
            r"\.places\.weight$",
        }
        training_key = "position.disentangled.mask_decoder"
        skipped = {
            r"^(deberta\.)?pooler\.",
            r"embeddings\.position_embeddings\.weight$",
            r"^mask_predictions\.",
        }
        buffers = {
            r"embeddings\.position_ids$",
        }

        def names(self, config: ModelConfig) -> Names:
            fused = f"{_LAYER_PATH}.{{i}}.attention.self.in_proj.weight"
            parts = {
                f"family.stack.layers.{{i}}.attention.body.{name}.weight": Slice(
                    fused, part, 3, config.attention_heads
                )
                for part, name in enumerate(("query", "key", "value"))
            }
            return {**super().names(config), **parts}


def _scores(config_json: Keys) -> set[str]:
    """Return the names of scores, from a list or a text with bars."""
    names = config_json.get("pos_att_type") or []
    return {
        name.strip()
        for name in (names.lower().split("|") if isinstance(names, str) else map(str, names))
    }


_NORM_NAME: Final = "layer_norm"
_LAYER_MODULES: Final = {
    "attention.body.query": "attention.self.query_proj",
    "attention.body.key": "attention.self.key_proj",
    "attention.body.value": "attention.self.value_proj",
    "attention.body.key_of_place": "attention.self.pos_key_proj",
    "attention.body.query_of_place": "attention.self.pos_query_proj",
}
"""Modules of a layer."""


class DebertaV2Keys(DebertaKeys):
    """DeBERTa v2 and v3 (arXiv 2111.09543).

    DeBERTa with a key bias and, optionally, distance buckets, shared projections, a norm and a
    convolution.
    """

    model_type = "deberta-v2"
    classes = replace(
        DebertaKeys.classes,
        prefix="DebertaV2",
        tasks={
            **DebertaKeys.classes.tasks,
            "ForMultipleChoice": DebertaKeys.classes.tasks["ForSequenceClassification"],
        },
    )

    class Configuration(DebertaKeys.Configuration):
        fixed = {**DebertaKeys.Configuration.fixed, "bias.key": True}
        supported = {"conv_groups": (1,)}
        extra_keys = {
            "position_buckets",
            "share_att_key",
            "norm_rel_ebd",
            "conv_kernel_size",
            "conv_act",
            "attention_head_size",
        }

        def read_extra(self, config_json: Keys, tensors: Tensors) -> Values:
            kernel = config_json.get("conv_kernel_size", 0)
            buckets = config_json.get("position_buckets", -1)
            return super().read_extra(config_json, tensors) | {
                "position.disentangled.buckets": None if buckets == -1 else buckets,
                "position.disentangled.shared_projections": config_json.get("share_att_key", False),
                "position.disentangled.norm": _NORM_NAME
                in str(config_json.get("norm_rel_ebd", "none")).lower().split("|"),
                "position.disentangled.convolution": kernel or None,
            }

        def write_extra(self, config: ModelConfig) -> Values:
            chosen = config.position.disentangled or DisentangledConfig()
            return super().write_extra(config) | {
                "position_buckets": chosen.buckets or -1,
                "share_att_key": chosen.shared_projections,
                "norm_rel_ebd": _NORM_NAME if chosen.norm else "none",
                "conv_kernel_size": chosen.convolution or 0,
                "conv_act": self.activation_name(config),
            }

        def refuse_other_computations(self, config_json: Keys) -> None:
            super().refuse_other_computations(config_json)

            # the convolution must have the activation of the layers
            act = config_json.get("hidden_act", "gelu")
            convolution_act = config_json.get("conv_act", "tanh")
            if config_json.get("conv_kernel_size", 0) and convolution_act != act:
                self.refuse(
                    "conv_act",
                    f"expected hidden_act {act}, got {convolution_act}: another activation in the "
                    "first layer is not supported",
                )
            # heads must divide the width exactly
            width = config_json.get("attention_head_size")
            if width is not None and width * config_json.get(
                "num_attention_heads", 0
            ) != config_json.get("hidden_size"):
                self.refuse(
                    "attention_head_size",
                    f"expected hidden_size / num_attention_heads, got {width}",
                )

    class Tensors(DebertaKeys.Tensors):
        modules = {
            **DebertaKeys.Tensors.modules,
            "family.stack.relative.norm": "deberta.encoder.LayerNorm",
            "family.stack.layers.{i}.convolution": "deberta.encoder.conv.conv",
            "family.stack.layers.{i}.norm": "deberta.encoder.conv.LayerNorm",
            **layer_names("family.stack", "deberta.encoder.layer", _LAYER_MODULES),
        }

        def names(self, config: ModelConfig) -> Names:
            # no projection is fused: drop the parameters that DeBERTa names one by one
            modules = [
                f"family.stack.layers.{{i}}.attention.body.{name}"
                for name in ("query", "key", "value")
            ]
            fused = {f"{module}.{kind}" for module in modules for kind in ("weight", "bias")}
            return {
                name: theirs for name, theirs in super().names(config).items() if name not in fused
            }
