"""mT5 (arXiv 2010.11934)."""

from collections.abc import Mapping
from typing import Any

from clozeline.model.checkpoints._conversion.key_map import KeyMap
from clozeline.model.checkpoints.t5 import T5, T5Encoder


class Mt5(T5):
    """T5 1.1 with another vocabulary; states are never scaled before the head."""

    model_type = "mt5"
    headed = "MT5ForConditionalGeneration"
    bare = "MT5EncoderModel"
    feed_forward = "gated-gelu"

    def variants(self) -> tuple[KeyMap, ...]:
        return (Mt5Encoder(),)

    def has_output_scale(self, plain: Mapping[str, Any], tied: bool) -> bool:
        """Return False, whatever config.json says."""
        return False


class Mt5Encoder(T5Encoder, Mt5):
    """T5's map of the encoder alone, with the tables of mT5."""
