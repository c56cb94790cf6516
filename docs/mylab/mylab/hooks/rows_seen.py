"""Record how many rows a training has seen."""

from clozeline.configuration.config import config_class
from clozeline.train.hooks import Hook


class RowsSeen(Hook):
    """Record the number of rows up to each step as `rows_seen` in metrics.jsonl."""

    observes = True

    @config_class
    class Options:
        per: int = 1
        """rows of a unit: 1000 records thousands"""

    def end(self, step, norm):
        return {"rows_seen": step.index * step.rows / self.options.per}
