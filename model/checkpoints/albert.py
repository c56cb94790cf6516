"""ALBERT (arXiv 1909.11942)."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final

from clozeline.model.checkpoints._conversion.key_map import Keys, Tensors
from clozeline.model.checkpoints._conversion.tables import ANSWER, Target, attention_names, layer_names
from clozeline.model.checkpoints._conversion.task_heads import Task
from clozeline.model.checkpoints.bert import Bert, embedding_names
from clozeline.model.configuration.model_config import ModelConfig

_DROPOUT: Final = "classifier_dropout_prob"
_POOLED: Final = Task("classifier", "albert.pooler", options={"hidden": "tanh"}, dropout=_DROPOUT, usual=0.1)
_LAYER: Final = re.compile(r"(?<=\.encoder\.)layers\.(\d+)(?=\.)")
_MODULES: Final = {
    **attention_names("attention.query", "attention.key", "attention.value", "attention.dense"),
    "attention.norm": "attention.LayerNorm",
    "feed_forward.body.up": "ffn",
    "feed_forward.body.down": "ffn_output",
    "feed_forward.norm": "full_layer_layer_norm",
}
"""Modules of a layer."""


class Albert(Bert):
    """BERT with a narrower token table, whose layers share weights in groups."""

    model_type = "albert"
    stem = "Albert"
    causal: ClassVar[str | None] = None
    base = "albert."
    shares = True
    class_ends: ClassVar = {("masked_lm",): "ForMaskedLM", ("masked_lm", "sentence"): "ForPreTraining"}
    tasks: ClassVar[Mapping[str, Task]] = {
        "ForSequenceClassification": _POOLED,
        "ForMultipleChoice": _POOLED,
        "ForTokenClassification": Task("classifier", dropout=_DROPOUT, usual=0.1),
        "ForQuestionAnswering": ANSWER,
    }
    marks: ClassVar = {"masked_lm": "predictions.dense.weight", "sentence": "sop_classifier.classifier.weight"}
    fields: ClassVar = {
        **Bert.fields,
        "emb_dim": "embedding_size",
        "share.groups": "num_hidden_groups",
        "share.group_layers": "inner_group_num",
    }
    defaults: ClassVar = {
        **Bert.defaults,
        "num_hidden_groups": 1,
        "inner_group_num": 1,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        "hidden_act": "gelu_new",
    }
    head = "predictions"
    modules: ClassVar = {
        **embedding_names("albert."),
        "family.stack.embeddings.project": "albert.encoder.embedding_hidden_mapping_in",
        **layer_names("family.stack", "albert.encoder.layers", _MODULES),
        "heads.masked_lm.transform": "predictions.dense",
        "heads.masked_lm.norm": "predictions.LayerNorm",
        "heads.sentence.pooler.dense": "albert.pooler",
        "heads.sentence.classifier": "sop_classifier.classifier",
    }
    left_out = (r"^(albert\.)?pooler\.",)

    def more_of_ours(self, plain: Keys, tensors: Tensors) -> dict[str, Any]:
        """Return the number of layers; their `num_hidden_layers` counts groups."""
        self.refuse_equal_widths(plain, "embedding_size")
        groups, size = (plain.get(key, 1) for key in ("num_hidden_layers", "inner_group_num"))
        return {**super().more_of_ours(plain, tensors), "layers": groups * size}

    def more_of_theirs(self, config: ModelConfig) -> dict[str, Any]:
        return {"num_hidden_layers": config.layers // config.share.group_layers}

    def targets(self, config: ModelConfig, ours: Iterable[str]) -> dict[str, Target]:
        """Number the layers within each group."""

        def name_in_group(match: re.Match[str]) -> str:
            group, layer = divmod(int(match[1]), config.share.group_layers)
            return f"albert_layer_groups.{group}.albert_layers.{layer}"

        targets = super().targets(config, ours)
        return {name: target._replace(name=_LAYER.sub(name_in_group, target.name)) for name, target in targets.items()}
