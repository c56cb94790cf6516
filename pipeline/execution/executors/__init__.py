"""Executors, one per file: where the units of a pass run.

The output does not depend on the executor.
"""

from clozeline.pipeline.execution.executors._executor import (
    WORK_FILE,
    Assignment,
    Executor,
    load_work,
    memory_of_cores,
    publish_work,
    run_on_node,
)

__all__ = [
    "WORK_FILE",
    "Assignment",
    "Executor",
    "load_work",
    "memory_of_cores",
    "publish_work",
    "run_on_node",
]
