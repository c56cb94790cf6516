"""Count the rows of a training: {per: 1000}."""

from clozeline.configuration.config import config_class
from clozeline.train.configuration.keys import TrainingKey
from clozeline.train.registries import HOOKS


@config_class
class RowCounterConfig(TrainingKey):
    """Count the rows of a training."""

    per: int = 1
    """rows of a unit: 1000 records thousands"""

    def hooks(self):
        return [HOOKS.resolve({"name": "rows_seen", "per": self.per})]
