"""Units run in this process, with records, as an executor runs them."""

from types import SimpleNamespace

from clozeline.errors import ClozelineError, ConfigurationError, IntegrityError, StorageError
from clozeline.pipeline.execution.arguments import Describer
from clozeline.pipeline.execution.stages import UnitRunner
from clozeline.pipeline.execution.unit_record import UnitRecord, add_counts

_ERRORS = {error.exit_code: error for error in (ConfigurationError, IntegrityError, StorageError)}


def run_pass(stage, work, order=list):
    """Run the units of a pass in an order, and return the sums of their counts.

    A failed unit raises its error.
    """
    describe = Describer().describe
    arguments = {name: describe(unit) for name, unit in work.units.items()}
    runner = UnitRunner(stage, work, arguments)
    total = {}
    for name in order(arguments):
        runner(name)
        record = UnitRecord.read(runner.path(name))
        if record.status != "ok":
            raise _ERRORS.get(record.exit_code, ClozelineError)(record.error + record.trace)
        add_counts(total, record.counts)
    return total


def stage_in(folder, **others):
    """Return a stage in a folder that finds all other stages there, or in the given folders."""
    return SimpleNamespace(
        folder=folder,
        find_folder=lambda name: others.get(name, folder),
        check=lambda counts: None,
    )
