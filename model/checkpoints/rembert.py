"""RemBERT (arXiv 2010.12821)."""

from collections.abc import Mapping
from typing import Any, ClassVar

from clozeline.model.checkpoints._conversion.key_map import Keys, Tensors
from clozeline.model.checkpoints._conversion.tables import ANSWER
from clozeline.model.checkpoints._conversion.task_heads import Task
from clozeline.model.checkpoints.bert import DEFAULTS, FIXED, ONLY, Bert, body_names
from clozeline.model.configuration.model_config import ModelConfig

_DROPOUT = "classifier_dropout_prob"
_POOLED = Task("classifier", "rembert.pooler.dense", options={"hidden": "tanh"}, dropout=_DROPOUT, usual=0.1)


class RemBert(Bert):
    """BERT with a narrow token table and a separate wide output projection."""

    model_type = "rembert"
    stem = "RemBert"
    causal = "ForCausalLM"
    base = "rembert."
    class_ends: ClassVar = {("masked_lm",): "ForMaskedLM"}
    tasks: ClassVar[Mapping[str, Task]] = {
        "ForSequenceClassification": _POOLED,
        "ForMultipleChoice": _POOLED,
        "ForTokenClassification": Task("classifier", dropout=_DROPOUT, usual=0.1),
        "ForQuestionAnswering": ANSWER,
    }
    marks: ClassVar = {}
    body = ("family.",)
    fixed: ClassVar = {**FIXED, "tied": False}
    fields: ClassVar = {
        **{ours: theirs for ours, theirs in Bert.fields.items() if ours != "tied"},
        "emb_dim": "input_embedding_size",
        "out_dim": "output_embedding_size",
    }
    defaults: ClassVar = {**DEFAULTS, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    only: ClassVar = {**ONLY, "tie_word_embeddings": (False,)}
    modules: ClassVar = {
        **body_names("rembert."),
        "family.stack.embeddings.project": "rembert.encoder.embedding_hidden_mapping_in",
        "heads.masked_lm.transform": "cls.predictions.dense",
        "heads.masked_lm.norm": "cls.predictions.LayerNorm",
    }
    left_out = (r"^(rembert\.)?pooler\.",)

    def unread_copies(self, config: ModelConfig) -> dict[str, str]:
        return {}

    def more_of_ours(self, plain: Keys, tensors: Tensors) -> dict[str, Any]:
        self.refuse_equal_widths(plain, "input_embedding_size")
        return super().more_of_ours(plain, tensors)
