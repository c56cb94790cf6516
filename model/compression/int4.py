"""Store weights as int4 in groups, rounded to the nearest or by GPTQ (arXiv 2210.17323)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from pydantic import Field

from clozeline.configuration.config import config_class
from clozeline.model.checkpoints import Checkpoint
from clozeline.model.compression._method import Batch, Compressed, Method
from clozeline.model.compression._quantization import quantize
from clozeline.registry import choose


class Int4(Method):
    """Round the linear maps of the body to int4, with an fp16 scale per group of inputs. It saves disk only.

    With calibration rows, GPTQ rounds each layer so that its outputs on these rows change least.
    """

    options: Options
    claim: ClassVar = "3 to 4 bits with little loss of perplexity at 175 B parameters (2210.17323)"
    calibration: ClassVar = "optional"

    @config_class
    class Options:
        """Groups, and matrices to round."""

        group: Annotated[int, Field(ge=2, le=2**20, multiple_of=2)] = 64
        """Inputs that share a scale, an even divisor of the width of every matrix."""
        embeddings: bool = False
        """Also round the token table and the output projection, to nearest."""

    def compress(self, checkpoint: Checkpoint, batches: Sequence[Batch]) -> Compressed:
        entry = {"name": "int4", "group": self.options.group, "embeddings": self.options.embeddings}
        return quantize(checkpoint, choose("clozeline.model.quantization.formats", entry), batches)
