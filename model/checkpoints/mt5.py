"""mT5 (arXiv 2010.11934)."""

from clozeline.model.checkpoints._conversion.key_map import Keys
from clozeline.model.checkpoints.t5 import T5


class Mt5(T5):
    """T5 1.1 with another vocabulary; states are never scaled before the head."""

    model_type = "mt5"
    stem = "MT5"
    bare_end = "EncoderModel"
    feed_forward = "gated-gelu"

    def has_output_scale(self, plain: Keys, tied: bool) -> bool:
        """Return False, whatever config.json says."""
        return False
