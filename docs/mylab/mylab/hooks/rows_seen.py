"""Record how many rows a training has seen."""

from clozeline.configuration.config import config_class
from clozeline.report.recorded_series import RecordedSeries
from clozeline.train.hooks import Hook


class RowsSeen(Hook):
    """Record the number of rows up to each step as `rows_seen` in metrics.jsonl.

    The report draws it, and `clozeline status` shows the last value.
    """

    observes = True
    charts = (RecordedSeries(name="Rows seen", keys=("rows_seen",), headline=True),)

    @config_class
    class Options:
        per: int = 1
        """rows of a unit: 1000 records thousands"""

    def end(self, step, norm):
        return {"rows_seen": step.index * step.rows / self.options.per}
