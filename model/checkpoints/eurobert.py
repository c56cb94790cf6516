"""EuroBERT (arXiv 2503.05500)."""

from typing import Any, ClassVar, Final

from clozeline.model.checkpoints._conversion.key_map import Keys, Tensors
from clozeline.model.checkpoints._conversion.task_heads import Task
from clozeline.model.checkpoints.llama import Llama
from clozeline.model.configuration.model_config import ModelConfig

_POOLS: Final = {"late": "late", "mean": "mean", "bos": "cls"}
"""Their names of pools and ours; the first is their default."""


class EuroBert(Llama):
    """Llama's layers without a causal mask; the masked LM head is a projection alone, with a bias if the blocks have.

    A class scores every token and takes the mean of the scores (`late`), unless `classifier_pooling` says otherwise.
    """

    model_type = "eurobert"
    stem = "EuroBert"
    class_ends: ClassVar = {("masked_lm",): "ForMaskedLM"}
    head_options: ClassVar = {"transform": False}
    tasks: ClassVar = {
        "ForSequenceClassification": Task("classifier", "dense", options={"hidden": "gelu", "dropout": 0.0}),
        "ForTokenClassification": Task("classifier", options={"dropout": 0.0}),
    }
    fixed: ClassVar = {**Llama.fixed, "family": "encoder"}
    defaults: ClassVar = {**Llama.defaults, "rms_norm_eps": 1e-5, "max_position_embeddings": 8192}
    also_read = (*Llama.also_read, "classifier_pooling")
    modules: ClassVar = {
        **{ours: theirs for ours, theirs in Llama.modules.items() if not ours.startswith("heads.")},
        "heads.masked_lm.projection": "lm_head",
    }

    def more_of_ours(self, plain: Keys, tensors: Tensors) -> dict[str, Any]:
        head = {"weight": 1.0, "transform": False, "bias": bool(plain.get("mlp_bias"))}
        return {**super().more_of_ours(plain, tensors), "heads.masked_lm": head}

    def task_options(self, ending: str, plain: Keys) -> dict[str, Any]:
        if ending != "ForSequenceClassification":
            return {}
        if (name := plain.get("classifier_pooling", "late")) not in _POOLS:
            self.refuse("classifier_pooling", f"expected one of {', '.join(_POOLS)}, got {name!r}")
        return {"pool": _POOLS[name]}

    def task_keys(self, config: ModelConfig) -> dict[str, Any]:
        (head,) = config.heads.values()
        name = next((theirs for theirs, ours in _POOLS.items() if ours == head.pool_in(config.architecture)), "late")
        return {"classifier_pooling": name}
