"""Store weights as int8, with a scale per output channel (arXiv 1910.06188)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from clozeline.configuration.config import config_class
from clozeline.model.checkpoints import Checkpoint
from clozeline.model.compression._method import Batch, Compressed, Method
from clozeline.model.compression._quantization import quantize
from clozeline.registry import choose


class Int8(Method):
    """Round the linear maps of the body to int8; each product rounds its inputs per token.

    A model that was trained with `model.quantization=int8` computes the same logits before and after.
    """

    options: Options
    claim: ClassVar = "a quarter of the bytes, 99 % of the score after training with it (1910.06188)"

    @config_class
    class Options:
        """Matrices to round."""

        embeddings: bool = False
        """Also round the token table and the output projection, per row."""

    def compress(self, checkpoint: Checkpoint, batches: Sequence[Batch]) -> Compressed:
        entry = {"name": "int8", "embeddings": self.options.embeddings}
        return quantize(checkpoint, choose("clozeline.model.quantization.formats", entry))
