"""RoBERTa and types with its positions: CamemBERT, XLM-R, and XLM-R XL and XXL."""

from typing import Any, ClassVar

from clozeline.model.checkpoints._conversion.key_map import Keys, Tensors
from clozeline.model.checkpoints._conversion.tables import ANSWER, DROPOUT, TAGS
from clozeline.model.checkpoints._conversion.task_heads import Task
from clozeline.model.checkpoints.bert import BODY, DEFAULTS, FIELDS, FIXED, ONLY, MaskedLMHead, body_names
from clozeline.model.configuration.model_config import ModelConfig


class Roberta(MaskedLMHead):
    """RoBERTa (arXiv 1907.11692).

    BERT whose position ids start after the padding id; its head always uses the exact GELU.
    """

    model_type = "roberta"
    stem = "Roberta"
    class_ends: ClassVar = {("masked_lm",): "ForMaskedLM"}
    causal: ClassVar[str | None] = "ForCausalLM"
    pooled = True
    base = "roberta."
    tasks: ClassVar = {
        "ForSequenceClassification": Task(
            "classifier.out_proj", "classifier.dense", options={"hidden": "tanh"}, dropout=DROPOUT, twice=True
        ),
        "ForTokenClassification": TAGS,
        "ForQuestionAnswering": ANSWER,
        "ForMultipleChoice": Task("classifier", "roberta.pooler.dense", options={"hidden": "tanh"}),
    }
    fixed: ClassVar = FIXED
    fields: ClassVar = FIELDS
    defaults: ClassVar = DEFAULTS
    only: ClassVar = ONLY
    activations: ClassVar = {"gelu": "gelu"}
    also_read = ("max_position_embeddings",)
    head = "lm_head"
    modules: ClassVar = {
        **body_names("roberta."),
        "heads.masked_lm.transform": "lm_head.dense",
        "heads.masked_lm.norm": "lm_head.layer_norm",
    }
    left_out = (r"^(roberta\.)?pooler\.",)
    buffers = (r"embeddings\.position_ids$", r"embeddings\.token_type_ids$")

    def more_of_ours(self, plain: Keys, tensors: Tensors) -> dict[str, Any]:
        self.refuse_no_types(plain)
        pad, rows = plain.get("pad_token_id", 1), plain.get("max_position_embeddings")
        if not isinstance(pad, int) or not isinstance(rows, int) or rows <= pad + 1:
            why = f"expected numbers, the second larger by 2 or more, got {pad!r} and {rows!r}"
            self.refuse("pad_token_id and max_position_embeddings", why)
        return {"position.maximum": rows - pad - 1, "position.offset": pad + 1}

    def more_of_theirs(self, config: ModelConfig) -> dict[str, Any]:
        return {"max_position_embeddings": config.position.maximum + config.position.offset}


class Camembert(Roberta):
    """CamemBERT (arXiv 1911.03894).

    RoBERTa under another name, with RoBERTa's tensor names.
    """

    model_type = "camembert"
    stem = "Camembert"


class XlmRoberta(Roberta):
    """XLM-R (arXiv 1911.02116).

    RoBERTa under another name, with RoBERTa's tensor names.
    """

    model_type = "xlm-roberta"
    stem = "XLMRoberta"


_LAYER = {**BODY, "attention.norm": "attention.self_attn_layer_norm", "feed_forward.norm": "LayerNorm"}


class XlmRobertaXl(Roberta):
    """XLM-R XL and XXL (arXiv 2105.00572).

    RoBERTa with the norms before attention and feed-forward block, and one after the last layer.
    """

    model_type = "xlm-roberta-xl"
    stem = "XLMRobertaXL"
    fixed: ClassVar = {**FIXED, "norm_place": "pre", "final_norm": True, "emb_norm": False}
    defaults: ClassVar = {**DEFAULTS, "type_vocab_size": 1, "layer_norm_eps": 1e-5}
    modules: ClassVar = {
        **Roberta.modules,
        **body_names("roberta.", _LAYER),
        "family.stack.norm": "roberta.encoder.LayerNorm",
    }
