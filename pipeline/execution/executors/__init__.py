"""Executors: where the units of a pass run. One executor a file; the bytes of the output do not depend on it."""

from clozeline.pipeline.execution.executors._executor import Deal, Executor, UnitStep, logs_apart, workers_of

__all__ = ["Deal", "Executor", "UnitStep", "logs_apart", "workers_of"]
