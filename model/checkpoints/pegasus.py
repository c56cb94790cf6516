"""PEGASUS (arXiv 1912.08777), and the fixed position tables that it shares with Marian."""

from typing import Any, ClassVar, Final

import torch
from torch import Tensor

from clozeline.model.checkpoints._conversion.key_map import Keys, Tensors
from clozeline.model.checkpoints.bart import Bart
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.layers.position import Sinusoidal

_TABLES: Final = tuple(f"model.{stack}.embed_positions.weight" for stack in ("encoder", "decoder"))
_FORMULA: Final = 1e-6
"""Largest difference of a table from the waves that it is taken for."""


class FixedPositions(Bart):
    """BART without a norm after the embeddings, whose positions are waves: all sines before all cosines.

    A class reads the tables of a file, whatever they hold. So tables that are no such waves are read as learned ones.
    """

    fixed: ClassVar = {
        **{key: value for key, value in Bart.fixed.items() if not key.startswith("position.")},
        "emb_norm": False,
    }
    also_read: ClassVar[tuple[str, ...]] = (
        *("static_position_embeddings", "extra_pos_embeddings", "normalize_embedding", "add_final_layer_norm"),
        *("add_bias_logits", "classif_dropout"),
    )
    tasks: ClassVar = {}

    def more_of_ours(self, plain: Keys, tensors: Tensors) -> dict[str, Any]:
        """Return the head, and positions as the tables say; without tables as config.json does."""
        tables = [tensor for name, tensor in tensors.items() if name.endswith("embed_positions.weight")]
        fixed = all(map(_is_waves, tables)) if tables else plain.get("static_position_embeddings", True)
        position = {"kind": "sinusoidal", "waves": "halves"} if fixed else {"kind": "learned"}
        return super().more_of_ours(plain, tensors) | {f"position.{key}": value for key, value in position.items()}

    def more_of_theirs(self, config: ModelConfig) -> dict[str, Any]:
        fixed = config.position.kind == "sinusoidal"
        return {**super().more_of_theirs(config), "static_position_embeddings": fixed}


class Pegasus(FixedPositions):
    """The norm before each block, and one after the last layer of each stack."""

    model_type = "pegasus"
    stem = "Pegasus"
    fixed: ClassVar = {**FixedPositions.fixed, "norm_place": "pre", "final_norm": True}
    only: ClassVar = {"normalize_before": (True,), "is_decoder": (False,)}

    def constants(self, config: ModelConfig, vocab_size: int) -> dict[str, Tensor]:
        """Return the bias of the logits, and the tables, which the class saves."""
        waves = _waves(config.position.maximum, config.dim) if config.position.kind == "sinusoidal" else None
        tables = {} if waves is None else {name: waves.clone() for name in _TABLES}
        return {**super().constants(config, vocab_size), **tables}


def _waves(rows: int, width: int) -> Tensor:
    return Sinusoidal(width, "halves").embed(torch.arange(rows))


def _is_waves(table: Tensor) -> bool:
    waves = _waves(*table.shape) if table.shape[1] % 2 == 0 else None
    return waves is not None and bool((table.float() - waves.to(table.dtype).float()).abs().max() <= _FORMULA)
