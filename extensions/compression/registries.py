"""The registries of compression: folders with an algorithm a file, and the interface of each."""

from typing import TYPE_CHECKING, Annotated, TypeAlias

from clozeline.registry import Component, Registry

if TYPE_CHECKING:  # help lists algorithms without their interfaces, which import torch
    from clozeline.extensions.compression.distillation.losses import DistillationLoss
    from clozeline.extensions.compression.methods import Method
    from clozeline.extensions.compression.pruning import Pruning

METHODS: Registry["Method"] = Registry(
    "clozeline.extensions.compression.methods", "Method", suffix="Method"
)
"""Methods of compression after training."""
PRUNING: Registry["Pruning"] = Registry(
    "clozeline.extensions.compression.pruning", "Pruning", suffix="Pruning"
)
"""Methods of pruning during training."""
DISTILLATION_LOSSES: Registry["DistillationLoss"] = Registry(
    "clozeline.extensions.compression.distillation.losses",
    "DistillationLoss",
    suffix="Loss",
    address="distillation/losses",
)
"""Losses between a student and its teacher."""

PruningComponent: TypeAlias = Annotated[Component["Pruning"], PRUNING]
LossComponent: TypeAlias = Annotated[Component["DistillationLoss"], DISTILLATION_LOSSES]
"""Types of fields that name an algorithm."""
