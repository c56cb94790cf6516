"""BERT and types with its layers: Megatron-BERT, RemBERT and ELECTRA."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Final

from clozeline.extensions.published.conversion.classes import Classes
from clozeline.extensions.published.conversion.key_map import KeyMap
from clozeline.extensions.published.conversion.tables import (
    ANSWER,
    DROPOUT,
    SIZES,
    TAGS,
    Keys,
    Names,
    Tensors,
    Values,
    attention_names,
    layer_names,
)
from clozeline.extensions.published.conversion.task_heads import TaskHeadNames, endings
from clozeline.model.configuration.head import ClassifierOptions
from clozeline.model.configuration.model_config import ModelConfig

FIXED: Final[Mapping[str, Any]] = {
    "family": "encoder",
    "norm": "layer",
    "norm_place": "post",
    "final_norm": False,
    "emb_norm": True,
    "position.kind": "learned",
}
ENCODER_ONLY: Final[Mapping[str, tuple[Any, ...]]] = {
    "position_embedding_type": ("absolute",),
    "is_decoder": (False,),
    "add_cross_attention": (False,),
}
POOLED: Final = TaskHeadNames(
    "classifier", "bert.pooler.dense", options={"hidden": "tanh"}, dropout=DROPOUT
)
"""Layout of the head that scores a row: its classes, or the row as a choice."""
BODY: Final[Mapping[str, str]] = {
    **attention_names(
        "attention.self.query",
        "attention.self.key",
        "attention.self.value",
        "attention.output.dense",
    ),
    "attention.norm": "attention.output.LayerNorm",
    "feed_forward.body.up": "intermediate.dense",
    "feed_forward.body.down": "output.dense",
    "feed_forward.norm": "output.LayerNorm",
}
"""Modules of a layer."""


def embedding_names(base: str) -> Values:
    """Return the modules before the layers, under a prefix."""
    return {
        "family.tokens": f"{base}embeddings.word_embeddings",
        "family.stack.position.table": f"{base}embeddings.position_embeddings",
        "family.stack.embeddings.types": f"{base}embeddings.token_type_embeddings",
        "family.stack.embeddings.norm": f"{base}embeddings.LayerNorm",
    }


def body_names(base: str, layer: Mapping[str, str] = BODY) -> Values:
    """Return the modules of the body, under a prefix."""
    return {**embedding_names(base), **layer_names("family.stack", f"{base}encoder.layer", layer)}


class MaskedLMKeys(KeyMap):
    """Types whose masked LM head projects onto the token table, with a bias that has two names."""

    causal: ClassVar[str | None] = None
    """Ending of the type's class that predicts next tokens with this head; None: no such class."""

    class Configuration(KeyMap.Configuration):
        fixed = FIXED
        table = {
            **SIZES,
            "type_vocab_size": ("type_vocab_size", 2),
            "eps": ("layer_norm_eps", 1e-12),
            "tied": ("tie_word_embeddings", True),
            "dropout.hidden": ("hidden_dropout_prob", 0.1),
            "dropout.embedding": "hidden_dropout_prob",
            "dropout.attention": ("attention_probs_dropout_prob", 0.1),
            "init.std": ("initializer_range", 0.02),
            "activation": ("hidden_act", "gelu"),
        }
        supported = ENCODER_ONLY

        def check_segment_types(self, config_json: Keys) -> None:
            """Raise ConfigurationError without segment types, which the class always reads."""
            if config_json.get("type_vocab_size") == 0:
                self.refuse("type_vocab_size", "expected 1 or more, got 0")

    class Tensors(KeyMap.Tensors):
        head: ClassVar[str]
        """prefix of the names of the head's parameters"""

        def names(self, config: ModelConfig) -> Names:
            """Return the names; an untied projection's bias has the second name of a tied one's."""
            decoder = f"{self.head}.decoder"
            bias = f"{self.head}.bias" if config.tied else f"{decoder}.bias"
            ours = f"heads.{self.classes.heads[0]}.projection"
            return {**self.modules, f"{ours}.bias": bias, f"{ours}.weight": f"{decoder}.weight"}

        def ties(self, config: ModelConfig) -> dict[str, str]:
            return (
                {f"{self.head}.decoder.bias": f"{self.head}.bias", **super().ties(config)}
                if config.tied
                else {}
            )

        def unread_copies(self, config: ModelConfig) -> dict[str, str]:
            """Return the bias that an untied projection does not read."""
            unread = not config.tied and self.classes.heads[0] in config.heads
            return {f"{self.head}.bias": f"{self.head}.decoder.bias"} if unread else {}

    def variants(self) -> tuple[KeyMap, ...]:
        return () if self.causal is None else (_causal_map(self, self.causal),)


class BertKeys(MaskedLMKeys):
    """BERT (arXiv 1810.04805).

    Post-norm encoder with segment types; the pooler is part of the next-sentence head.
    """

    model_type = "bert"
    causal: ClassVar[str | None] = "LMHeadModel"
    classes = Classes(
        "Bert",
        head_classes={
            ("masked_lm",): "ForMaskedLM",
            ("masked_lm", "sentence"): "ForPreTraining",
            ("sentence",): "ForNextSentencePrediction",
        },
        head_tensors={
            "masked_lm": "predictions.transform.dense.weight",
            "sentence": "seq_relationship.weight",
        },
        tasks={
            "ForSequenceClassification": POOLED,
            "ForMultipleChoice": POOLED,
            "ForTokenClassification": TAGS,
            "ForQuestionAnswering": ANSWER,
        },
    )

    class Configuration(MaskedLMKeys.Configuration):
        table = {"position.maximum": "max_position_embeddings"}

        def read_extra(self, config_json: Keys, tensors: Tensors) -> Values:
            self.check_segment_types(config_json)
            return {}

        def check_embedding_width(self, config_json: Keys, key: str) -> None:
            """Raise ConfigurationError for a token table as wide as the layers.

            The class of transformers would project it even then.
            """
            if key in config_json and config_json[key] == config_json.get("hidden_size"):
                self.refuse(
                    key,
                    f"expected another width than hidden_size {config_json[key]}: between equal "
                    "widths, models here have no projection",
                )

    class Tensors(MaskedLMKeys.Tensors):
        pooled = True
        base = "bert."
        body: ClassVar[tuple[str, ...]] = ("family.", "heads.sentence.pooler.")
        head = "cls.predictions"
        modules = {
            **body_names("bert."),
            "heads.masked_lm.transform": "cls.predictions.transform.dense",
            "heads.masked_lm.norm": "cls.predictions.transform.LayerNorm",
            "heads.sentence.pooler.dense": "bert.pooler.dense",
            "heads.sentence.classifier": "cls.seq_relationship",
        }
        skipped = {
            r"^(bert\.)?pooler\.",
        }
        buffers = {r"embeddings\.position_ids$", r"embeddings\.token_type_ids$"}


def _causal_map(encoder: KeyMap, end: str) -> KeyMap:
    """Return the map of a type's causal class, with the names of its masked LM head.

    Such a class has `is_decoder` in config.json.
    """
    map_class = type(encoder)
    names = map_class.Tensors.modules.items()
    keys = {
        "fixed": {**map_class.Configuration.fixed, "family": "decoder"},
        "supported": {**map_class.Configuration.supported, "is_decoder": (True,)},
    }
    tables = {
        "body": ("family.",),
        "modules": {
            name.replace("heads.masked_lm.", "heads.lm."): published for name, published in names
        },
    }
    # a subclass with these tables
    members = {
        "classes": Classes(
            map_class.classes.prefix,
            {("lm",): end},
            map_class.classes.base_class,
            head_options={"projection": "transformed"},
            projections=("transformed",),
        ),
        "Configuration": type("Configuration", (map_class.Configuration,), keys),
        "Tensors": type("Tensors", (map_class.Tensors,), tables),
        "causal": None,
        "is_written_by": lambda self, config_json: bool(config_json.get("is_decoder")),
    }

    return type(f"Causal{map_class.__name__}", (map_class,), members)()


class MegatronBertKeys(BertKeys):
    """Megatron-LM's BERT (arXiv 1909.08053).

    BERT with the norms before attention and feed-forward block, and one after the last layer.
    """

    model_type = "megatron-bert"
    causal = "ForCausalLM"
    classes = replace(
        BertKeys.classes,
        prefix="MegatronBert",
        tasks={
            "ForSequenceClassification": POOLED._replace(dropout=None),
            "ForMultipleChoice": POOLED._replace(dropout=None),
            "ForTokenClassification": TaskHeadNames("classifier"),
            "ForQuestionAnswering": ANSWER,
        },
    )

    class Configuration(BertKeys.Configuration):
        fixed = {**FIXED, "norm_place": "pre", "final_norm": True, "emb_norm": False}

    class Tensors(BertKeys.Tensors):
        modules = {
            **BertKeys.Tensors.modules,
            **body_names(
                "bert.", {**BODY, "attention.norm": "attention.ln", "feed_forward.norm": "ln"}
            ),
            "family.stack.norm": "bert.encoder.ln",
        }


_REMBERT_DROPOUT = "classifier_dropout_prob"
_REMBERT_POOLED = TaskHeadNames(
    "classifier",
    "rembert.pooler.dense",
    options={"hidden": "tanh"},
    dropout=_REMBERT_DROPOUT,
    default_dropout=0.1,
)


class RemBertKeys(BertKeys):
    """RemBERT (arXiv 2010.12821).

    BERT with a narrow token table and a separate wide output projection.
    """

    model_type = "rembert"
    causal = "ForCausalLM"
    classes = replace(
        BertKeys.classes,
        prefix="RemBert",
        head_classes={("masked_lm",): "ForMaskedLM"},
        tasks={
            "ForSequenceClassification": _REMBERT_POOLED,
            "ForMultipleChoice": _REMBERT_POOLED,
            "ForTokenClassification": TaskHeadNames(
                "classifier", dropout=_REMBERT_DROPOUT, default_dropout=0.1
            ),
            "ForQuestionAnswering": ANSWER,
        },
        head_tensors={},
    )

    class Configuration(BertKeys.Configuration):
        fixed = {**FIXED, "tied": False}
        table = {
            "emb_dim": "input_embedding_size",
            "out_dim": "output_embedding_size",
        }
        more_defaults = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
        supported = {**ENCODER_ONLY, "tie_word_embeddings": (False,)}

        def read_extra(self, config_json: Keys, tensors: Tensors) -> Values:
            self.check_embedding_width(config_json, "input_embedding_size")
            return super().read_extra(config_json, tensors)

    class Tensors(BertKeys.Tensors):
        base = "rembert."
        body = ("family.",)
        modules = {
            **body_names("rembert."),
            "family.stack.embeddings.project": "rembert.encoder.embedding_hidden_mapping_in",
            "heads.masked_lm.transform": "cls.predictions.dense",
            "heads.masked_lm.norm": "cls.predictions.LayerNorm",
        }
        skipped = {
            r"^(rembert\.)?pooler\.",
        }

        def unread_copies(self, config: ModelConfig) -> dict[str, str]:
            return {}


_SUMMARY_KEYS = {"summary_type": "first", "summary_use_proj": True, "summary_activation": "gelu"}


class ElectraKeys(BertKeys):
    """ELECTRA (arXiv 2003.10555).

    BERT with a token table of any width: a generator, or a discriminator. A generator's head uses
    the exact GELU.
    """

    model_type = "electra"
    causal = "ForCausalLM"
    classes = replace(
        BertKeys.classes,
        prefix="Electra",
        head_classes={("masked_lm",): "ForMaskedLM", ("token",): "ForPreTraining"},
        tasks={
            **BertKeys.classes.tasks,
            "ForSequenceClassification": TaskHeadNames(
                "classifier.out_proj",
                "classifier.dense",
                options={"hidden": "gelu"},
                dropout=DROPOUT,
                twice=True,
            ),
            "ForMultipleChoice": TaskHeadNames(
                *("classifier", "sequence_summary.summary"),
                options={"hidden": "gelu"},
                dropout="summary_last_dropout",
                default_dropout=0.1,
            ),
        },
        head_tensors={
            "masked_lm": "generator_predictions.dense.weight",
            "token": "discriminator_predictions.dense.weight",
        },
    )

    class Configuration(BertKeys.Configuration):
        table = {"emb_dim": "embedding_size"}
        more_defaults = {"embedding_size": 128}
        activations = {"gelu": "gelu"}

        def task_options(self, ending: str, config_json: Keys) -> Values:
            """Raise ConfigurationError for summary keys other than the class's defaults."""
            if ending == "ForMultipleChoice":
                self.refuse_other_values(
                    config_json, {key: (value,) for key, value in _SUMMARY_KEYS.items()}
                )
            return {}

        def task_keys(self, config: ModelConfig, head: ClassifierOptions) -> Values:
            return (
                dict(_SUMMARY_KEYS) if endings().get(*config.heads) == "ForMultipleChoice" else {}
            )

    class Tensors(BertKeys.Tensors):
        pooled = False
        base = "electra."
        body = ("family.",)
        modules = {
            **body_names("electra."),
            "family.stack.embeddings.project": "electra.embeddings_project",
            "heads.masked_lm.transform": "generator_predictions.dense",
            "heads.masked_lm.norm": "generator_predictions.LayerNorm",
            "heads.masked_lm.projection": "generator_lm_head",
            "heads.token.dense": "discriminator_predictions.dense",
            "heads.token.classifier": "discriminator_predictions.dense_prediction",
        }
        skipped = set()

        def names(self, config: ModelConfig) -> Names:
            return self.modules

        def ties(self, config: ModelConfig) -> dict[str, str]:
            return (
                {"generator_lm_head.weight": "electra.embeddings.word_embeddings.weight"}
                if config.tied
                else {}
            )

        def unread_copies(self, config: ModelConfig) -> dict[str, str]:
            return {}
