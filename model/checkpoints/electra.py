"""ELECTRA (arXiv 2003.10555)."""

from collections.abc import Mapping
from typing import Any, ClassVar

from clozeline.model.checkpoints._conversion.key_map import Keys
from clozeline.model.checkpoints._conversion.tables import DROPOUT
from clozeline.model.checkpoints._conversion.task_heads import Task
from clozeline.model.checkpoints.bert import Bert, body_names
from clozeline.model.configuration.model_config import ModelConfig

_SUMMARY = {"summary_type": "first", "summary_use_proj": True, "summary_activation": "gelu"}


class Electra(Bert):
    """BERT with a token table of any width: a generator, or a discriminator. A generator's head uses the exact GELU."""

    model_type = "electra"
    stem = "Electra"
    causal = "ForCausalLM"
    pooled = False
    base = "electra."
    class_ends: ClassVar = {("masked_lm",): "ForMaskedLM", ("token",): "ForPreTraining"}
    tasks: ClassVar = {
        **Bert.tasks,
        "ForSequenceClassification": Task(
            "classifier.out_proj", "classifier.dense", options={"hidden": "gelu"}, dropout=DROPOUT, twice=True
        ),
        "ForMultipleChoice": Task(
            *("classifier", "sequence_summary.summary"),
            options={"hidden": "gelu"},
            dropout="summary_last_dropout",
            usual=0.1,
        ),
    }
    marks: ClassVar = {
        "masked_lm": "generator_predictions.dense.weight",
        "token": "discriminator_predictions.dense.weight",
    }
    body = ("family.",)
    fields: ClassVar = {**Bert.fields, "emb_dim": "embedding_size"}
    defaults: ClassVar = {**Bert.defaults, "embedding_size": 128}
    activations: ClassVar = {"gelu": "gelu"}
    modules: ClassVar = {
        **body_names("electra."),
        "family.stack.embeddings.project": "electra.embeddings_project",
        "heads.masked_lm.transform": "generator_predictions.dense",
        "heads.masked_lm.norm": "generator_predictions.LayerNorm",
        "heads.masked_lm.projection": "generator_lm_head",
        "heads.token.dense": "discriminator_predictions.dense",
        "heads.token.classifier": "discriminator_predictions.dense_prediction",
    }
    left_out = ()

    def task_options(self, ending: str, plain: Keys) -> dict[str, Any]:
        """Refuse summaries other than the class's defaults."""
        if ending == "ForMultipleChoice":
            self.refuse_other_values(plain, {key: (value,) for key, value in _SUMMARY.items()})
        return {}

    def task_keys(self, config: ModelConfig) -> dict[str, Any]:
        return dict(_SUMMARY) if "multiple_choice" in config.heads else {}

    def names(self, config: ModelConfig) -> Mapping[str, Any]:
        return self.modules

    def ties(self, config: ModelConfig) -> dict[str, str]:
        return {"generator_lm_head.weight": "electra.embeddings.word_embeddings.weight"} if config.tied else {}

    def unread_copies(self, config: ModelConfig) -> dict[str, str]:
        return {}
