"""Executors, one per file: where the units of a pass run. The output does not depend on the executor."""

from clozeline.pipeline.execution.executors._executor import Deal, Executor, UnitStep, logs_apart, workers_of

__all__ = ["Deal", "Executor", "UnitStep", "logs_apart", "workers_of"]
