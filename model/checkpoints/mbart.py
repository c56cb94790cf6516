"""mBART (arXiv 2001.08210)."""

from typing import ClassVar

from clozeline.model.checkpoints.bart import Bart


class Mbart(Bart):
    """BART with the norm before each block, and one after the last layer of each stack."""

    model_type = "mbart"
    stem = "MBart"
    fixed: ClassVar = {**Bart.fixed, "norm_place": "pre", "final_norm": True}
    only: ClassVar = {"normalize_before": (True,), "static_position_embeddings": (False,), "is_decoder": (False,)}
