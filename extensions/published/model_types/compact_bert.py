"""Smaller encoders than BERT: ALBERT, DistilBERT and MobileBERT."""

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from clozeline.extensions.published.conversion.classes import Classes
from clozeline.extensions.published.conversion.key_map import KeyMap
from clozeline.extensions.published.conversion.tables import (
    ANSWER,
    DROPOUT,
    Keys,
    Names,
    Target,
    Tensors,
    Values,
    attention_names,
    layer_names,
)
from clozeline.extensions.published.conversion.task_heads import TaskHeadNames
from clozeline.extensions.published.model_types.bert import (
    BODY,
    FIXED,
    BertKeys,
    MaskedLMKeys,
    embedding_names,
)
from clozeline.model.configuration.head import ClassifierOptions
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.layers.bottleneck import BottleneckConfig

_ALBERT_DROPOUT: Final = "classifier_dropout_prob"
_ALBERT_POOLED: Final = TaskHeadNames(
    "classifier",
    "albert.pooler",
    options={"hidden": "tanh"},
    dropout=_ALBERT_DROPOUT,
    default_dropout=0.1,
)
_ALBERT_LAYER: Final = re.compile(r"(?<=\.encoder\.)layers\.(\d+)(?=\.)")
_ALBERT_MODULES: Final = {
    **attention_names("attention.query", "attention.key", "attention.value", "attention.dense"),
    "attention.norm": "attention.LayerNorm",
    "feed_forward.body.up": "ffn",
    "feed_forward.body.down": "ffn_output",
    "feed_forward.norm": "full_layer_layer_norm",
}
"""Modules of a layer."""


class AlbertKeys(BertKeys):
    """ALBERT (arXiv 1909.11942).

    BERT with a narrower token table, whose layers share weights in groups.
    """

    model_type = "albert"
    causal = None
    classes = replace(
        BertKeys.classes,
        prefix="Albert",
        shares_layers=True,
        head_classes={("masked_lm",): "ForMaskedLM", ("masked_lm", "sentence"): "ForPreTraining"},
        tasks={
            "ForSequenceClassification": _ALBERT_POOLED,
            "ForMultipleChoice": _ALBERT_POOLED,
            "ForTokenClassification": TaskHeadNames(
                "classifier", dropout=_ALBERT_DROPOUT, default_dropout=0.1
            ),
            "ForQuestionAnswering": ANSWER,
        },
        head_tensors={
            "masked_lm": "predictions.dense.weight",
            "sentence": "sop_classifier.classifier.weight",
        },
    )

    class Configuration(BertKeys.Configuration):
        table = {
            "emb_dim": "embedding_size",
            "share.groups": "num_hidden_groups",
            "share.group_layers": "inner_group_num",
        }
        more_defaults = {
            "num_hidden_groups": 1,
            "inner_group_num": 1,
            "hidden_dropout_prob": 0.0,
            "attention_probs_dropout_prob": 0.0,
            "hidden_act": "gelu_new",
        }

        def read_extra(self, config_json: Keys, tensors: Tensors) -> Values:
            """Return the number of layers; `num_hidden_layers` of config.json counts groups."""
            self.check_embedding_width(config_json, "embedding_size")
            groups, size = (
                config_json.get(key, 1) for key in ("num_hidden_layers", "inner_group_num")
            )
            return {**super().read_extra(config_json, tensors), "layers": groups * size}

        def write_extra(self, config: ModelConfig) -> Values:
            return {"num_hidden_layers": config.layers // config.share.group_layers}

    class Tensors(BertKeys.Tensors):
        base = "albert."
        head = "predictions"
        modules = {
            **embedding_names("albert."),
            "family.stack.embeddings.project": "albert.encoder.embedding_hidden_mapping_in",
            **layer_names("family.stack", "albert.encoder.layers", _ALBERT_MODULES),
            "heads.masked_lm.transform": "predictions.dense",
            "heads.masked_lm.norm": "predictions.LayerNorm",
            "heads.sentence.pooler.dense": "albert.pooler",
            "heads.sentence.classifier": "sop_classifier.classifier",
        }
        skipped = {
            r"^(albert\.)?pooler\.",
        }

        def targets(self, config: ModelConfig, ours: Iterable[str]) -> dict[str, Target]:
            """Number the layers within each group."""

            def name_in_group(match: re.Match[str]) -> str:
                group, layer = divmod(int(match[1]), config.share.group_layers)
                return f"albert_layer_groups.{group}.albert_layers.{layer}"

            targets = super().targets(config, ours)
            return {
                name: target._replace(name=_ALBERT_LAYER.sub(name_in_group, target.name))
                for name, target in targets.items()
            }


_DISTILBERT_POOLED = TaskHeadNames(
    "classifier",
    "pre_classifier",
    options={"hidden": "relu"},
    dropout="seq_classif_dropout",
    default_dropout=0.2,
)
_DISTILBERT_MODULES: Final = {
    **attention_names("attention.q_lin", "attention.k_lin", "attention.v_lin", "attention.out_lin"),
    "attention.norm": "sa_layer_norm",
    "feed_forward.body.up": "ffn.lin1",
    "feed_forward.body.down": "ffn.lin2",
    "feed_forward.norm": "output_layer_norm",
}
"""Modules of a layer."""


class DistilBertKeys(KeyMap):
    """DistilBERT (arXiv 1910.01108).

    BERT without segment types. A sinusoidal table, if a checkpoint has one, becomes a learned
    table.
    """

    model_type = "distilbert"
    classes = Classes(
        "DistilBert",
        head_classes={("masked_lm",): "ForMaskedLM"},
        tasks={
            "ForSequenceClassification": _DISTILBERT_POOLED,
            "ForMultipleChoice": _DISTILBERT_POOLED,
            "ForTokenClassification": TaskHeadNames("classifier"),
            "ForQuestionAnswering": TaskHeadNames(
                "qa_outputs", dropout="qa_dropout", default_dropout=0.1
            ),
        },
    )

    class Configuration(KeyMap.Configuration):
        fixed = {**FIXED, "type_vocab_size": 0, "eps": 1e-12}
        table = {
            "dim": "dim",
            "layers": "n_layers",
            "attention_heads": "n_heads",
            "ffn_dim": "hidden_dim",
            "tied": ("tie_word_embeddings", True),
            "position.maximum": ("max_position_embeddings", 512),
            "dropout.hidden": ("dropout", 0.1),
            "dropout.embedding": "dropout",
            "dropout.attention": ("attention_dropout", 0.1),
            "init.std": ("initializer_range", 0.02),
            "activation": ("activation", "gelu"),
        }
        supported = {"sinusoidal_pos_embds": (False, True)}
        activations = {"gelu": "gelu", "relu": "relu"}

    class Tensors(KeyMap.Tensors):
        base = "distilbert."
        modules = {
            "family.tokens": "distilbert.embeddings.word_embeddings",
            "family.stack.position.table": "distilbert.embeddings.position_embeddings",
            "family.stack.embeddings.norm": "distilbert.embeddings.LayerNorm",
            **layer_names("family.stack", "distilbert.transformer.layer", _DISTILBERT_MODULES),
            "heads.masked_lm.transform": "vocab_transform",
            "heads.masked_lm.norm": "vocab_layer_norm",
            "heads.masked_lm.projection.bias": "vocab_projector.bias",
            "heads.masked_lm.projection.weight": "vocab_projector.weight",
        }
        buffers = {
            r"embeddings\.position_ids$",
        }


_FIXED_EPS = 1e-5
"""Epsilon of the norms that transformers builds without `layer_norm_eps`."""
_UNREAD_BOTTLENECK = ".bottleneck.attention."
_MOBILEBERT_POOLED = TaskHeadNames("classifier", "mobilebert.pooler.dense", dropout=DROPOUT)
_MOBILEBERT_LAYER = {
    "enter.linear": "bottleneck.input.dense",
    "enter.norm": "bottleneck.input.LayerNorm",
    "enter_attention.linear": "bottleneck.attention.dense",
    "enter_attention.norm": "bottleneck.attention.LayerNorm",
    **{
        name.replace(".body.", "."): published
        for name, published in BODY.items()
        if name.startswith("attention.body.")
    },
    "attention_norm": "attention.output.LayerNorm",
    "leave": "output.bottleneck.dense",
    "norm": "output.bottleneck.LayerNorm",
}
"""Modules of a layer, except for its feed-forward blocks."""


class MobileBertKeys(MaskedLMKeys):
    """MobileBERT (arXiv 2004.02984).

    Encoder with bottlenecks, over trigrams of tokens; the last feed-forward block of a layer has
    other names than the blocks before it.
    """

    model_type = "mobilebert"
    classes = Classes(
        "MobileBert",
        head_classes={("masked_lm",): "ForMaskedLM", ("masked_lm", "sentence"): "ForPreTraining"},
        tasks={
            **BertKeys.classes.tasks,
            "ForSequenceClassification": _MOBILEBERT_POOLED,
            "ForMultipleChoice": _MOBILEBERT_POOLED,
        },
        head_tensors=BertKeys.classes.head_tensors,
    )

    class Configuration(MaskedLMKeys.Configuration):
        fixed = {**FIXED, "family": "mobilebert"}
        table = {
            "position.maximum": "max_position_embeddings",
            "emb_dim": "embedding_size",
            "out_dim": "hidden_size",
            "bottleneck_dim": "intra_bottleneck_size",
            "feed_forwards": "num_feedforward_networks",
        }
        more_defaults = {
            "hidden_act": "relu",
            "hidden_dropout_prob": 0.0,
            "embedding_size": 128,
            "intra_bottleneck_size": 128,
            "num_feedforward_networks": 4,
        }
        supported = {
            "trigram_input": (True,),
            "use_bottleneck": (True,),
            "tie_word_embeddings": (True,),
        }
        extra_keys = {
            "use_bottleneck_attention",
            "key_query_shared_bottleneck",
            "normalization_type",
            "classifier_activation",
            "true_hidden_size",
        }

        def read_extra(self, config_json: Keys, tensors: Tensors) -> Values:
            self.check_segment_types(config_json)
            norm = config_json.get("normalization_type", "no_norm")
            eps = config_json.get("layer_norm_eps", 1e-12)
            if norm != "no_norm" and (norm, eps) != ("layer_norm", _FIXED_EPS):
                self.refuse(
                    "normalization_type",
                    f"expected no_norm, or layer_norm with layer_norm_eps {_FIXED_EPS}, the "
                    f"only eps that all norms have; got {norm} with {eps}",
                )

            # read which bottlenecks serve queries, keys and values
            narrow = config_json.get("use_bottleneck_attention", False)
            shared = config_json.get("key_query_shared_bottleneck", True)
            if not narrow and not shared:
                self.refuse(
                    "key_query_shared_bottleneck",
                    "expected true if use_bottleneck_attention is false, got false for both",
                )

            switches: dict[str, object] = {"wide_values": not narrow, "no_norm": norm == "no_norm"}

            if "sentence" in self.classes.heads_in(tensors):
                switches["heads.sentence"] = {
                    "weight": 1.0,
                    "transform": config_json.get("classifier_activation", True),
                }

            return switches

        def keys_from_tensors(self, names: Iterable[str]) -> Values:
            """Return the switches of the shared bottleneck and of the pooler's matrix."""
            present = set(names)
            shared = (
                {"key_query_shared_bottleneck": True}
                if any(_UNREAD_BOTTLENECK in name for name in present)
                else {}
            )
            return shared | {
                "classifier_activation": any("pooler.dense" in name for name in present)
            }

        def task_options(self, ending: str, config_json: Keys) -> Values:
            pooled = ending in ("ForSequenceClassification", "ForMultipleChoice")
            return (
                {"hidden": "tanh"}
                if pooled and config_json.get("classifier_activation", True)
                else {}
            )

        def task_keys(self, config: ModelConfig, head: ClassifierOptions) -> Values:
            return {"classifier_activation": head.hidden is not None}

        def write_extra(self, config: ModelConfig) -> Values:
            assert isinstance(config, BottleneckConfig)
            sentence = config.heads.get("sentence")
            return {
                "classifier_activation": sentence is None or sentence.transform,
                "use_bottleneck_attention": not config.wide_values,
                "key_query_shared_bottleneck": config.wide_values,
                "normalization_type": "no_norm" if config.no_norm else "layer_norm",
            }

    class Tensors(MaskedLMKeys.Tensors):
        pooled = True
        base = "mobilebert."
        body = BertKeys.Tensors.body
        head = "cls.predictions"
        modules = {
            "family.tokens": "mobilebert.embeddings.word_embeddings",
            "family.embeddings.project": "mobilebert.embeddings.embedding_transformation",
            "family.embeddings.position.table": "mobilebert.embeddings.position_embeddings",
            "family.embeddings.types": "mobilebert.embeddings.token_type_embeddings",
            "family.embeddings.norm": "mobilebert.embeddings.LayerNorm",
            **layer_names("family", "mobilebert.encoder.layer", _MOBILEBERT_LAYER),
            "heads.masked_lm.transform": "cls.predictions.transform.dense",
            "heads.masked_lm.norm": "cls.predictions.transform.LayerNorm",
            "heads.masked_lm.projection.extra": "cls.predictions.dense",
            "heads.sentence.pooler.dense": "mobilebert.pooler.dense",
            "heads.sentence.classifier": "cls.seq_relationship",
        }
        transposed = ("predictions.dense",)
        skipped = {r"^(mobilebert\.)?pooler\.", r"\.bottleneck\.attention\."}
        buffers = {
            r"embeddings\.position_ids$",
        }

        def names(self, config: ModelConfig) -> Names:
            assert isinstance(config, BottleneckConfig)

            *others, last = range(config.feed_forwards)
            blocks = {number: f"ffn.{number}." for number in others} | {last: ""}
            names: dict[str, str] = {}

            for number, block in blocks.items():
                names |= {
                    f"feed_forwards.{number}.up": f"{block}intermediate.dense",
                    f"feed_forwards.{number}.down": f"{block}output.dense",
                    f"feed_forward_norms.{number}": f"{block}output.LayerNorm",
                }

            return {
                **super().names(config),
                **layer_names("family", "mobilebert.encoder.layer", names),
            }

        def names_to_keep(
            self, names: Iterable[str], config: ModelConfig, *, body_alone: bool
        ) -> set[str]:
            """Also keep the bottleneck that no attention reads if both its keys are true."""
            kept = super().names_to_keep(names, config, body_alone=body_alone)
            return kept | {name for name in names if _UNREAD_BOTTLENECK in name}
