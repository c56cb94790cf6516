"""Megatron-LM's BERT (arXiv 1909.08053)."""

from typing import ClassVar

from clozeline.model.checkpoints._conversion.tables import ANSWER
from clozeline.model.checkpoints._conversion.task_heads import Task
from clozeline.model.checkpoints.bert import BODY, FIXED, POOLED, Bert, body_names


class MegatronBert(Bert):
    """BERT with the norms before attention and feed-forward block, and one after the last layer."""

    model_type = "megatron-bert"
    stem = "MegatronBert"
    causal = "ForCausalLM"
    tasks: ClassVar = {
        "ForSequenceClassification": POOLED._replace(dropout=None),
        "ForMultipleChoice": POOLED._replace(dropout=None),
        "ForTokenClassification": Task("classifier"),
        "ForQuestionAnswering": ANSWER,
    }
    fixed: ClassVar = {**FIXED, "norm_place": "pre", "final_norm": True, "emb_norm": False}
    modules: ClassVar = {
        **Bert.modules,
        **body_names("bert.", {**BODY, "attention.norm": "attention.ln", "feed_forward.norm": "ln"}),
        "family.stack.norm": "bert.encoder.ln",
    }
