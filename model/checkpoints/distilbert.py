"""DistilBERT (arXiv 1910.01108)."""

from typing import ClassVar, Final

from clozeline.model.checkpoints._conversion.key_map import KeyMap
from clozeline.model.checkpoints._conversion.tables import attention_names, layer_names, split_defaults
from clozeline.model.checkpoints._conversion.task_heads import Task
from clozeline.model.checkpoints.bert import FIXED

_SCORES = Task("classifier", "pre_classifier", options={"hidden": "relu"}, dropout="seq_classif_dropout", usual=0.2)
_MODULES: Final = {
    **attention_names("attention.q_lin", "attention.k_lin", "attention.v_lin", "attention.out_lin"),
    "attention.norm": "sa_layer_norm",
    "feed_forward.body.up": "ffn.lin1",
    "feed_forward.body.down": "ffn.lin2",
    "feed_forward.norm": "output_layer_norm",
}
"""Modules of a layer."""


class DistilBert(KeyMap):
    """BERT without segment types. A sinusoidal table, if a checkpoint has one, becomes an ordinary table."""

    model_type = "distilbert"
    stem = "DistilBert"
    class_ends: ClassVar = {("masked_lm",): "ForMaskedLM"}
    base = "distilbert."
    tasks: ClassVar = {
        "ForSequenceClassification": _SCORES,
        "ForMultipleChoice": _SCORES,
        "ForTokenClassification": Task("classifier"),
        "ForQuestionAnswering": Task("qa_outputs", dropout="qa_dropout", usual=0.1),
    }
    fixed: ClassVar = {**FIXED, "type_vocab_size": 0, "eps": 1e-12}
    fields, defaults = split_defaults(
        {
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
        },
        activation="gelu",
    )
    only: ClassVar = {"sinusoidal_pos_embds": (False, True)}
    activation = "activation"
    activations: ClassVar = {"gelu": "gelu", "relu": "relu"}
    modules: ClassVar = {
        "family.tokens": "distilbert.embeddings.word_embeddings",
        "family.stack.position.table": "distilbert.embeddings.position_embeddings",
        "family.stack.embeddings.norm": "distilbert.embeddings.LayerNorm",
        **layer_names("family.stack", "distilbert.transformer.layer", _MODULES),
        "heads.masked_lm.transform": "vocab_transform",
        "heads.masked_lm.norm": "vocab_layer_norm",
        "heads.masked_lm.projection.bias": "vocab_projector.bias",
        "heads.masked_lm.projection.weight": "vocab_projector.weight",
    }
    buffers = (r"embeddings\.position_ids$",)
