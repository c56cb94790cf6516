"""The registries of the trainer: folders with an algorithm a file, and the interface of each."""

from typing import TYPE_CHECKING, Annotated, TypeAlias

from clozeline.registry import Component, Registry

if TYPE_CHECKING:  # help lists algorithms without their interfaces, which import torch
    from clozeline.train.checkpoint.keys import StateKey
    from clozeline.train.configuration.keys import TrainingKey
    from clozeline.train.hooks import Hook
    from clozeline.train.optim.optimizers import OptimizerBuilder
    from clozeline.train.optim.regularizers import Regularizer
    from clozeline.train.optim.schedules import Schedule

OPTIMIZERS: Registry["OptimizerBuilder"] = Registry(
    "clozeline.train.optim.optimizers", "OptimizerBuilder"
)
"""Optimizers."""
SCHEDULES: Registry["Schedule"] = Registry(
    "clozeline.train.optim.schedules", "Schedule", suffix="Schedule"
)
"""Learning-rate schedules."""
REGULARIZERS: Registry["Regularizer"] = Registry(
    "clozeline.train.optim.regularizers", "Regularizer"
)
"""Regularizers, which keep weights close to their initial values."""
HOOKS: Registry["Hook"] = Registry("clozeline.train.hooks", "Hook")
"""Hooks: what follows a training."""
TRAINING_KEYS: Registry["TrainingKey"] = Registry(
    "clozeline.train.configuration.keys", "TrainingKey", suffix="Config", address="keys/train"
)
"""Keys of a training that extensions add."""
STATE_KEYS: Registry["StateKey"] = Registry(
    "clozeline.train.checkpoint.keys", "StateKey", suffix="Key", address="keys/state"
)
"""Keys of the state of checkpoints that extensions add."""

OptimizerComponent: TypeAlias = Annotated[Component["OptimizerBuilder"], OPTIMIZERS]
ScheduleComponent: TypeAlias = Annotated[Component["Schedule"], SCHEDULES]
RegularizerComponent: TypeAlias = Annotated[Component["Regularizer"], REGULARIZERS]
HookComponent: TypeAlias = Annotated[Component["Hook"], HOOKS]
"""Types of fields that name an algorithm."""
