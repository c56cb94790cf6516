"""Qwen 3 (arXiv 2505.09388)."""

from typing import ClassVar

from clozeline.model.checkpoints._conversion.tables import without_keys
from clozeline.model.checkpoints.llama import NORMS, QK_NORMS, Llama, llama_names
from clozeline.model.checkpoints.qwen2 import Qwen2


class Qwen3(Qwen2):
    """Llama with the windows of Qwen 2 and a norm of each query and key; a head is 128 wide unless a key says so."""

    model_type = "qwen3"
    stem = "Qwen3"
    fixed: ClassVar = {**Llama.fixed, "bias.ffn": False, "qk_norm": "head"}
    fields, defaults = without_keys(Llama.fields, {**Llama.defaults, **Qwen2.defaults}, ["bias.ffn"], head_dim=128)
    modules: ClassVar = llama_names({**NORMS, **QK_NORMS})
