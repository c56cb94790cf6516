"""RoBERTa and types with its positions: CamemBERT, XLM-R, and XLM-R XL and XXL."""

from dataclasses import replace

from clozeline.extensions.published.conversion.classes import Classes
from clozeline.extensions.published.conversion.tables import (
    ANSWER,
    DROPOUT,
    TAGS,
    Keys,
    Tensors,
    Values,
)
from clozeline.extensions.published.conversion.task_heads import TaskHeadNames
from clozeline.extensions.published.model_types.bert import BODY, FIXED, MaskedLMKeys, body_names
from clozeline.model.configuration.model_config import ModelConfig


class RobertaKeys(MaskedLMKeys):
    """RoBERTa (arXiv 1907.11692).

    BERT whose position ids start after the padding id; its head always uses the exact GELU.
    """

    model_type = "roberta"
    causal = "ForCausalLM"
    classes = Classes(
        "Roberta",
        head_classes={("masked_lm",): "ForMaskedLM"},
        tasks={
            "ForSequenceClassification": TaskHeadNames(
                "classifier.out_proj",
                "classifier.dense",
                options={"hidden": "tanh"},
                dropout=DROPOUT,
                twice=True,
            ),
            "ForTokenClassification": TAGS,
            "ForQuestionAnswering": ANSWER,
            "ForMultipleChoice": TaskHeadNames(
                "classifier", "roberta.pooler.dense", options={"hidden": "tanh"}
            ),
        },
    )

    class Configuration(MaskedLMKeys.Configuration):
        activations = {"gelu": "gelu"}
        extra_keys = {
            "max_position_embeddings",
        }

        def read_extra(self, config_json: Keys, tensors: Tensors) -> Values:
            self.check_segment_types(config_json)
            pad = config_json.get("pad_token_id", 1)
            rows = config_json.get("max_position_embeddings")
            if not isinstance(pad, int) or not isinstance(rows, int) or rows <= pad + 1:
                reason = (
                    f"expected numbers, the second larger by 2 or more, got {pad!r} and {rows!r}"
                )
                self.refuse("pad_token_id and max_position_embeddings", reason)
            return {"position.maximum": rows - pad - 1, "position.offset": pad + 1}

        def write_extra(self, config: ModelConfig) -> Values:
            return {"max_position_embeddings": config.position.maximum + config.position.offset}

    class Tensors(MaskedLMKeys.Tensors):
        pooled = True
        base = "roberta."
        head = "lm_head"
        modules = {
            **body_names("roberta."),
            "heads.masked_lm.transform": "lm_head.dense",
            "heads.masked_lm.norm": "lm_head.layer_norm",
        }
        skipped = {
            r"^(roberta\.)?pooler\.",
        }
        buffers = {r"embeddings\.position_ids$", r"embeddings\.token_type_ids$"}


class CamembertKeys(RobertaKeys):
    """CamemBERT (arXiv 1911.03894).

    RoBERTa under another name, with RoBERTa's tensor names.
    """

    model_type = "camembert"
    classes = replace(RobertaKeys.classes, prefix="Camembert")


class XlmRobertaKeys(RobertaKeys):
    """XLM-R (arXiv 1911.02116).

    RoBERTa under another name, with RoBERTa's tensor names.
    """

    model_type = "xlm-roberta"
    classes = replace(RobertaKeys.classes, prefix="XLMRoberta")


_XL_LAYER_MODULES = {
    **BODY,
    "attention.norm": "attention.self_attn_layer_norm",
    "feed_forward.norm": "LayerNorm",
}


class XlmRobertaXlKeys(RobertaKeys):
    """XLM-R XL and XXL (arXiv 2105.00572).

    RoBERTa with the norms before attention and feed-forward block, and one after the last layer.
    """

    model_type = "xlm-roberta-xl"
    classes = replace(RobertaKeys.classes, prefix="XLMRobertaXL")

    class Configuration(RobertaKeys.Configuration):
        fixed = {**FIXED, "norm_place": "pre", "final_norm": True, "emb_norm": False}
        more_defaults = {"type_vocab_size": 1, "layer_norm_eps": 1e-5}

    class Tensors(RobertaKeys.Tensors):
        modules = {
            **RobertaKeys.Tensors.modules,
            **body_names("roberta.", _XL_LAYER_MODULES),
            "family.stack.norm": "roberta.encoder.LayerNorm",
        }
