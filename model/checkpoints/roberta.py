"""RoBERTa (arXiv 1907.11692)."""

from typing import Any, ClassVar

from clozeline.errors import ConfigurationError
from clozeline.model.checkpoints._conversion.key_map import Keys, Tensors
from clozeline.model.checkpoints._conversion.original_names import Origin
from clozeline.model.checkpoints._conversion.tables import ANSWER, DROPOUT, TAGS
from clozeline.model.checkpoints._conversion.task_heads import Task
from clozeline.model.checkpoints.bert import (
    BODY,
    DEFAULTS,
    FIELDS,
    FIXED,
    ONLY,
    MaskedLMHead,
    body_names,
    refuse_no_types,
)
from clozeline.model.configuration.model_config import ModelConfig

_STACK = r"(?:encoder|decoder)\.sentence_encoder\."
_LAYER = _STACK + r"layers\.(\d+)\."
_THEIRS = "roberta.encoder.layer.{0}."
_FAIRSEQ = {
    **{rf"self_attn\.{part[0]}_proj": f"attention.body.{part}" for part in ("query", "key", "value")},
    r"self_attn\.out_proj": "attention.body.out",
    "self_attn_layer_norm": "attention.norm",
    "fc1": "feed_forward.body.up",
    "fc2": "feed_forward.body.down",
    "final_layer_norm": "feed_forward.norm",
}
"""Modules of a layer in the original program, and ours."""


class Roberta(MaskedLMHead):
    """BERT whose position ids start after the padding id; its head always uses the exact GELU."""

    model_type = "roberta"
    stem = "Roberta"
    class_ends: ClassVar = {("masked_lm",): "ForMaskedLM"}
    causal: ClassVar[str | None] = "ForCausalLM"
    pooled = True
    base = "roberta."
    tasks: ClassVar = {
        "classification": Task(
            "classifier.out_proj", "classifier.dense", options={"hidden": "tanh"}, dropout=DROPOUT, twice=True
        ),
        "tagging": TAGS,
        "span": ANSWER,
        "multiple_choice": Task("classifier", "roberta.pooler.dense", options={"hidden": "tanh"}),
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
    origins: ClassVar = (
        Origin(_STACK + r"embed_tokens\.weight", ("roberta.embeddings.word_embeddings.weight",)),
        Origin(_STACK + r"embed_positions\.weight", ("roberta.embeddings.position_embeddings.weight",)),
        Origin(_STACK + r"(?:emb_layer_norm|layernorm_embedding)\.(\w+)", ("roberta.embeddings.LayerNorm.{0}",)),
        Origin(
            _LAYER + r"self_attn\.in_proj_(weight|bias)",
            tuple(f"{_THEIRS}attention.self.{part}.{{1}}" for part in ("query", "key", "value")),
        ),
        *(Origin(_LAYER + rf"{name}\.(\w+)", (f"{_THEIRS}{BODY[ours]}.{{1}}",)) for name, ours in _FAIRSEQ.items()),
        Origin(r"(?:encoder|decoder)\.lm_head\.weight", ("lm_head.decoder.weight",)),
        Origin(r"(?:encoder|decoder)\.lm_head\.(.+)", ("lm_head.{0}",)),
    )
    zero_if_absent = ("roberta.embeddings.token_type_embeddings.weight",)

    def more_of_ours(self, plain: Keys, tensors: Tensors) -> dict[str, Any]:
        refuse_no_types(self.model_type, plain)
        pad, rows = plain.get("pad_token_id", 1), plain.get("max_position_embeddings")
        if not isinstance(pad, int) or not isinstance(rows, int) or rows <= pad + 1:
            raise ConfigurationError(
                f"config.json of type {self.model_type}: expected numbers pad_token_id and max_position_embeddings, "
                f"the second larger by 2 or more, got {pad!r} and {rows!r}"
            )
        return {"position.maximum": rows - pad - 1, "position.offset": pad + 1}

    def more_of_theirs(self, config: ModelConfig) -> dict[str, Any]:
        return {"max_position_embeddings": config.position.maximum + config.position.offset}
