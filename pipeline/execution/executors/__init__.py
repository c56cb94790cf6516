"""Executors, one per file: where the units of a pass run. The output does not depend on the executor."""

from clozeline.pipeline.execution.executors._executor import Deal, Executor, logs_apart

__all__ = ["Deal", "Executor", "logs_apart"]
